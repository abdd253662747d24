//! `oc-mirror`: mirrors container images across an air gap.

use std::process::ExitCode;

use oc_mirror::ProcessEnvironment;

/// The system's allocator keeps two to three times as much memory as is in use
/// when many images pass through few threads; this one gives it back.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    oc_mirror::run(&line, &ProcessEnvironment::of_process())
}
