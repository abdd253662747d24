//! The connection to the API server: lists of objects, page by page.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use command_line::say;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::{ObjectList, Request};
use kube::{Client, Config};
use serde_json::Value;

use super::objects::{Kind, Objects};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A page of rendered MachineConfigs has tens of megabytes.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
const PAGE: u32 = 50;
/// Far more than any cluster has; a list that never ends is not followed forever.
const MAX_PAGES: usize = 1000;

pub(super) struct Connection {
    client: Client,
    address: String,
}

impl Connection {
    /// Uses this kubeconfig, or the one that `oc` would use.
    pub(super) async fn open(path: Option<&Path>, context: Option<&str>) -> Result<Self> {
        let kubeconfig = match path {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| unreadable(&error))?,
            None => Kubeconfig::read().map_err(|error| {
                anyhow!("{}; give --kubeconfig, or set KUBECONFIG", unreadable(&error))
            })?,
        };
        if let Some(wanted) = context {
            let known: Vec<&str> = kubeconfig.contexts.iter().map(|it| it.name.as_str()).collect();
            ensure!(
                known.contains(&wanted),
                "--context {wanted}: the kubeconfig has {}",
                if known.is_empty() { "no contexts".to_owned() } else { known.join(", ") }
            );
        }
        let context = context.map(str::to_owned);
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| anyhow!("using the kubeconfig: {}", unreadable(&error)))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let address = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| anyhow!("connecting to {address}: {}", why(&error)))?;
        Ok(Self { client, address })
    }

    /// Lists every kind. What the cluster does not have or does not show is noted; without nodes
    /// there is nothing to report.
    pub(super) async fn objects(&self) -> Result<Objects> {
        let mut objects = Objects::default();
        for kind in Kind::ALL {
            match self.list(kind).await {
                Ok(list) => objects.add(kind, list)?,
                Err(kube::Error::Api(status)) if status.code == 404 => objects.note_absent(kind),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    ensure!(
                        kind != Kind::Nodes,
                        "listing nodes at {}: {}; the ClusterRole in examples/brex-cluster-reader.yaml \
                         has the necessary rights",
                        self.address,
                        status.message
                    );
                    objects.note_forbidden(kind, &status.message);
                }
                Err(kube::Error::Api(status)) if status.code == 401 => bail!(
                    "the cluster at {} does not accept the credentials of the kubeconfig; log in \
                     again with `oc login`",
                    self.address
                ),
                Err(error) => bail!("listing {kind} at {}: {}", self.address, why(&error)),
            }
        }
        for note in &objects.notes {
            say(&format!("note: {note}"));
        }
        Ok(objects)
    }

    async fn list(&self, kind: Kind) -> Result<Vec<Value>, kube::Error> {
        let mut parameters = ListParams { limit: Some(PAGE), ..ListParams::default() };
        let mut items = Vec::new();
        for _ in 0..MAX_PAGES {
            let request = Request::new(kind.path()).list(&parameters);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<Value> = self.client.request(request).await?;
            items.extend(page.items.into_iter().filter(|item| kind.is_of_interest(item)));
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() {
                break;
            }
        }
        Ok(items)
    }
}

/// The content of a kubeconfig may be a secret, so only the place of a mistake is repeated.
fn unreadable(error: &KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            anyhow!("reading {}: {source}", path.display())
        }
        KubeconfigError::Parse(error) => {
            let place = error.location().map(|it| format!(" (line {})", it.line()));
            anyhow!("the kubeconfig cannot be read{}", place.unwrap_or_default())
        }
        KubeconfigError::CurrentContextNotSet => {
            anyhow!("the kubeconfig has no current context; give --context")
        }
        error => anyhow!("{error}"),
    }
}

/// Why a request had no response: the causes below kube's own text.
fn why(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} (HTTP {})", status.message, status.code);
    }
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        causes.retain(|earlier| !earlier.contains(&text));
        causes.push(text);
        source = cause.source();
    }
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}
