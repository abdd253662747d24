//! The program from outside: files in, text and exit code out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn enhance(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_enhance"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder with one new document.
fn with_new_document() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = enhance(folder.path(), &["new", "Mirror release signatures", "--area", "network"]);
    assert!(made.status.success(), "{}", err(&made));
    assert_eq!(out(&made), "enhancements/network/mirror-release-signatures.md\n");
    folder
}

/// Fills in the metadata and every section.
fn fill_in(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let text = text
        .replace(
            "tracking-link: # the ticket or epic that tracks the work\n  - TBD",
            "tracking-link:\n  - https://x.example/1",
        )
        .replace("- TBD", "- \"@ann\"");
    let sections: Vec<String> = text
        .lines()
        .map(|line| match line.starts_with('#') {
            true => format!("{line}\n\nWords."),
            false => line.to_owned(),
        })
        .collect();
    fs::write(path, sections.join("\n")).unwrap();
}

#[test]
fn a_new_document_is_refused_until_it_is_filled_in() {
    let folder = with_new_document();
    let path = folder.path().join("enhancements/network/mirror-release-signatures.md");
    let linted = enhance(folder.path(), &["lint", "enhancements"]);
    assert_eq!(linted.status.code(), Some(1));
    assert!(out(&linted).contains(
        "enhancements/network/mirror-release-signatures.md:4:5: error: `authors` is still TBD; \
         name who writes the document [metadata-people]\n"
    ));
    assert!(err(&linted).starts_with("1 document checked: 5 errors, "), "{}", err(&linted));

    fill_in(&path);
    let linted = enhance(folder.path(), &["lint", "enhancements", "--deny-warnings"]);
    assert_eq!(out(&linted), "");
    assert_eq!(err(&linted), "1 document checked: 0 errors, 0 warnings\n");
    assert_eq!(linted.status.code(), Some(0));
}

