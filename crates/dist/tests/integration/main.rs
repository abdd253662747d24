//! The program on machines that cannot build a release, and with unusual disks.

mod disks;

use std::process::{Command, Output};

fn dist(cache: &std::path::Path, out: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dist"))
        .args(arguments)
        .arg("--out")
        .arg(out)
        .env("XDG_CACHE_HOME", cache)
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .expect("starting dist")
}

#[test]
fn a_missing_cross_compiler_ends_the_build_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out"));
    let ended = dist(&cache, &out, &["--program", "enhance", "--arch", "aarch64"]);
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("zig 0.15.2"), "{errors}");
    assert!(errors.contains("run `cargo xtask tools --dist`"), "{errors}");
    assert!(!out.exists());
}

/// Compiling takes most of an hour: what only the checks need is missed before.
#[test]
fn missing_tools_of_the_checks_end_the_run_before_anything_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out"));
    let ended = dist(&cache, &out, &["--program", "enhance", "--check"]);
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    for tool in ["cargo-generate-rpm", "cosign", "validate-krew-manifest", "oc 0.0.0-alpha"] {
        assert!(errors.contains(tool), "{tool}: {errors}");
    }
    assert!(!out.exists());
}

#[test]
fn an_unknown_architecture_is_rejected_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let ended = dist(folder.path(), &folder.path().join("out"), &["--arch", "s390x"]);
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        errors,
        "error: invalid value for --arch: expected x86_64 or aarch64, found `s390x`\n"
    );
}
