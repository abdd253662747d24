//! Templates of charts, with Go's functions only.

use go_template::{Budget, Functions, MissingKey, Set, Value};

use crate::{TEMPLATE_LIMITS, text, two_parts};

/// A template, and after a zero byte its data as JSON.
pub fn template(data: &[u8]) {
    let (template, data) = two_parts(data);
    let Some(template) = text(template) else { return };
    let data = serde_json::from_slice(data).unwrap_or(serde_json::Value::Null);
    for missing_key in [MissingKey::Invalid, MissingKey::Zero, MissingKey::Error] {
        let mut set = Set::new(Functions::builtin(), missing_key);
        if let Err(error) = set.parse("main", template) {
            return assert!(!error.to_string().is_empty());
        }
        let mut budget = Budget::new(TEMPLATE_LIMITS);
        match set.execute("main", Value::from_json(&data), &mut budget) {
            Ok(output) => assert!(output.len() <= 3 * TEMPLATE_LIMITS.output_bytes),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
