//! Rendered text as documents, split as Helm splits it.

use located_yaml::Node;

use crate::yaml::{self, YamlError};

/// How large the documents of one chart may be together; the renderer has a limit of its own.
const MAX_DOCUMENTS: usize = 50_000;

/// An object, or whatever else a template made.
#[derive(Debug, Clone)]
pub struct Document {
    /// The template or CRD file that it came from, from the root chart's folder.
    pub file: String,
    /// The line of the rendered file at which it starts, counted from 1.
    pub line: usize,
    pub text: String,
    pub root: Node,
    pub role: Role,
}

/// When Helm applies a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// With the release.
    Resource,
    /// Before or after it, by the annotation `helm.sh/hook`.
    Hook,
    /// Before everything else, unchanged.
    Crd,
}

/// A document that is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("the rendered text is not valid YAML: {source}")]
    Yaml { line: usize, source: YamlError },
    #[error("the hook {0:?} is not known; Helm leaves the object out")]
    Hook(String),
    #[error("the chart renders to more than {MAX_DOCUMENTS} documents")]
    Many,
}

/// Whether Helm takes the rendered file for objects: partials and notes are not.
pub fn holds_objects(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    !name.starts_with('_') && !file.ends_with("NOTES.txt")
}

/// The documents of a rendered file.
pub fn read(file: &str, text: &str) -> Vec<Result<Document, DocumentError>> {
    read_if(file, text, |_| true)
}

/// Those of them whose text is wanted; the others are not parsed.
fn read_if(
    file: &str,
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<Result<Document, DocumentError>> {
    let mut documents = Vec::new();
    for (line, text) in split(text).into_iter().filter(|(_, text)| is_wanted(text)) {
        if documents.len() >= MAX_DOCUMENTS {
            documents.push(Err(DocumentError::Many));
            break;
        }
        let root = match yaml::read(text) {
            Ok(root) => root,
            Err(source) => {
                let line = line + source.line - 1;
                documents.push(Err(DocumentError::Yaml { line, source }));
                continue;
            }
        };
        // A document of comments only.
        if root.is_null() {
            continue;
        }
        let role = match hook(&root) {
            Ok(role) => role,
            Err(error) => {
                documents.push(Err(error));
                continue;
            }
        };
        let (file, text) = (file.to_owned(), text.to_owned());
        documents.push(Ok(Document { file, line, text, root, role }));
    }
    documents
}

/// Whether definitions of types are among the documents that are read. They are large, and have
/// schemas but no containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definitions {
    Read,
    Skip,
}

/// The documents of a file below `crds/`.
pub fn read_crds(
    file: &str,
    text: &str,
    definitions: Definitions,
) -> Vec<Result<Document, DocumentError>> {
    let is_wanted = |text: &str| definitions == Definitions::Read || !is_definition(text);
    let mut documents = read_if(file, text, is_wanted);
    for document in documents.iter_mut().flatten() {
        document.role = Role::Crd;
    }
    documents
}

/// Whether the text of an object has the kind of a definition as one of its outermost keys.
fn is_definition(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "kind: CustomResourceDefinition")
}

/// The events that Helm supports.
const HOOKS: [&str; 10] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
    "test-success",
];

fn hook(root: &Node) -> Result<Role, DocumentError> {
    let annotations = root.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let Some(hooks) = annotations.and_then(|all| all.get("helm.sh/hook")?.text()) else {
        return Ok(Role::Resource);
    };
    let is_known = |hook: &str| HOOKS.contains(&hook.trim().to_ascii_lowercase().as_str());
    if hooks.split(',').all(is_known) {
        Ok(Role::Hook)
    } else {
        Err(DocumentError::Hook(hooks.to_owned()))
    }
}

/// The documents with the line that each starts at. A separator is `---` at the start of a line,
/// with the white space around it.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let whole = text.trim();
    let base = text.len() - text.trim_start().len();
    let mut add = |start: usize, end: usize| {
        let part = &whole[start..end];
        let blank = part.len() - part.trim_start().len();
        if !part.trim().is_empty() {
            let line = 1 + text[..base + start + blank].matches('\n').count();
            documents.push((line, part.trim()));
        }
    };
    let (mut start, mut from) = (0, 0);
    while let Some(found) = whole[from..].find("---") {
        let at = from + found;
        if at == 0 || whole[..at].ends_with('\n') {
            add(start, at);
            let after = &whole[at + 3..];
            start = at + 3 + (after.len() - after.trim_start().len());
            from = start;
        } else {
            from = at + 3;
            // A run of dashes may end in a separator only after a line break.
            while whole[from..].starts_with('-') {
                from += 1;
            }
        }
    }
    add(start, whole.len());
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_as_helm_splits_them() {
        for (text, expected) in [
            ("a: 1\n---\nb: 2\n", &[(1, "a: 1"), (3, "b: 2")][..]),
            ("\n---\n\na: 1\n---\n# c\n---\nb: 2", &[(4, "a: 1"), (6, "# c"), (8, "b: 2")]),
            ("---a: 1\n--- # x\nb: 2\n", &[(1, "a: 1"), (2, "# x\nb: 2")]),
            ("a: '---'\nb: x ---\nc: 1\n", &[(1, "a: '---'\nb: x ---\nc: 1")]),
            ("a: |\n  ---\n  x\n", &[(1, "a: |\n  ---\n  x")]),
            ("", &[]),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn definitions_of_types_are_left_out_and_other_objects_are_not() {
        let text = "apiVersion: v1\nkind: CustomResourceDefinition \nspec: [\n---\n\
                    kind: Pod\nmetadata:\n  kind: CustomResourceDefinition\n---\na: |\n  kind: \
                    CustomResourceDefinition\n";
        let read = read_crds("c/crds/a.yaml", text, Definitions::Skip);
        let lines = read.iter().map(|document| document.as_ref().unwrap().line);
        assert_eq!(lines.collect::<Vec<_>>(), [5, 9]);
        assert!(read_crds("c/crds/a.yaml", text, Definitions::Read)[0].is_err());
    }

    #[test]
    fn hooks_and_comments_are_distinguished() {
        let text = "# nothing\n---\nkind: Job\nmetadata:\n  annotations:\n    helm.sh/hook: \
                    pre-install, Test\n---\nkind: X\nmetadata:\n  annotations: {helm.sh/hook: \
                    crd-install}\n---\na: [\n---\nkind: Pod\n";
        let read = read("c/templates/a.yaml", text);
        assert_eq!(read.len(), 4);
        assert_eq!(read[0].as_ref().unwrap().role, Role::Hook);
        assert_eq!(read[1].as_ref().unwrap_err(), &DocumentError::Hook("crd-install".into()));
        let error = read[2].as_ref().unwrap_err();
        assert!(matches!(error, DocumentError::Yaml { line: 12.., .. }), "{error:?}");
        assert_eq!(read[3].as_ref().unwrap().line, 14);
    }

    #[test]
    fn notes_and_partials_hold_no_objects() {
        for (file, expected) in [
            ("c/templates/a.yaml", true),
            ("c/templates/b.txt", true),
            ("c/templates/NOTES.txt", false),
            ("c/charts/d/templates/NOTES.txt", false),
            ("c/templates/_helpers.tpl", false),
        ] {
            assert_eq!(holds_objects(file), expected, "{file}");
        }
    }
}
