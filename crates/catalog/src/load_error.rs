//! Why a catalog cannot be read, and where.

/// A catalog that cannot be read. Mistakes that concern one package only are no such error: they
/// are [flaws](crate::Flaw) of the package.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{path:?} is no path of a file in a catalog")]
    Path { path: String },
    #[error("the catalog has more than {limit} files")]
    TooManyFiles { limit: usize },
    #[error("the catalog has more than {limit} documents")]
    TooManyDocuments { limit: usize },
    #[error("the catalog has more than {limit} entries, properties and related images")]
    TooManyItems { limit: usize },
    #[error("{path} is not text: byte {at} is no UTF-8")]
    NotText { path: String, at: usize },
    #[error("{path}: the pattern {pattern:?} cannot be read")]
    Pattern { path: String, pattern: String, source: ignore::Error },
    #[error("{path}:{line}:{column}: not valid YAML: {why}")]
    Yaml { path: String, line: usize, column: usize, why: String },
    #[error("{path}:{line}:{column}: not a document of a catalog: {why}")]
    Document { path: String, line: usize, column: usize, why: String },
}
