//! The committed documents say what the program does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn files(dir: &Path) -> BTreeMap<String, String> {
    fs::read_dir(dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn generate(out: &Path) {
    let status = Command::new(env!("CARGO_BIN_EXE_oc-mirror"))
        .args(["generate-docs", "--out"])
        .arg(out)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn man_pages_and_the_reference_are_as_generated() {
    let out = tempfile::tempdir().unwrap();
    generate(out.path());
    for (dir, due) in [("man", "oc-mirror.1"), ("reference", "oc-mirror.md")] {
        let made = files(&out.path().join(dir));
        assert!(made.contains_key(due), "{dir}: {:?}", made.keys());
        for (name, text) in made {
            let committed = fs::read_to_string(docs().join(dir).join(&name)).unwrap_or_default();
            assert!(
                committed == text,
                "docs/{dir}/{name} is out of date: run `oc-mirror generate-docs --out docs`"
            );
        }
    }
}

#[test]
fn every_refused_flag_stands_in_the_differences_with_its_reason() {
    let out = tempfile::tempdir().unwrap();
    generate(out.path());
    let reference = fs::read_to_string(out.path().join("reference/oc-mirror.md")).unwrap();
    let differences = fs::read_to_string(docs().join("differences.md")).unwrap();
    let (_, refused) = reference.split_once("## Flags that are refused").unwrap();
    let rows: Vec<&str> = refused.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in &rows {
        assert!(differences.contains(row), "docs/differences.md has no line\n{row}");
    }
    let (_, table) = differences.split_once("## Flags that are refused").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let documented = table.lines().filter(|line| line.starts_with("| ") && line.contains("`--"));
    assert_eq!(documented.count(), rows.len(), "a row says more than the program does");
}

#[test]
fn every_variable_of_the_reference_that_differs_stands_in_the_differences() {
    let differences = fs::read_to_string(docs().join("differences.md")).unwrap();
    for name in [
        "OC_MIRROR_CACHE",
        "UPDATE_URL_OVERRIDE",
        "OCP_SIGNATURE_URL",
        "OCP_SIGNATURE_VERIFICATION_PK",
        "VERSION_FILTER",
    ] {
        assert!(differences.contains(&format!("`{name}`")), "{name}");
    }
}
