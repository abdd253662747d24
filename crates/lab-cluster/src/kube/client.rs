//! Just enough of the Kubernetes API to apply manifests and read objects.

use std::io;
use std::path::PathBuf;

use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::crds;
use super::document::{self, Document, DocumentError};
use super::published::PublishedCrdError;

/// Owner of the fields that are applied.
const FIELD_MANAGER: &str = "landfall-lab";

/// Whether the server keeps what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Admission and validation run; nothing is stored.
    DryRun,
    Stored,
}

/// What the server does about fields that its schema does not contain, and about duplicate ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Strict,
    Warn,
}

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("reading manifests")]
    Document(#[from] DocumentError),
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("reading {}: it holds no *.yaml file", path.display())]
    NoManifests { path: PathBuf },
    #[error("{what}: no response from the API server")]
    Unreachable { what: String, source: reqwest::Error },
    #[error("{what}: the response of the API server is not the expected JSON")]
    Response { what: String, source: serde_json::Error },
    #[error("{what}: refused with {code} {reason}: {message}")]
    Refused { what: String, code: u16, reason: String, message: String },
    #[error("the API server has no {kind} in {api_version}; load its CRD first")]
    UnknownKind { api_version: String, kind: String },
    #[error("choosing a CRD")]
    Published(#[from] PublishedCrdError),
    #[error("the CRD {name} was not ready for use within {} s", crds::DEADLINE.as_secs())]
    NotEstablished { name: String },
}

/// A client with an administrator's rights.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
}

/// The failure object of the API.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
}

#[derive(Deserialize)]
struct TokenRequest {
    status: TokenStatus,
}

#[derive(Deserialize)]
struct TokenStatus {
    token: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
pub(super) struct Resource {
    name: String,
    namespaced: bool,
    kind: String,
}

impl Client {
    pub(super) fn new(http: reqwest::Client, base: Url, token: String) -> Self {
        Self { http, base, token }
    }

    /// Whether the server reports that it is ready. A server that cannot be reached is not.
    pub(super) async fn is_ready(&self) -> bool {
        is_good(self.request(Method::GET, self.url(["readyz"]))).await
    }

    /// Whether another server of the same authority reports that it is healthy. No token is sent.
    pub(super) async fn is_healthy(&self, url: &str) -> bool {
        is_good(self.http.get(url)).await
    }

    /// Reads the object or list at a path such as `/api/v1/namespaces/default`.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let request = self.request(Method::GET, self.url(segments));
        send(request, format!("reading {path}")).await
    }

