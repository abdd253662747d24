//! Documents that the community's linter skips.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{enhance, stderr, stdout};

/// A repository with a document, and a second one on the ignore list.
fn repository_with_ignore_list() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path();
    fs::create_dir_all(top.join(".git")).unwrap();
    fs::create_dir_all(top.join("hack")).unwrap();
    fs::create_dir_all(top.join("enhancements/a")).unwrap();
    fs::write(top.join("enhancements/a/checked.md"), "# Checked\n").unwrap();
    fs::write(top.join("enhancements/a/ignored.md"), "# Ignored\n").unwrap();
    fs::write(top.join("hack/lint-ignores"), "enhancements/a/ignored.md\n\nenhancements/b.md\n")
        .unwrap();
    directory
}

#[test]
fn documents_of_the_ignore_list_are_skipped_and_counted() {
    let directory = repository_with_ignore_list();
    let top = directory.path();
    let linted = enhance(top, &["lint", "enhancements"]);
    assert!(stdout(&linted).contains("enhancements/a/checked.md:"), "{}", stdout(&linted));
    assert!(!stdout(&linted).contains("ignored.md"), "{}", stdout(&linted));
    let summary = stderr(&linted);
    let (checked, skipped) = summary.split_once('\n').unwrap();
    assert!(checked.starts_with("1 document checked: "), "{checked}");
    assert_eq!(
        skipped,
        "1 document skipped: it is listed in hack/lint-ignores; use --no-ignore to check it\n"
    );

    let json = enhance(&top.join("enhancements"), &["lint", "a/ignored.md", "-o", "json"]);
    assert_eq!(json.status.code(), Some(0), "the community's linter skips it, too");
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["documents"], serde_json::json!([]));
    let expected = serde_json::json!([
        {"path": "a/ignored.md", "reason": "listed in hack/lint-ignores"}
    ]);
    assert_eq!(json["skipped"], expected);

    let all = enhance(top, &["lint", "enhancements", "--no-ignore"]);
    assert!(stdout(&all).contains("enhancements/a/ignored.md:"), "{}", stdout(&all));
    assert!(stderr(&all).starts_with("2 documents checked: "), "{}", stderr(&all));
    assert_eq!(stderr(&all).lines().count(), 1, "{}", stderr(&all));
}

#[test]
fn an_entry_of_the_ignore_list_is_a_whole_path() {
    let directory = repository_with_ignore_list();
    let top = directory.path();
    // The community's linter removes these texts from its list of files. What
    // remains is checked.
    for list in ["enhancements/a", "a/ignored.md", "enhancements/a/*.md", "ignored"] {
        fs::write(top.join("hack/lint-ignores"), list).unwrap();
        let linted = enhance(top, &["lint", "enhancements"]);
        assert!(stderr(&linted).starts_with("2 documents checked: "), "{list}");
    }
}

#[test]
fn an_unreadable_ignore_list_is_an_error() {
    let directory = repository_with_ignore_list();
    let list = directory.path().join("hack/lint-ignores");
    fs::write(&list, b"\xff").unwrap();
    let linted = enhance(directory.path(), &["lint", "enhancements"]);
    assert_eq!(linted.status.code(), Some(2));
    let expected = format!("error: reading {}: ", list.canonicalize().unwrap().display());
    assert!(stderr(&linted).starts_with(&expected), "{}", stderr(&linted));
}

#[test]
fn the_report_lists_skipped_documents() {
    let directory = repository_with_ignore_list();
    let top = directory.path();
    let report = enhance(top, &["report", "enhancements", "-o", "json"]);
    assert_eq!(
        stderr(&report),
        "1 document skipped: it is listed in hack/lint-ignores; use --no-ignore to include it\n"
    );
    let json: Value = serde_json::from_str(&stdout(&report)).unwrap();
    assert_eq!(json["documents"].as_array().unwrap().len(), 1);
    assert_eq!(json["skipped"][0]["path"], "a/ignored.md");
    let all = enhance(top, &["report", "enhancements/", "--no-ignore", "-o", "json"]);
    assert_eq!(stderr(&all), "");
    let json: Value = serde_json::from_str(&stdout(&all)).unwrap();
    assert_eq!(json["documents"].as_array().unwrap().len(), 2);
}
