//! B28: secrets in files that every node of a role receives.

use super::Subject;
use crate::document::Form;
use crate::finding::Findings;
use crate::rule::RuleId;

/// Sections, and the keys in them that are secret.
const SECRETS: [(&str, &[&str]); 3] = [
    ("802.1x", &["private-key-password", "password"]),
    ("libreswan", &["psk"]),
    ("macsec", &["mka-cak"]),
];

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    if subject.form == Form::NodePolicy {
        return;
    }
    for iface in &subject.layout.interfaces {
        for (section, keys) in SECRETS {
            let Some(node) = iface.node.get(section) else { continue };
            for entry in node.entries().iter().filter(|it| keys.contains(&it.key.as_str())) {
                let message =
                    format!("`{}` contains a secret: {section} `{}`", iface.name.value, entry.key);
                found.report(RuleId::B28, entry.at, message);
            }
        }
    }
}
