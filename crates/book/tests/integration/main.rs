//! The pages of the book agree with the programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All source files of libraries and programs, as one text without line breaks and indentation.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, text);
        } else if name.ends_with(".rs") {
            let words = fs::read_to_string(&path).unwrap();
            text.extend(words.split_whitespace().flat_map(|word| [word, " "]));
        }
    }
}

/// The messages in the first column of the tables with messages.
fn messages(page: &str) -> Vec<&str> {
    let tables = page.split("\n\n").filter(|part| part.starts_with("| Message "));
    let rows = tables.flat_map(str::lines).filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |").map(|(message, _)| message)).collect()
}

#[test]
fn every_message_of_the_troubleshooting_page_is_one_of_a_program() {
    let mut text = String::new();
    for folder in ["crates", "bins"] {
        sources(&root().join(folder), &mut text);
    }
    // Long texts continue in the next line after a backslash.
    let text = text.replace("\\ ", "");
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let messages = messages(&page);
    assert!(messages.len() > 20, "{messages:?}");
    let missing: Vec<&str> = messages
        .into_iter()
        .filter(|message| {
            let parts = message.split('`').flat_map(|part| part.split('…')).map(str::trim);
            !parts.filter(|part| part.len() > 1).all(|part| text.contains(part))
        })
        .collect();
    assert!(missing.is_empty(), "no program prints {missing:#?}");
}