#[test]
fn a_document_that_is_there_is_not_replaced() {
    let folder = with_new_document();
    let path = folder.path().join("enhancements/network/mirror-release-signatures.md");
    fs::write(&path, "precious").unwrap();
    let again = enhance(folder.path(), &["new", "Mirror Release: signatures", "--area", "network"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(
        err(&again),
        "error: enhancements/network/mirror-release-signatures.md is there already; choose another \
         title, or edit it\n"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn warnings_alone_fail_only_when_asked_to() {
    let folder = with_new_document();
    let path = folder.path().join("enhancements/network/mirror-release-signatures.md");
    fill_in(&path);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("## Test Plan\n\nWords.", "## Test Plan\n")).unwrap();
    assert_eq!(enhance(folder.path(), &["lint", "enhancements"]).status.code(), Some(0));
    let strict = enhance(folder.path(), &["lint", "enhancements", "--deny-warnings"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(out(&strict).contains("warning: the section `Test Plan` is empty"), "{}", out(&strict));
}

#[test]
fn only_documents_that_a_revision_lacks_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    git(top, &["init", "--quiet"]);
    fs::create_dir_all(top.join("enhancements/a")).unwrap();
    fs::write(top.join("enhancements/a/old.md"), "# Old\n").unwrap();
    git(top, &["add", "."]);
    git(top, &["commit", "--quiet", "--message", "old"]);
    fs::write(top.join("enhancements/a/old.md"), "# Old, changed\n").unwrap();
    fs::write(top.join("enhancements/a/new.md"), "# New\n").unwrap();

    let paths = |output: &Output| -> Vec<String> {
        let log: Value = serde_json::from_str(&out(output)).unwrap();
        let documents = log["documents"].as_array().unwrap();
        documents.iter().map(|it| it["path"].as_str().unwrap().to_owned()).collect()
    };
    let all = enhance(top, &["lint", "enhancements", "-o", "json"]);
    assert_eq!(paths(&all), ["enhancements/a/new.md", "enhancements/a/old.md"]);
    // From a folder below the top, too.
    let new =
        enhance(&top.join("enhancements"), &["lint", "a", "--new-since", "HEAD", "-o", "json"]);
    assert_eq!(paths(&new), ["a/new.md"]);

    let unknown = enhance(top, &["lint", "enhancements", "--new-since", "--nowhere"]);
    assert_eq!(unknown.status.code(), Some(2), "a flag is no revision: {}", err(&unknown));
    let unknown = enhance(top, &["lint", "enhancements", "--new-since=-nowhere"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("git knows no such revision"), "{}", err(&unknown));
}

#[test]
fn links_are_followed_from_the_top_of_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    fs::create_dir_all(top.join(".git")).unwrap();
    fs::create_dir_all(top.join("enhancements/a")).unwrap();
    fs::write(top.join("README.md"), "# Read me\n\n## Part two\n").unwrap();
    fs::write(
        top.join("enhancements/a/x.md"),
        "---\nsee-also: [/README.md, enhancements/a/x.md, /gone.md]\n---\n\
         # X\n\n[up](../../README.md#part-two) [up](/README.md#part-three)\n\
         [out](../../../README.md) [gone](gone.png) [folder](..)\n",
    )
    .unwrap();
    let linted = enhance(top, &["lint", "enhancements"]);
    let text = out(&linted);
    let links: Vec<&str> = text
        .lines()
        .filter(|line| {
            ["[related-document]", "[relative-link]", "[anchor]"]
                .iter()
                .any(|it| line.ends_with(it))
        })
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    let place = |place: &str| format!("enhancements/a/x.md:{place}");
    assert_eq!(links, [place("2:45"), place("6:32"), place("7:1"), place("7:27")]);
}

#[test]
fn sarif_points_at_files_of_the_repository_and_at_rules_it_explains() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    fs::create_dir_all(top.join(".git")).unwrap();
    fs::create_dir_all(top.join("enhancements/a b")).unwrap();
    fs::write(top.join("enhancements/a b/x.md"), "# X\n\n##y\n").unwrap();
    let linted = enhance(&top.join("enhancements"), &["lint", ".", "-o", "sarif"]);
    assert_eq!(linted.status.code(), Some(1));
    let log: Value = serde_json::from_str(&out(&linted)).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "enhancements/a%20b/x.md");
        assert!(location["region"]["startLine"].as_u64().unwrap() >= 1);
    }
    let missing_space = results.iter().find(|result| result["ruleId"] == "MD018").unwrap();
    assert_eq!(missing_space["level"], "error");
    let region = &missing_space["locations"][0]["physicalLocation"]["region"];
    assert_eq!(region, &serde_json::json!({"startLine": 3, "startColumn": 1}));
}

#[test]
fn the_report_comes_in_three_forms() {
    let folder = with_new_document();
    let top = folder.path();
    let markdown = out(&enhance(top, &["report", "enhancements"]));
    assert!(
        markdown
            .contains("| [Mirror release signatures](<network/mirror-release-signatures.md>) |"),
        "{markdown}"
    );
    let json = out(&enhance(top, &["report", "enhancements", "-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["documents"][0]["area"], "network");
    assert_eq!(json["documents"][0]["ageDays"], 0);
    assert_eq!(json["documents"][0]["headingsPass"], true);
    assert_eq!(json["documents"][0]["metadataPasses"], false);
    let html = out(&enhance(top, &["report", "enhancements", "-o", "html"]));
    assert!(html.starts_with("<!DOCTYPE html>"));
}

#[test]
fn what_cannot_be_read_is_named_and_is_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let missing = enhance(folder.path(), &["lint", "nowhere.md"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(
        err(&missing),
        "error: reading nowhere.md: No such file or directory (os error 2)\n"
    );
    fs::write(folder.path().join("x.md"), b"\xff\xfe").unwrap();
    let binary = enhance(folder.path(), &["lint", "x.md"]);
    assert_eq!(binary.status.code(), Some(2));
    assert!(err(&binary).starts_with("error: reading x.md: "), "{}", err(&binary));
    let report = enhance(folder.path(), &["report", "x.md"]);
    assert_eq!(report.status.code(), Some(2));
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_due() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in
        [&["lint"][..], &["new", "?!"], &["new", "x", "--area", "../y"], &["frobnicate"]]
    {
        let output = enhance(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).starts_with("error: "), "{}", err(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
