//! A connection to a cluster, for programs of users: finds the kubeconfig, lists objects page by
//! page, and explains failures without repeating secrets.

mod failure;
mod kubeconfig;
mod objects;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use kube::api::ListParams;
use kube::config::{KubeConfigOptions, KubeconfigError};
use kube::core::{ObjectList, Request};
use kube::{Client, Config};
use serde_json::Value;

pub use failure::{ConnectError, ListError, explain};
pub use kubeconfig::{KubeconfigPaths, default_paths};
pub use objects::ObjectError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A page of large objects has tens of megabytes, and links are slow.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Far more than any cluster has; a list that never ends is not followed forever.
const MAX_PAGES: usize = 1000;

/// A cluster that accepts requests.
pub struct Connection {
    client: Client,
    address: String,
}

// The client has credentials and no representation for logs.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What is listed.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// Path of the API, such as `/api/v1/nodes`.
    pub path: &'a str,
    pub label_selector: Option<&'a str>,
    /// Objects per request.
    pub page_size: u32,
    /// Whether the first page is enough.
    pub first_page_only: bool,
}

/// Whether a list was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// The server offered one more page too often.
    Endless,
}

impl Connection {
    /// Prepares requests to the cluster of a kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// If no kubeconfig is found, or it cannot be used.
    pub async fn connect(
        paths: KubeconfigPaths<'_>,
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let kubeconfig = paths.read()?;
        if let Some(wanted) = context {
            let names = kubeconfig.contexts.iter().map(|context| context.name.clone());
            let known: Vec<String> = names.collect();
            if !known.iter().any(|name| name == wanted) {
                return Err(ConnectError::UnknownContext { wanted: wanted.to_owned(), known });
            }
        }
        let context = context.map(str::to_owned);
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| match error {
            KubeconfigError::CurrentContextNotSet => ConnectError::NoCurrentContext,
            error => ConnectError::Unusable(error.to_string()),
        })?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let address = config.cluster_url.to_string();
        match Client::try_from(config) {
            Ok(client) => Ok(Self { client, address }),
            Err(error) => Err(ConnectError::Client { address, cause: explain(&error) }),
        }
    }

    /// Prepares requests with one kubeconfig.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub async fn of_file(path: &Path) -> Result<Self, ConnectError> {
        Self::connect(KubeconfigPaths { named: Some(path), default: &[] }, None).await
    }

    /// The URL of the API server.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Passes each object of a list to `take`, page by page.
    ///
    /// # Errors
    /// If the server does not respond, does not have the kind, or rejects the account.
    pub async fn list(
        &self,
        listing: Listing<'_>,
        mut take: impl FnMut(Value),
    ) -> Result<Completeness, ListError> {
        let mut parameters = ListParams {
            label_selector: listing.label_selector.map(str::to_owned),
            limit: Some(listing.page_size),
            ..ListParams::default()
        };
        for _ in 0..MAX_PAGES {
            let page = self.page(listing.path, &parameters).await;
            let page = page.map_err(|error| ListError::of(&error, &self.address))?;
            page.items.into_iter().for_each(&mut take);
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() || listing.first_page_only {
                return Ok(Completeness::Complete);
            }
        }
        Ok(Completeness::Endless)
    }

    async fn page(
        &self,
        path: &str,
        parameters: &ListParams,
    ) -> Result<ObjectList<Value>, kube::Error> {
        let request = Request::new(path).list(parameters);
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }
}
