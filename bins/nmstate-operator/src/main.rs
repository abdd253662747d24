//! `nmstate-operator`: node network policies for OpenShift clusters.

use std::process::ExitCode;

fn main() -> ExitCode {
    nmstate_operator::run(std::env::args_os())
}
