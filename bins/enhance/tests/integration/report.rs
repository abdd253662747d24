//! `enhance report`.

use std::fs;

use serde_json::Value;

use crate::program::{enhance, git, new_document, stderr, stdout};

#[test]
fn the_report_has_three_formats() {
    let directory = new_document();
    let top = directory.path();
    let markdown = stdout(&enhance(top, &["report", "enhancements"]));
    assert!(
        markdown
            .contains("| [Mirror release signatures](<network/mirror-release-signatures.md>) |"),
        "{markdown}"
    );
    let json = stdout(&enhance(top, &["report", "enhancements", "-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["documents"][0]["area"], "network");
    assert_eq!(json["documents"][0]["ageDays"], 0);
    assert_eq!(json["documents"][0]["headingsPass"], true);
    assert_eq!(json["documents"][0]["metadataPasses"], false);
    let html = stdout(&enhance(top, &["report", "enhancements", "-o", "html"]));
    assert!(html.starts_with("<!DOCTYPE html>"));
}

/// The addresses of the documents in the HTML report.
fn links(page: &str) -> Vec<&str> {
    page.split("<p class=\"path\"><a href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect()
}

#[test]
fn the_html_report_links_published_documents_on_their_host_and_others_as_files() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    git(&top, &["init", "--quiet"]);
    fs::create_dir_all(top.join("enhancements/a b")).unwrap();
    fs::write(top.join("enhancements/a b/same.md"), "# Same\n").unwrap();
    fs::write(top.join("enhancements/changed.md"), "# Changed\n").unwrap();
    git(&top, &["add", "."]);
    git(&top, &["commit", "--quiet", "--message", "first"]);
    git(&top, &["remote", "add", "origin", "https://ann:secret@github.com/x/y.git"]);
    fs::write(top.join("enhancements/changed.md"), "# Changed again\n").unwrap();
    fs::write(top.join("enhancements/new.md"), "# New\n").unwrap();
    let report = |arguments: &[&str]| {
        let output =
            enhance(&top, &[&["report", "enhancements", "-o", "html"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let file = |path: &str| format!("file://{}/enhancements/{path}", top.display());

    // The commit has not been pushed: its page does not exist.
    let page = report(&[]);
    let expected = [file("changed.md"), file("new.md"), file("a%20b/same.md")];
    assert_eq!(links(&page), expected);

    git(&top, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let page = report(&[]);
    let commit = fs::read_to_string(top.join(".git/refs/remotes/origin/main")).unwrap();
    let same = format!("https://github.com/x/y/blob/{}/enhancements/a%20b/same.md", commit.trim());
    assert_eq!(links(&page), [file("changed.md"), file("new.md"), same]);
    assert!(!page.contains("secret"), "the password of the remote is not part of the report");

    let page = report(&["--base-url", "https://docs.example/main/"]);
    let expected = ["changed.md", "new.md", "a%20b/same.md"]
        .map(|path| format!("https://docs.example/main/enhancements/{path}"));
    assert_eq!(links(&page), expected);
}
