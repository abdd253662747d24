//! Commands, findings and exit codes.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::program::{complete, enhance, git, new_document, stderr, stdout};

#[test]
fn a_new_document_fails_until_it_is_complete() {
    let directory = new_document();
    let path = directory.path().join("enhancements/network/mirror-release-signatures.md");
    let linted = enhance(directory.path(), &["lint", "enhancements"]);
    assert_eq!(linted.status.code(), Some(1));
    assert!(stdout(&linted).contains(
        "enhancements/network/mirror-release-signatures.md:4:5: error: `authors` is still TBD; \
         list the authors of the document [metadata-people]\n"
    ));
    assert!(stderr(&linted).starts_with("1 document checked: 5 errors, "), "{}", stderr(&linted));

    complete(&path);
    let linted = enhance(directory.path(), &["lint", "enhancements", "--deny-warnings"]);
    assert_eq!(stdout(&linted), "");
    assert_eq!(stderr(&linted), "1 document checked: 0 errors, 0 warnings\n");
    assert_eq!(linted.status.code(), Some(0));
}

#[test]
fn an_existing_document_is_not_replaced() {
    let directory = new_document();
    let path = directory.path().join("enhancements/network/mirror-release-signatures.md");
    fs::write(&path, "precious").unwrap();
    let again =
        enhance(directory.path(), &["new", "Mirror Release: signatures", "--area", "network"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(
        stderr(&again),
        "error: enhancements/network/mirror-release-signatures.md exists; choose another title, or edit \
         the file\n"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn warnings_fail_only_with_deny_warnings() {
    let directory = new_document();
    let path = directory.path().join("enhancements/network/mirror-release-signatures.md");
    complete(&path);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("## Test Plan\n\nText.", "## Test Plan\n")).unwrap();
    assert_eq!(enhance(directory.path(), &["lint", "enhancements"]).status.code(), Some(0));
    let strict = enhance(directory.path(), &["lint", "enhancements", "--deny-warnings"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(
        stdout(&strict).contains("warning: the section `Test Plan` is empty"),
        "{}",
        stdout(&strict)
    );
}

#[test]
fn only_documents_that_a_revision_lacks_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path();
    git(top, &["init", "--quiet"]);
    fs::create_dir_all(top.join("enhancements/a")).unwrap();
    fs::write(top.join("enhancements/a/old.md"), "# Old\n").unwrap();
    git(top, &["add", "."]);
    git(top, &["commit", "--quiet", "--message", "old"]);
    fs::write(top.join("enhancements/a/old.md"), "# Old, changed\n").unwrap();
    fs::write(top.join("enhancements/a/new.md"), "# New\n").unwrap();

    let paths = |output: &Output| -> Vec<String> {
        let log: Value = serde_json::from_str(&stdout(output)).unwrap();
        let documents = log["documents"].as_array().unwrap();
        documents.iter().map(|it| it["path"].as_str().unwrap().to_owned()).collect()
    };
    let all = enhance(top, &["lint", "enhancements", "-o", "json"]);
    assert_eq!(paths(&all), ["enhancements/a/new.md", "enhancements/a/old.md"]);
    // Also from a directory below the top of the repository.
    let new =
        enhance(&top.join("enhancements"), &["lint", "a", "--new-since", "HEAD", "-o", "json"]);
    assert_eq!(paths(&new), ["a/new.md"]);

    let unknown = enhance(top, &["lint", "enhancements", "--new-since", "--nowhere"]);
    assert_eq!(unknown.status.code(), Some(2), "a flag is not a revision: {}", stderr(&unknown));
    let unknown = enhance(top, &["lint", "enhancements", "--new-since=-nowhere"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("the revision does not exist"), "{}", stderr(&unknown));
}

#[test]
fn links_are_resolved_from_the_top_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path();
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
    let text = stdout(&linted);
    let links: Vec<&str> = text
        .lines()
        .filter(|line| {
            ["[related-document]", "[relative-link]", "[anchor]"]
                .iter()
                .any(|it| line.ends_with(it))
        })
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    let position = |position: &str| format!("enhancements/a/x.md:{position}");
    assert_eq!(links, [position("2:45"), position("6:32"), position("7:1"), position("7:27")]);
}

#[test]
fn sarif_contains_paths_in_the_repository_and_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path();
    fs::create_dir_all(top.join(".git")).unwrap();
    fs::create_dir_all(top.join("enhancements/a b")).unwrap();
    fs::write(top.join("enhancements/a b/x.md"), "# X\n\n##y\n").unwrap();
    let linted = enhance(&top.join("enhancements"), &["lint", ".", "-o", "sarif"]);
    assert_eq!(linted.status.code(), Some(1));
    let log: Value = serde_json::from_str(&stdout(&linted)).unwrap();
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
fn an_unreadable_file_is_an_error_and_not_a_finding() {
    let directory = tempfile::tempdir().unwrap();
    let missing = enhance(directory.path(), &["lint", "nowhere.md"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(
        stderr(&missing),
        "error: reading nowhere.md: No such file or directory (os error 2)\n"
    );
    fs::write(directory.path().join("x.md"), b"\xff\xfe").unwrap();
    let binary = enhance(directory.path(), &["lint", "x.md"]);
    assert_eq!(binary.status.code(), Some(2));
    assert!(stderr(&binary).starts_with("error: reading x.md: "), "{}", stderr(&binary));
    let report = enhance(directory.path(), &["report", "x.md"]);
    assert_eq!(report.status.code(), Some(2));
    assert_eq!(stderr(&report), "error: reading x.md: expected a directory\n");
}

#[test]
fn invalid_usage_exits_with_2() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["lint"][..],
        &["new", "?!"],
        &["new", "x", "--area", "../y"],
        &["report", ".", "--base-url", "javascript:alert(1)"],
        &["frobnicate"],
    ] {
        let output = enhance(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn text_of_the_template_is_a_warning() {
    let directory = new_document();
    let path = directory.path().join("enhancements/network/mirror-release-signatures.md");
    complete(&path);
    let text = fs::read_to_string(&path).unwrap();
    let goals = "Summarize the boiling points of all soups.\n";
    fs::write(&path, text.replace("### Goals\n\nText.", &format!("### Goals\n\n{goals}"))).unwrap();
    let strict = ["lint", "enhancements", "--deny-warnings"];
    assert_eq!(enhance(directory.path(), &strict).status.code(), Some(0));

    // The template of the repository that contains the documents counts.
    let guidelines = directory.path().join("guidelines");
    fs::create_dir(&guidelines).unwrap();
    fs::write(
        guidelines.join("enhancement_template.md"),
        format!("# Title\n\n## Goals\n\n{goals}"),
    )
    .unwrap();
    let lenient = enhance(directory.path(), &["lint", "enhancements"]);
    assert_eq!(lenient.status.code(), Some(0), "a warning does not fail");
    assert!(
        stdout(&lenient)
            .contains("warning: the section `Goals` contains only text of the template;"),
        "{}",
        stdout(&lenient)
    );
    assert_eq!(stderr(&lenient), "1 document checked: 0 errors, 1 warning\n");
    assert_eq!(enhance(directory.path(), &strict).status.code(), Some(1));
    let json = stdout(&enhance(directory.path(), &["lint", "enhancements", "-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["documents"][0]["findings"][0]["rule"], "template-text");
    assert_eq!(json["documents"][0]["headingsPass"], true, "the verdict is the community's");
}
