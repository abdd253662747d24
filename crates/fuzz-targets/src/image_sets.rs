//! Configurations of image sets.

use image_set::{Document, Findings};

use crate::text;

/// A configuration of either kind. What is accepted is written back and read again.
pub fn image_set(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let document = match image_set::parse("isc.yaml", text) {
        Ok(document) => document,
        Err(findings) => return check_findings(&findings),
    };
    let written = match &document {
        Document::ImageSet(configuration) => configuration.to_yaml(),
        Document::Delete(configuration) => configuration.to_yaml(),
    };
    let written = written.expect("an accepted configuration can be written");
    match image_set::parse("isc.yaml", &written) {
        Ok(again) => assert_eq!(again, document, "{written}"),
        Err(findings) => panic!("{findings}\n{written}"),
    }
}

/// A rejected configuration has at least one reason, and each can be printed.
fn check_findings(findings: &Findings) {
    assert!(!findings.to_string().is_empty());
}
