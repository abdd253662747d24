//! `oc-mirror`: carries container images across an air gap.

use std::process::ExitCode;

use oc_mirror::Surroundings;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    oc_mirror::run(&line, &Surroundings::of_process())
}
