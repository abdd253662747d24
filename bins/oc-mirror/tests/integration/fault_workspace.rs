//! Workspaces that another version wrote, or of which a file is damaged.

use crate::support;

use std::fs;

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};

use support::{PLAIN, Ran, Site};

const JOURNAL: &str = "data/working-dir/runs/000001.journal.jsonl";

/// A workspace after one run.
fn filled() -> (LabRegistry, Site) {
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&Image::tiny("a").unwrap(), "org/a", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("org/a", "v1").unwrap()]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    (source, site)
}

fn status(site: &Site) -> Ran {
    Ran::of(site.command("status file://data").output().unwrap())
}

#[test]
fn a_workspace_of_a_newer_version_is_left_alone() {
    let (source, site) = filled();
    let path = "data/working-dir/internal/workspace.json";
    let written = site.read(path);
    assert!(written.contains("\"format\": 1"), "{written}");
    site.write(path, &written.replace("\"format\": 1", "\"format\": 7"));
    let registry = source.address();
    for line in [
        format!("-c isc.yaml {PLAIN} file://data"),
        format!("-c isc.yaml {PLAIN} --dry-run file://data"),
        format!("-c isc.yaml {PLAIN} --from file://data docker://{registry}/ns"),
        format!("-c isc.yaml {PLAIN} --workspace file://data docker://{registry}/ns"),
    ] {
        let ran = site.run(&line);
        assert_eq!(ran.code, 1, "{line}");
        assert!(
            ran.errors().contains("newer version of oc-mirror (format 7"),
            "{line}: {}",
            ran.err
        );
    }
    let message = status(&site);
    assert!(
        message.code != 0 && message.err.contains("newer version of oc-mirror"),
        "{}",
        message.err
    );
    let runs = fs::read_dir(site.path("data/working-dir/runs")).unwrap();
    let records = runs.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".run.json")
    });
    assert_eq!(records.count(), 1);
    // With the version that wrote it, everything is as it was.
    site.write(path, &written);
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((ran.total("present"), ran.total("copied")), (1, 0));
}

#[test]
fn a_journal_without_its_end_is_read_as_far_as_it_goes() {
    let (_source, site) = filled();
    let journal = site.read(JOURNAL);
    // As a power cut leaves it: in the middle of a line.
    site.write(JOURNAL, &journal[..journal.len() - 20]);
    let message = status(&site);
    assert_eq!(message.code, 0, "{}", message.err);
    assert!(message.out.contains("1"), "{}", message.out);
    // A line that is not an event is damage, and is reported with its place.
    let first = journal.lines().next().unwrap();
    site.write(JOURNAL, &format!("{first}\nno event\n"));
    let message = status(&site);
    assert!(
        message.code != 0 && message.err.contains("000001.journal.jsonl:2:"),
        "{}",
        message.err
    );
    // Runs do not need the journals of earlier ones.
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(status(&site).code, 0);
}
