//! The committed documents match the program.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn man_pages_and_the_reference_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let out = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_enhance"))
        .args(["generate-docs", "--out"])
        .arg(out.path())
        .status()
        .unwrap();
    assert!(status.success());
    for (directory, expected) in [("man", "enhance.1"), ("reference", "enhance.md")] {
        let expected = out.path().join(directory).join(expected);
        assert!(expected.is_file(), "{} is missing", expected.display());
        for entry in fs::read_dir(out.path().join(directory)).unwrap() {
            let entry = entry.unwrap();
            let committed = docs.join(directory).join(entry.file_name());
            assert!(
                fs::read(&committed).unwrap_or_default() == fs::read(entry.path()).unwrap(),
                "{} is out of date: run `cargo xtask docs`",
                committed.display()
            );
        }
    }
}
