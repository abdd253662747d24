//! The committed documents match the program.

use std::collections::{BTreeMap, BTreeSet};
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
    for (dir, expected) in [("man", "oc-mirror.1"), ("reference", "oc-mirror.md")] {
        let made = files(&out.path().join(dir));
        assert!(made.contains_key(expected), "{dir}: {:?}", made.keys());
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
fn every_refused_flag_is_in_the_differences_with_its_reason() {
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
    assert_eq!(documented.count(), rows.len(), "a row is not in the program");
}

#[test]
fn every_variable_of_the_reference_that_differs_is_in_the_differences() {
    let differences = fs::read_to_string(docs().join("differences.md")).unwrap();
    for name in [
        "OC_MIRROR_CACHE",
        "COSIGN_PASSWORD",
        "UPDATE_URL_OVERRIDE",
        "OCP_SIGNATURE_URL",
        "OCP_SIGNATURE_VERIFICATION_PK",
        "VERSION_FILTER",
    ] {
        assert!(differences.contains(&format!("`{name}`")), "{name}");
    }
}

/// Flags of oc-mirror v2 for mirroring, as its help lists them.
const FLAGS_OF_V2: &str = "\
authfile cache-dir config dest-tls-verify dry-run dry-run-manifest-lists from help
ignore-release-signature image-timeout log-level max-nested-paths parallel-images parallel-layers policy port
registries.d remove-signatures retry-delay retry-times rootless-storage-path secure-policy since src-tls-verify
strict-archive v2 version workspace
cpu-prof mem-prof quiet force src-authfile src-creds src-username src-password src-registry-token src-cert-dir
src-no-creds src-shared-blob-dir src-daemon-host screds dest-authfile dest-creds dest-username dest-password
dest-registry-token dest-cert-dir dest-no-creds dest-shared-blob-dir dest-daemon-host dcreds dest-compress
dest-decompress dest-compress-format dest-compress-level dest-oci-accept-uncompressed-layers
dest-precompute-digests tls-verify v1";
/// Commands of oc-mirror v2.
const COMMANDS_OF_V2: [&str; 7] =
    ["completion", "delete", "help", "list", "list operators", "list releases", "version"];

/// The part of a Markdown text below a heading.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) =
        text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap()
}

/// Every `--flag` in the first cells of tables.
fn flags(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split([' ', '`', ',']));
    words.filter_map(|word| word.strip_prefix("--")).map(str::to_owned).collect()
}

#[test]
fn the_differences_list_every_flag_and_command_that_only_one_program_has() {
    let out = tempfile::tempdir().unwrap();
    generate(out.path());
    let reference = fs::read_to_string(out.path().join("reference/oc-mirror.md")).unwrap();
    let differences = fs::read_to_string(docs().join("differences.md")).unwrap();
    let (mirroring, rest) = reference.split_once("\n## Commands\n").unwrap();
    let of_v2: BTreeSet<String> = FLAGS_OF_V2.split_whitespace().map(str::to_owned).collect();

    let ours = flags(mirroring);
    assert!(ours.len() > 40, "{ours:?}");
    let new: BTreeSet<String> = ours.difference(&of_v2).cloned().collect();
    let listed = flags(section(&differences, "Flags that are new"));
    assert_eq!(listed, new, "`Flags that are new` of docs/differences.md and the program differ");

    // Each flag of oc-mirror v2 is accepted, or rejected with a reason that is listed.
    let refused = flags(section(&differences, "Flags that are refused"));
    for flag in &of_v2 {
        if refused.contains(flag) {
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_oc-mirror"));
        let message =
            command.arg(format!("--{flag}=")).arg("file:///nonexistent/x").output().unwrap();
        let message = String::from_utf8_lossy(&message.stderr).into_owned();
        assert!(!message.contains("unexpected argument"), "--{flag}: {message}");
    }

    let commands = rest.split("\n## ").next().unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("### oc-mirror "));
    let new: BTreeSet<&str> = commands
        .filter(|name| !COMMANDS_OF_V2.contains(name))
        .map(|name| match name {
            name if name.starts_with("upgrade-path") => "upgrade-path",
            name => name,
        })
        .collect();
    let table = section(&differences, "Flags that are new");
    let (_, table) = table.split_once("Commands that are new:").unwrap();
    let cells = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|row| row.split('|').nth(1));
    let listed: BTreeSet<&str> = cells
        .flat_map(|cell| cell.split('`'))
        .map(str::trim)
        .filter(|name| name.len() > 1)
        .collect();
    assert_eq!(listed, new, "the commands of docs/differences.md and of the program differ");
}
