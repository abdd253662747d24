//! The `guest-access` command: beside a hosted control plane, gives a component the identity of its
//! own service account in the guest cluster.
//!
//! It runs in a container of its own, the only one that has the guest's administrator credentials. It
//! requests short-lived tokens of the service account and writes them, with a kubeconfig that names
//! them, to a folder that the component reads.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::requests::{self, within};
use crate::stop;

const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
const KUBECONFIG: &str = "kubeconfig";
/// How long a token is valid. A new one is requested after half of that.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// The interval between two checks that the account is the same: its tokens end with it.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The service account in the guest cluster
    #[arg(long, value_name = "NAME")]
    service_account: String,
    /// Its namespace
    #[arg(long, value_name = "NAME", default_value = "openshift-nmstate-operator")]
    namespace: String,
    /// Folder for `kubeconfig`, `token` and `ca.crt`
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Exit as soon as the files exist
    #[arg(long)]
    once: bool,
}

/// Writes the files, and renews the token until a stop is requested.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop::requested()?;
    let client = requests::client(requests::config().await?)?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &arguments.namespace);
    let mut held: Option<Held> = None;
    loop {
        let wait = match renew(&accounts, arguments, held.as_ref()).await {
            Ok(Some(renewed)) => {
                tracing::info!(account = arguments.service_account, "wrote a token");
                if arguments.once {
                    return Ok(());
                }
                held = Some(renewed);
                POLL_INTERVAL
            }
            Ok(None) => POLL_INTERVAL,
            Err(error) => {
                tracing::warn!("{error:#}; trying again in {} s", RETRY.as_secs());
                RETRY
            }
        };
        if sleep(wait, &stop).await {
            return Ok(());
        }
    }
}

/// Whether a stop was requested meanwhile.
async fn sleep(wait: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(wait) => false,
        () = stop.cancelled() => true,
    }
}

/// The token that was written last.
struct Held {
    account: Option<String>,
    since: std::time::Instant,
}

/// Writes a new token if the one that is there is old, or of an account that was created again.
async fn renew(
    accounts: &Api<ServiceAccount>,
    arguments: &Arguments,
    held: Option<&Held>,
) -> Result<Option<Held>> {
    let name = arguments.service_account.as_str();
    let doing = || format!("requesting a token of {}/{name}", arguments.namespace);
    let account = within(accounts.get(name)).await.with_context(doing)?.with_context(doing)?;
    let is_good = |held: &&Held| held.account == account.uid() && held.since.elapsed() < LIFE / 2;
    if held.filter(is_good).is_some() {
        return Ok(None);
    }
    let seconds = i64::try_from(LIFE.as_secs()).unwrap_or(i64::MAX);
    let spec =
        TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let parameters = PostParams::default();
    let response = within(accounts.create_token_request(name, &parameters, &request));
    let response = response.await.with_context(doing)?.with_context(doing)?;
    let token = response.status.context("the response has no token").with_context(doing)?.token;
    let folder = &arguments.out;
    write(folder, TOKEN, token.as_bytes())?;
    let own = Kubeconfig::read().context("reading the kubeconfig of the guest")?;
    let (kubeconfig, authority) = limited(&serde_json::to_value(own)?, folder)?;
    if let Some(authority) = authority {
        let read = || format!("reading {}", authority.display());
        write(folder, AUTHORITY, &fs::read(&authority).with_context(read)?)?;
    }
    // Last: a program that waits for it finds the others.
    write(folder, KUBECONFIG, kubeconfig.to_string().as_bytes())?;
    Ok(Some(Held { account: account.uid(), since: std::time::Instant::now() }))
}

/// The same cluster with the token as the only credential, and the file of the authority that has to
/// be copied, if it is one.
fn limited(own: &Value, folder: &Path) -> Result<(Value, Option<PathBuf>)> {
    let named = |list: &str, name: &Value| -> Option<Value> {
        own[list].as_array()?.iter().find(|it| it["name"] == *name).cloned()
    };
    let context =
        named("contexts", &own["current-context"]).context("it has no current context")?;
    let cluster = named("clusters", &context["context"]["cluster"]);
    let mut cluster = cluster.context("its current context has no cluster")?["cluster"].clone();
    let authority = cluster["certificate-authority"].as_str().map(PathBuf::from);
    if authority.is_some() {
        cluster["certificate-authority"] = json!(folder.join(AUTHORITY));
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "guest",
        "clusters": [{"name": "guest", "cluster": cluster}],
        "contexts": [{"name": "guest", "context": {"cluster": "guest", "user": "component"}}],
        "users": [{"name": "component", "user": {"tokenFile": folder.join(TOKEN)}}],
    });
    Ok((kubeconfig, authority))
}

/// Replaces a file as a whole, readable by this user only.
fn write(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let (path, partial) = (folder.join(name), folder.join(format!(".{name}")));
    let doing = || format!("writing {}", path.display());
    fs::create_dir_all(folder).with_context(doing)?;
    let options =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
    let mut file = options.open(&partial).with_context(doing)?;
    std::io::Write::write_all(&mut file, content).with_context(doing)?;
    fs::rename(&partial, &path).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_a_credential() {
        let own = json!({
            "current-context": "b",
            "contexts": [
                {"name": "a", "context": {"cluster": "other", "user": "admin"}},
                {"name": "b", "context": {"cluster": "guest", "user": "admin"}},
            ],
            "clusters": [
                {"name": "other", "cluster": {"server": "https://other"}},
                {"name": "guest", "cluster": {
                    "server": "https://guest:6443", "certificate-authority": "/etc/guest/ca",
                }},
            ],
            "users": [{"name": "admin", "user": {"client-key-data": "c2VjcmV0"}}],
        });
        let (limited, authority) = limited(&own, Path::new("/run/guest")).unwrap();
        assert_eq!(authority.as_deref(), Some(Path::new("/etc/guest/ca")));
        let cluster = &limited["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://guest:6443");
        assert_eq!(cluster["certificate-authority"], "/run/guest/ca.crt");
        assert_eq!(limited["users"][0]["user"], json!({"tokenFile": "/run/guest/token"}));
        assert!(!limited.to_string().contains("c2VjcmV0"));
    }

    #[test]
    fn files_are_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        for content in ["a longer one", "short"] {
            write(&folder, TOKEN, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.join(TOKEN)).unwrap(), content);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}