    /// Creates an object in the collection, or subresource, at a path.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let request = self
            .request(Method::POST, self.url(segments))
            .header("Content-Type", "application/json")
            .body(object.to_string());
        send(request, format!("creating in {path}")).await
    }

    /// Deletes the object at a path.
    pub async fn delete(&self, path: &str) -> Result<(), ApiError> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let request = self.request(Method::DELETE, self.url(segments));
        send::<Value>(request, format!("deleting {path}")).await.map(drop)
    }

    /// Applies every document of `yaml`, in order, the way `oc apply --server-side` does. Returns
    /// the objects as the server has them, or the first refusal.
    pub async fn apply(
        &self,
        yaml: &str,
        persistence: Persistence,
        fields: FieldValidation,
    ) -> Result<Vec<Value>, ApiError> {
        let mut applied = Vec::new();
        for document in document::parse(yaml)? {
            applied.push(self.apply_one(&document, persistence, fields).await?);
        }
        Ok(applied)
    }

    /// Applies the `status` of every document of `yaml`, as the controllers of a cluster do. The
    /// objects must be there.
    pub async fn apply_status(&self, yaml: &str) -> Result<Vec<Value>, ApiError> {
        let mut applied = Vec::new();
        for document in document::parse(yaml)? {
            let (mut url, what) = self.place(&document).await?;
            if let Ok(mut path) = url.path_segments_mut() {
                path.push("status");
            }
            url.query_pairs_mut()
                .append_pair("fieldManager", FIELD_MANAGER)
                .append_pair("force", "true")
                .append_pair("fieldValidation", "Strict");
            let request = self
                .request(Method::PATCH, url)
                .header("Content-Type", "application/apply-patch+yaml")
                .body(document.text.to_owned());
            applied.push(send(request, format!("applying the status of {what}")).await?);
        }
        Ok(applied)
    }

    /// A token of a service account, signed by the server as on every cluster.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<String, ApiError> {
        let segments = ["api", "v1", "namespaces", namespace, "serviceaccounts", name, "token"];
        let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let request = self
            .request(Method::POST, self.url(segments))
            .header("Content-Type", "application/json")
            .body(body);
        let what = format!("asking for a token of {namespace}/{name}");
        let response: TokenRequest = send(request, what).await?;
        Ok(response.status.token)
    }

    /// The same server, with requests authenticated by another token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    async fn apply_one(
        &self,
        document: &Document<'_>,
        persistence: Persistence,
        fields: FieldValidation,
    ) -> Result<Value, ApiError> {
        let (mut url, what) = self.place(document).await?;
        url.query_pairs_mut()
            .append_pair("fieldManager", FIELD_MANAGER)
            .append_pair("force", "true")
            .append_pair(
                "fieldValidation",
                match fields {
                    FieldValidation::Strict => "Strict",
                    FieldValidation::Warn => "Warn",
                },
            );
        if persistence == Persistence::DryRun {
            url.query_pairs_mut().append_pair("dryRun", "All");
        }
        let request = self
            .request(Method::PATCH, url)
            .header("Content-Type", "application/apply-patch+yaml")
            .body(document.text.to_owned());
        send(request, format!("applying {what}")).await
    }

    /// The address of an object, and what it is called.
    async fn place(&self, document: &Document<'_>) -> Result<(Url, String), ApiError> {
        let resource =
            self.resource(&document.api_version, &document.kind).await?.ok_or_else(|| {
                ApiError::UnknownKind {
                    api_version: document.api_version.clone(),
                    kind: document.kind.clone(),
                }
            })?;
        let mut segments = group_version(&document.api_version);
        if resource.namespaced {
            let namespace = document.namespace.as_deref().unwrap_or("default");
            segments.extend(["namespaces", namespace]);
        }
        segments.extend([resource.name.as_str(), &document.name]);
        Ok((self.url(segments), format!("{} {}", document.kind, document.name)))
    }

    /// The resource that holds objects of a kind, from the server's own list.
    pub(super) async fn resource(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, ApiError> {
        let request = self.request(Method::GET, self.url(group_version(api_version)));
        let list = match send::<ResourceList>(request, format!("listing {api_version}")).await {
            Err(ApiError::Refused { code: 404, .. }) => return Ok(None),
            response => response?,
        };
        // Names with a slash are parts of objects, such as their status.
        let is_whole = |resource: &Resource| !resource.name.contains('/');
        Ok(list.resources.into_iter().find(|found| found.kind == kind && is_whole(found)))
    }

    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.request_as(method, url, "application/json")
    }

    pub(super) fn request_as(&self, method: Method, url: Url, accepted: &str) -> RequestBuilder {
        self.http
            .request(method, url)
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Accept", accepted)
    }

    /// Segments are escaped: a name in a manifest cannot point elsewhere.
    pub(super) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        // An https address always has a path to extend.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

async fn is_good(request: RequestBuilder) -> bool {
    matches!(request.send().await, Ok(response) if response.status() == StatusCode::OK)
}

/// `v1` is below `/api`, everything with a group below `/apis`.
fn group_version(api_version: &str) -> Vec<&str> {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    std::iter::once(root).chain(api_version.split('/')).collect()
}

pub(super) async fn send<T: DeserializeOwned>(
    request: RequestBuilder,
    what: String,
) -> Result<T, ApiError> {
    let response = async {
        let response = request.send().await?;
        Ok((response.status(), response.bytes().await?))
    };
    let (status, body) = match response.await {
        Ok(response) => response,
        Err(source) => return Err(ApiError::Unreachable { what, source }),
    };
    if !status.is_success() {
        let Status { reason, message } = serde_json::from_slice(&body).unwrap_or_else(|_| Status {
            reason: String::new(),
            message: String::from_utf8_lossy(&body).into_owned(),
        });
        return Err(ApiError::Refused { what, code: status.as_u16(), reason, message });
    }
    serde_json::from_slice(&body).map_err(|source| ApiError::Response { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let base = Url::parse("https://127.0.0.1:6443").unwrap();
        Client::new(reqwest::Client::new(), base, "secret-token".into())
    }

    #[test]
    fn the_core_group_and_named_groups_have_different_roots() {
        assert_eq!(group_version("v1"), ["api", "v1"]);
        assert_eq!(group_version("apps/v1"), ["apis", "apps", "v1"]);
    }

    #[test]
    fn a_name_with_a_slash_stays_one_segment() {
        let url = client().url(["api", "v1", "namespaces", "../../x"]);
        assert_eq!(url.path(), "/api/v1/namespaces/..%2F..%2Fx");
    }

    #[test]
    fn the_token_is_not_in_the_debug_text() {
        let text = format!("{:?}", client());
        assert!(text.contains("127.0.0.1:6443") && !text.contains("secret-token"), "{text}");
    }
}
