//! Expressions about the labels of nodes, written as for `kubectl get nodes -l`:
//! `zone in (a, b), !gpu, disk!=slow`.

use std::collections::BTreeMap;
use std::fmt;

/// Requirements, all of which a node must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeExpressions(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    /// Met also by nodes without the label, as in Kubernetes.
    NotIn(Vec<String>),
}

/// Text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}")]
pub struct ExpressionError {
    expected: &'static str,
    found: String,
}

impl NodeExpressions {
    /// # Errors
    ///
    /// If the text is not a selector, or is empty.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let parts = split(text);
        Ok(Self(parts.into_iter().map(requirement).collect::<Result<_, _>>()?))
    }

    /// Whether a node with these labels is selected.
    pub fn match_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            }
        })
    }
}

impl fmt::Display for NodeExpressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Requirement { key, operator }) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            match operator {
                Operator::Exists => write!(f, "{comma}{key}")?,
                Operator::DoesNotExist => write!(f, "{comma}!{key}")?,
                Operator::In(values) => write!(f, "{comma}{key} in ({})", values.join(", "))?,
                Operator::NotIn(values) => {
                    write!(f, "{comma}{key} notin ({})", values.join(", "))?;
                }
            }
        }
        Ok(())
    }
}

/// The parts between commas, except for those within parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => is_inside = true,
            ')' => is_inside = false,
            ',' if !is_inside => {
                parts.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn requirement(text: &str) -> Result<Requirement, ExpressionError> {
    let of = |key: &str, operator| Ok(Requirement { key: key_of(key)?, operator });
    if let Some(key) = text.strip_prefix('!') {
        return of(key, Operator::DoesNotExist);
    }
    if let Some((key, value)) = text.split_once("!=") {
        return of(key, Operator::NotIn(vec![value_of(value)?]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return of(key, Operator::In(vec![value_of(value)?]));
    }
    let Some((key, rest)) = text.split_once(char::is_whitespace) else {
        return of(text, Operator::Exists);
    };
    let rest = rest.trim();
    let (word, list) = rest.split_at(rest.find(['(', ' ']).unwrap_or(rest.len()));
    let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
    let list = list.ok_or_else(|| error("a list of values in parentheses", rest))?;
    let values = list.split(',').map(value_of).collect::<Result<_, _>>()?;
    match word {
        "in" => of(key, Operator::In(values)),
        "notin" => of(key, Operator::NotIn(values)),
        _ => Err(error("`in` or `notin`", word)),
    }
}

fn key_of(text: &str) -> Result<String, ExpressionError> {
    let text = text.trim();
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let is_key = !text.is_empty() && text.len() <= 317 && text.bytes().all(is_good);
    if is_key { Ok(text.to_owned()) } else { Err(error("the key of a label", text)) }
}

fn value_of(text: &str) -> Result<String, ExpressionError> {
    let text = text.trim();
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_value = text.len() <= 63 && text.bytes().all(is_good);
    if is_value { Ok(text.to_owned()) } else { Err(error("the value of a label", text)) }
}

fn error(expected: &'static str, found: &str) -> ExpressionError {
    ExpressionError { expected, found: found.chars().take(80).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(expressions: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        NodeExpressions::parse(expressions).unwrap().match_labels(&labels.collect())
    }

    /// What `kubectl get nodes -l` selects.
    #[test]
    fn nodes_are_selected_as_by_kubectl() {
        let a: &[(&str, &str)] = &[("zone", "a"), ("node-role.kubernetes.io/worker", "")];
        for (expressions, expected) in [
            ("zone in (a,b)", true),
            ("zone in(a, b)", true),
            ("zone in (b)", false),
            ("zone notin (b, c)", true),
            ("zone notin (a)", false),
            ("rack notin (1)", true),
            ("zone", true),
            ("rack", false),
            ("!rack", true),
            ("!zone", false),
            ("zone=a", true),
            ("zone == a", true),
            ("zone!=a", false),
            ("rack!=1", true),
            ("node-role.kubernetes.io/worker=", true),
            ("zone in (a, b), !rack, node-role.kubernetes.io/worker", true),
            ("zone in (a, b), rack", false),
        ] {
            assert_eq!(selects(expressions, a), expected, "{expressions}");
        }
    }

    #[test]
    fn an_invalid_selector_is_an_error_with_its_position() {
        for (text, message) in [
            ("", r#"expected the key of a label, found """#),
            ("a,,b", r#"expected the key of a label, found """#),
            ("zone within (a)", r#"expected `in` or `notin`, found "within""#),
            ("zone in a", r#"expected a list of values in parentheses, found "in a""#),
            ("zone in (a;b)", r#"expected the value of a label, found "a;b""#),
        ] {
            assert_eq!(NodeExpressions::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_selector_is_written_as_it_is_read() {
        let text = "zone in (a, b), !gpu, rack notin (1), disk";
        assert_eq!(NodeExpressions::parse(text).unwrap().to_string(), text);
    }
}
