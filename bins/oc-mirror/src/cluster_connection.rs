//! A connection to a cluster, for reading lists and nothing else.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use cluster_inventory::{Kind, Reason, Survey};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::{ObjectList, Request};
use kube::{Client, Config};
use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A page of operators' versions may have tens of megabytes, and lines are slow.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Objects asked for at once.
const PAGE: u32 = 100;
/// Far more than any cluster has; a server that never ends its list is not followed forever.
const MAX_PAGES: usize = 1000;

/// How a cluster is found.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    /// Named by a flag.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// Where it is looked for otherwise.
    pub(crate) usual: &'a [PathBuf],
    pub(crate) context: Option<&'a str>,
}

/// A cluster that can be asked.
pub(crate) struct Connection {
    client: Client,
    address: String,
}

impl Cluster<'_> {
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let kubeconfig = self.kubeconfig()?;
        if let Some(wanted) = self.context {
            let known = kubeconfig.contexts.iter().map(|context| context.name.as_str());
            let known: Vec<&str> = known.collect();
            anyhow::ensure!(
                known.contains(&wanted),
                "the kubeconfig has no context {wanted:?}; it has {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
        }
        let options = KubeConfigOptions {
            context: self.context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| match error {
            KubeconfigError::CurrentContextNotSet => anyhow::anyhow!(
                "the kubeconfig has no current context; name one with --context, or set one with `oc config use-context`"
            ),
            error => anyhow::anyhow!("using the kubeconfig: {error}"),
        })?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let address = config.cluster_url.to_string();
        let client = Client::try_from(config);
        let client = client
            .map_err(|error| anyhow::anyhow!("preparing to ask {address}: {}", why(&error)))?;
        Ok(Connection { client, address })
    }

    fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        if let Some(path) = self.kubeconfig {
            return read(path);
        }
        // Of several, those that are there count, as for kubectl.
        let mut merged: Option<Kubeconfig> = None;
        for path in self.usual.iter().filter(|path| path.exists()) {
            let next = read(path)?;
            merged = Some(match merged {
                None => next,
                Some(merged) => merged.merge(next).context("joining several kubeconfigs")?,
            });
        }
        merged.ok_or_else(|| {
            let looked: Vec<String> =
                self.usual.iter().map(|path| path.display().to_string()).collect();
            anyhow::anyhow!(
                "there is no kubeconfig (looked for {}); name one with --kubeconfig or $KUBECONFIG",
                if looked.is_empty() { "none".to_owned() } else { looked.join(", ") }
            )
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(source, path) => {
            anyhow::Error::new(source).context(format!("reading {}", path.display()))
        }
        // What is in the file may be a password: the place alone is told.
        KubeconfigError::Parse(error) => {
            let place = error.location().map_or_else(String::new, |place| {
                format!(" at line {}, column {}", place.line(), place.column())
            });
            anyhow::anyhow!("{} is no kubeconfig: it cannot be read{place}", path.display())
        }
        error => anyhow::anyhow!("{} is no kubeconfig: {error}", path.display()),
    })
}

impl Connection {
    /// Asks for all that an inventory holds. What the cluster does not have or does not show
    /// is noted; that it does not answer is an error.
    pub(crate) async fn survey(&self) -> anyhow::Result<Survey> {
        let mut survey = Survey::new();
        let mut seen = 0;
        for kind in Kind::ALL {
            match self.list(kind, &mut survey).await {
                Ok(()) => seen += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    tracing::warn!(
                        "the cluster has no objects of kind {kind}: {}",
                        kind.consequence()
                    );
                    survey.could_not_read(kind, Reason::Missing, String::new());
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    tracing::warn!(
                        "{kind} may not be listed by this account: {}. The cluster says: {}",
                        kind.consequence(),
                        status.message
                    );
                    survey.could_not_read(kind, Reason::Forbidden, status.message);
                }
                Err(kube::Error::Api(status)) if status.code == 401 => anyhow::bail!(
                    "the cluster at {} does not accept the credentials of the kubeconfig; log in again (`oc login`), or use one that is valid",
                    self.address
                ),
                Err(error) => {
                    anyhow::bail!("listing {kind} at {}: {}", self.address, why(&error))
                }
            }
        }
        anyhow::ensure!(
            seen > 0,
            "nothing could be read from {}: it is no OpenShift cluster, or the account may list nothing",
            self.address
        );
        Ok(survey)
    }

    async fn list(&self, kind: Kind, survey: &mut Survey) -> Result<(), kube::Error> {
        let mut parameters = kube::api::ListParams {
            label_selector: kind.label_selector().map(str::to_owned),
            limit: Some(if kind.one_is_enough() { 1 } else { PAGE }),
            ..kube::api::ListParams::default()
        };
        for _ in 0..MAX_PAGES {
            let request = Request::new(kind.list_path()).list(&parameters);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<Value> = self.client.request(request).await?;
            page.items.iter().for_each(|object| survey.add(kind, object));
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            match next {
                Some(token) if !kind.one_is_enough() => parameters.continue_token = Some(token),
                _ => return Ok(()),
            }
        }
        tracing::warn!("the list of {kind} has no end; what came so far is taken");
        survey.could_not_read(kind, Reason::Malformed, "its list has no end".to_owned());
        Ok(())
    }
}

/// Why a request had no answer: what the server said, else the causes below kube's own words.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => return format!("{} (HTTP {})", status.message, status.code),
        // The address may hold a password.
        kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => {
            return "the proxy of the kubeconfig or the environment is none of HTTP".to_owned();
        }
        _ => {}
    }
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Some repeat what comes after them.
        causes.retain(|said| !said.contains(&text));
        causes.push(text);
        source = cause.source();
    }
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}
