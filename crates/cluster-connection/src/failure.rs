//! Why a cluster could not be read, in terms that a user can act on.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

/// A kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "kubeconfig not found (searched {}); specify one with --kubeconfig or $KUBECONFIG",
        list(searched)
    )]
    NoKubeconfig { searched: Vec<PathBuf> },
    #[error("reading {}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a kubeconfig: {cause}", path.display())]
    Malformed { path: PathBuf, cause: String },
    #[error("the kubeconfig has no context {wanted:?}; it has {}", names(known))]
    UnknownContext { wanted: String, known: Vec<String> },
    #[error(
        "the kubeconfig has no current context; name one with --context, or set one with `oc config use-context`"
    )]
    NoCurrentContext,
    #[error("using the kubeconfig: {0}")]
    Unusable(String),
    #[error("preparing requests to {address}: {cause}")]
    Client { address: String, cause: String },
}

fn list(paths: &[PathBuf]) -> String {
    names(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
}

fn names(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Objects cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("the cluster does not have this kind")]
    Missing,
    /// Contains the message of the API server.
    #[error("{0}")]
    Forbidden(String),
    #[error(
        "the cluster at {address} does not accept the credentials of the kubeconfig; log in again with `oc login`, or use a valid kubeconfig"
    )]
    Unauthorized { address: String },
    #[error("{0}")]
    Failed(String),
}

impl ListError {
    pub(crate) fn of(error: &kube::Error, address: &str) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 => Self::Missing,
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden(status.message.clone())
            }
            kube::Error::Api(status) if status.code == 401 => {
                Self::Unauthorized { address: address.to_owned() }
            }
            error => Self::Failed(explain(error)),
        }
    }
}

/// Why a request failed: the message of the server, or the causes below kube's own text.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => return format!("{} (HTTP {})", status.message, status.code),
        // The address may contain a password.
        kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => {
            return "the proxy of the kubeconfig or the environment is not an HTTP proxy"
                .to_owned();
        }
        _ => {}
    }
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Some repeat the causes below them.
        causes.retain(|earlier| !earlier.contains(&text));
        causes.push(text);
        source = cause.source();
    }
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}
