//! One Kubernetes object as YAML text, and what of it is needed to find its place on a server.

use serde::Deserialize;

/// An object kept as the text it was given, so that the server validates exactly those bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

/// YAML that holds no usable object.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("document {number} is not a Kubernetes object with apiVersion, kind and metadata.name")]
    NotAnObject { number: usize, source: Box<serde_saphyr::Error> },
    #[error("the text holds no document")]
    Empty,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

/// Reads all documents of a YAML stream. At least one is expected: a test that applies nothing
/// proves nothing.
pub(super) fn parse(yaml: &str) -> Result<Vec<Document<'_>>, DocumentError> {
    let documents = split(yaml)
        .into_iter()
        .enumerate()
        .map(|(index, text)| {
            let head: Head = serde_saphyr::from_str(text).map_err(|source| {
                DocumentError::NotAnObject { number: index + 1, source: Box::new(source) }
            })?;
            Ok(Document {
                text,
                api_version: head.api_version,
                kind: head.kind,
                name: head.metadata.name,
                namespace: head.metadata.namespace,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if documents.is_empty() { Err(DocumentError::Empty) } else { Ok(documents) }
}

/// Cuts a stream at its `---` lines; parts of comments and blanks only are left out.
fn split(yaml: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in yaml.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_end() == "---" {
            parts.push(&yaml[start..at]);
            start = next;
        }
        at = next;
    }
    parts.push(&yaml[start..]);
    parts.retain(|part| {
        part.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_at_its_document_lines() {
        let yaml = "---\n# note\n---\na: 1\n--- \nb: |\n  ---\n  x\n";
        assert_eq!(split(yaml), ["a: 1\n", "b: |\n  ---\n  x\n"]);
    }

    #[test]
    fn the_text_of_an_object_stays_as_it_was() {
        let yaml = "kind: ConfigMap\napiVersion: v1\nmetadata: {namespace: n, name: c}\ndata: {}\n";
        let documents = parse(yaml).unwrap();
        assert_eq!(
            documents,
            [Document {
                text: yaml,
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: "c".into(),
                namespace: Some("n".into()),
            }]
        );
    }

    #[test]
    fn a_document_without_a_name_is_refused_by_its_number() {
        let yaml = "kind: A\napiVersion: v1\nmetadata: {name: a}\n---\nkind: B\n";
        let error = parse(yaml).unwrap_err();
        assert!(error.to_string().starts_with("document 2 is not"), "{error}");
    }

    #[test]
    fn a_text_without_documents_is_refused() {
        assert!(matches!(parse("---\n# nothing\n"), Err(DocumentError::Empty)));
    }
}
