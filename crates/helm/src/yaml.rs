//! YAML as Helm's reader takes it: YAML 1.1 words, the last of repeated keys wins.

use located_yaml::{Keys, Node, Problem, load};
use serde_json::{Map, Value};

/// Text that cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct YamlError {
    pub line: usize,
    pub reason: String,
}

/// The first document of a text, with places. An empty text is null.
pub fn read(text: &str) -> Result<Node, YamlError> {
    let loaded = load(text, Keys::AsJson);
    // Helm ignores tags that it does not know.
    let fatal = loaded.problems.iter().find(|found| !matches!(found.value, Problem::Tag(_)));
    match (fatal, loaded.root) {
        (None, Some(root)) => Ok(root),
        (Some(found), _) => Err(YamlError { line: found.at.line, reason: found.value.to_string() }),
        (None, None) => Err(YamlError { line: 1, reason: "not valid YAML".to_owned() }),
    }
}

/// The entries of the map in `text`; nothing for an empty text. The error of another shape names it.
pub fn read_map(text: &str) -> Result<Result<Map<String, Value>, &'static str>, YamlError> {
    let root = read(text)?;
    Ok(match root.to_json() {
        Value::Object(entries) => Ok(entries),
        Value::Null => Ok(Map::new()),
        _ => Err(root.shape()),
    })
}

/// Whether a text is a page for a browser, which servers send in place of a file.
pub fn is_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_keys_and_unknown_tags_are_accepted() {
        let read = read("a: 1\nb: !mine yes\na: 0o17\n").unwrap();
        assert_eq!(read.to_json(), json!({"b": "yes", "a": 15}));
    }

    #[test]
    fn an_error_has_the_line() {
        let error = read("a: 1\nb: [\n").unwrap_err();
        assert!(error.line >= 2 && error.to_string().contains("not valid YAML"), "{error}");
        assert_eq!(read_map("- a\n").unwrap(), Err("a list"));
        assert_eq!(read_map("# nothing\n").unwrap(), Ok(Map::new()));
    }
}
