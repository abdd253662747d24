//! skopeo, the independent reader and writer.

use std::process::{Command, Output};

/// Runs skopeo and returns what it printed; fails the test if skopeo did.
pub(crate) fn skopeo(args: &[&str]) -> String {
    let output = run(args);
    assert!(
        output.status.success(),
        "skopeo {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs skopeo, expecting it to fail, and returns its complaint.
#[allow(dead_code, reason = "not every test file expects failures")]
pub(crate) fn skopeo_fails(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "skopeo {args:?} was expected to fail");
    String::from_utf8(output.stderr).unwrap()
}

fn run(args: &[&str]) -> Output {
    Command::new("skopeo")
        .args(["--insecure-policy"])
        .args(args)
        .output()
        .expect("running skopeo; `apt-get install skopeo` installs it")
}
