//! Error responses, in the format of the distribution specification.

use error_causes::with_causes;
use http::{Method, StatusCode};
use oci::{Digest, Pointer, Repository};
use serde_json::{Value, json};

use crate::route::RouteError;
use crate::snapshot::ReadError;

/// An error response with its reason. Contains no details of the server's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    /// One of the error codes of the distribution specification.
    code: &'static str,
    message: String,
}

impl ErrorResponse {
    pub(crate) fn read_only(method: &Method) -> Self {
        let message = format!(
            "{method} is not possible: this registry is a read-only view of an oc-mirror workspace"
        );
        Self { status: StatusCode::METHOD_NOT_ALLOWED, code: "UNSUPPORTED", message }
    }

    pub(crate) fn repository_unknown(repository: &Repository) -> Self {
        Self::absent("NAME_UNKNOWN", format!("the workspace has no repository {repository}"))
    }

    pub(crate) fn manifest_unknown(repository: &Repository, pointer: &Pointer) -> Self {
        Self::absent("MANIFEST_UNKNOWN", format!("the repository {repository} has no {pointer}"))
    }

    pub(crate) fn blob_unknown(repository: &Repository, digest: &Digest) -> Self {
        Self::absent("BLOB_UNKNOWN", format!("the repository {repository} has no blob {digest}"))
    }

    pub(crate) fn range() -> Self {
        Self {
            status: StatusCode::RANGE_NOT_SATISFIABLE,
            code: "SIZE_INVALID",
            message: "the range starts after the end of the blob".into(),
        }
    }

    /// The content is listed and cannot be read. The details are for the log.
    pub(crate) fn damaged() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "UNKNOWN",
            message: "the content cannot be read from the workspace; the log of the server has the reason"
                .into(),
        }
    }

    pub(crate) fn document(&self) -> Value {
        json!({ "errors": [{ "code": self.code, "message": self.message, "detail": null }] })
    }

    fn absent(code: &'static str, message: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, code, message }
    }
}

impl From<RouteError> for ErrorResponse {
    fn from(error: RouteError) -> Self {
        let (status, code) = match &error {
            RouteError::Unknown => (StatusCode::NOT_FOUND, "UNSUPPORTED"),
            // No image can have such a tag; the specification requires this response.
            RouteError::Tag(_) => (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN"),
            RouteError::Escaped | RouteError::Long | RouteError::Repository(_) => {
                (StatusCode::BAD_REQUEST, "NAME_INVALID")
            }
            RouteError::Digest(_) => (StatusCode::BAD_REQUEST, "DIGEST_INVALID"),
            RouteError::Page(_) => (StatusCode::BAD_REQUEST, "PAGINATION_NUMBER_INVALID"),
        };
        Self { status, code, message: error.to_string() }
    }
}

impl From<ReadError> for ErrorResponse {
    fn from(error: ReadError) -> Self {
        tracing::error!("serving from the workspace: {}", with_causes(&error));
        Self::damaged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;

    #[test]
    fn the_document_is_the_one_clients_parse() {
        let response = ErrorResponse::read_only(&Method::PUT);
        let error = &response.document()["errors"][0];
        assert_eq!(error["code"], "UNSUPPORTED");
        assert!(error["message"].as_str().unwrap().contains("read-only"), "{error}");
    }

    #[test]
    fn damage_is_not_described_to_clients() {
        let source = std::io::Error::other("/secret/path");
        let response = ErrorResponse::from(ReadError::Open { digest: Digest::of(b""), source });
        assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.document().to_string().contains("secret"));
    }

    #[test]
    fn an_invalid_path_differs_from_an_unknown_name() {
        for (path, status, code) in [
            ("/v2/A/tags/list", 400, "NAME_INVALID"),
            ("/v2/a/manifests/.x", 404, "MANIFEST_UNKNOWN"),
            ("/v2/a/blobs/sha256:1", 400, "DIGEST_INVALID"),
            ("/elsewhere", 404, "UNSUPPORTED"),
        ] {
            let response = ErrorResponse::from(Route::parse(path, "").unwrap_err());
            assert_eq!((response.status.as_u16(), response.code), (status, code), "{path}");
        }
    }
}
