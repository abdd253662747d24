//! Configurations that users and projects published, each read unchanged.
//!
//! They are not part of this repository; without them these tests are skipped.

use std::collections::BTreeMap;
use std::fs;

use data_tier::data_tier;
use image_set::{Document, Findings, parse};

/// Which files have which findings, and why.
const EXPECTED: &str = include_str!("real_configurations.findings");

/// Every file by its path below the folder, `None` when the folder is missing.
fn files() -> Option<BTreeMap<String, String>> {
    let folder = data_tier("imageset-configs")?;
    let mut files = BTreeMap::new();
    for group in ["templated", "upstream", "users"] {
        for entry in fs::read_dir(folder.join(group)).expect("a group of configurations") {
            let entry = entry.expect("an entry of the group");
            let name = format!("{group}/{}", entry.file_name().to_string_lossy());
            files.insert(name, fs::read_to_string(entry.path()).expect("a configuration"));
        }
    }
    Some(files)
}

/// File → line and part of the text of each finding.
fn expected() -> BTreeMap<&'static str, Vec<(usize, &'static str)>> {
    let mut expected: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut file = "";
    for line in EXPECTED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => file = line,
            Some(finding) => {
                let (line, text) = finding.split_once(' ').expect("a line and a text");
                let line = line.parse().expect("the number of a line");
                expected.entry(file).or_default().push((line, text));
            }
        }
    }
    expected
}

fn is_as_expected(findings: &Findings, expected: &[(usize, &str)]) -> bool {
    findings.iter().count() == expected.len()
        && findings.iter().zip(expected).all(|(found, (line, text))| {
            found.at.line == *line && found.problem.to_string().contains(text)
        })
}

#[test]
fn every_configuration_reads_as_the_table_states() {
    let Some(files) = files() else { return };
    let expected = expected();
    let mut wrong = Vec::new();
    for (name, text) in &files {
        match (parse(name, text), expected.get(name.as_str())) {
            (Ok(_), None) => {}
            (Err(found), Some(wanted)) if is_as_expected(&found, wanted) => {}
            (Ok(_), Some(wanted)) => wrong.push(format!("{name}: nothing found of {wanted:?}")),
            (Err(found), _) => wrong.push(found.to_string()),
        }
    }
    let missing = expected.keys().filter(|name| !files.contains_key(**name));
    wrong.extend(missing.map(|name| format!("{name}: is in the table, but not in the folder")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_configuration_without_findings_is_written_and_reads_back_the_same() {
    let Some(files) = files() else { return };
    for (name, text) in files {
        let Ok(document) = parse(&name, &text) else { continue };
        let yaml = match &document {
            Document::ImageSet(configuration) => configuration.to_yaml(),
            Document::Delete(configuration) => configuration.to_yaml(),
        };
        let yaml = yaml.expect("YAML");
        let again = parse(&name, &yaml).unwrap_or_else(|findings| panic!("{findings}\n{yaml}"));
        assert_eq!(again, document, "{name}");
    }
}
