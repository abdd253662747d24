//! Why a catalog cannot be read, and where.

/// A catalog that cannot be read. A mistake that concerns one package is a [flaw](crate::Flaw) of
/// that package instead; a file that cannot be read is left out as long as there are others.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{path:?} is not a path of a file in a catalog")]
    Path { path: String },
    #[error("the catalog has more than {limit} files")]
    TooManyFiles { limit: usize },
    #[error("the catalog has more than {limit} documents")]
    TooManyDocuments { limit: usize },
    #[error("the catalog has more than {limit} entries, properties and related images")]
    TooManyItems { limit: usize },
    #[error("{path} is not text: byte {at} is not UTF-8")]
    NotText { path: String, at: usize },
    #[error("{path}: the pattern {pattern:?} cannot be read")]
    Pattern { path: String, pattern: String, source: ignore::Error },
    #[error("{path}:{line}:{column}: not valid YAML: {why}")]
    Yaml { path: String, line: usize, column: usize, why: String },
    #[error("{path}:{line}:{column}: not a document of a catalog: {why}")]
    Document { path: String, line: usize, column: usize, why: String },
    #[error("{first}{}", and_more(*more))]
    NothingLeft { first: String, more: usize },
    #[error(
        "{path} is a catalog template ({schema}), not a catalog: render it first, for example with `opm alpha render-template {kind} {path}`"
    )]
    Template { path: String, schema: String, kind: &'static str },
}

fn and_more(files: usize) -> String {
    match files {
        0 => String::new(),
        1 => "; 1 more file cannot be read".to_owned(),
        files => format!("; {files} more files cannot be read"),
    }
}
