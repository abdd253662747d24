//! The committed documents say what the program does.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn man_pages_and_the_reference_are_as_generated() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let out = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_enhance"))
        .args(["generate-docs", "--out"])
        .arg(out.path())
        .status()
        .unwrap();
    assert!(status.success());
    for (folder, due) in [("man", "enhance.1"), ("reference", "enhance.md")] {
        assert!(out.path().join(folder).join(due).is_file(), "{folder}/{due} was not made");
        for entry in fs::read_dir(out.path().join(folder)).unwrap() {
            let entry = entry.unwrap();
            let committed = docs.join(folder).join(entry.file_name());
            assert!(
                fs::read(&committed).unwrap_or_default() == fs::read(entry.path()).unwrap(),
                "{} is out of date: run `cargo xtask docs`",
                committed.display()
            );
        }
    }
}
