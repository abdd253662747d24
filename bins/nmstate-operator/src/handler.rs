//! `handler`: applies policies to its node, and reports the node's network.

mod annotations;
mod drift;
mod enactments;
mod handler_metrics;
mod handler_state;
mod installed;
mod machine;
mod node_lock;
mod node_report;
mod policies;
mod run_loop;
mod view;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::Config;
use nmstate_api::NodeName;
use nmstate_api::annotations::Persistence;
use node_network::probe::Endpoint;
use node_network::{ApiTrust, RecordFile, Timing};
use tokio::sync::{Mutex, watch};

use crate::metrics_port::{self, ServedTls};
use crate::requests;
use crate::service_port::{self, ServiceState};
use crate::stop;
use machine::{NodeNetwork, ProbeSettings};
use node_lock::NodeLock;

pub use handler_metrics::HandlerMetrics;
pub use machine::{Change, Machine};
pub use run_loop::Handler;

pub(crate) use machine::is_ready;

/// The record of a change, beside the node's lock and so on the node's own disk.
const RECORD: &str = "change.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Node of this handler
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: NodeName,
    /// Namespace of the coordinator
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "openshift-nmstate-operator"
    )]
    namespace: String,
    /// Lock file that prevents two handlers on one node; the change in progress is recorded beside it
    #[arg(
        long,
        value_name = "FILE",
        env = "NMSTATE_INSTANCE_NODE_LOCK_FILE",
        default_value = "/var/k8s_nmstate/handler_lock"
    )]
    node_lock: PathBuf,
    /// Name that the DNS probe resolves after a change
    #[arg(long, value_name = "NAME", env = "PROBE_DNS_HOST", default_value = "root-servers.net")]
    dns_probe_name: String,
    /// Seconds that the network may take to work after a change, before the change is rolled back
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    patience: u64,
    /// Seconds after which NetworkManager rolls back a change that is not confirmed, instead of what
    /// `--patience` needs. For tests that interrupt changes
    #[arg(long, value_name = "SECONDS", hide = true, value_parser = clap::value_parser!(u64).range(5..=3600))]
    checkpoint: Option<u64>,
    /// Undo changes at the next reboot, unless their policy specifies otherwise
    #[arg(long)]
    memory_only: bool,
    /// Address of the health endpoints
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:29089")]
    listen: SocketAddr,
    #[command(flatten)]
    metrics: metrics_port::MetricsPort,
    #[command(flatten)]
    terms: metrics_port::Terms,
}

impl Arguments {
    fn timing(&self) -> Timing {
        let usual = Timing::patient(Duration::from_secs(self.patience));
        let checkpoint = self.checkpoint.map_or(usual.checkpoint, Duration::from_secs);
        Timing { checkpoint, ..usual }
    }
}

/// Runs until a stop is requested.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop::requested()?;
    let service = Arc::new(ServiceState::default());
    let served_tls = watch::Sender::new(ServedTls::Tls(arguments.terms.settings()?));
    let config = requests::config().await?;
    let api = endpoint(&config)?;
    let trust = trust(&config)?;
    let client = requests::client(config)?;
    let metrics = HandlerMetrics::register(&service.metrics);
    let metrics_port =
        metrics_port::serve(&arguments.metrics, client.clone(), served_tls.subscribe(), &service);
    let work = async {
        let _lock = tokio::select! {
            lock = NodeLock::take(&arguments.node_lock) => lock?,
            () = stop.cancelled() => return Ok(()),
        };
        let boot =
            std::fs::read_to_string(BOOT_ID).with_context(|| format!("reading {BOOT_ID}"))?;
        let folder = arguments.node_lock.parent().unwrap_or(std::path::Path::new("/"));
        let machine = NodeNetwork {
            client: client.clone(),
            node: arguments.node_name.clone(),
            settings: ProbeSettings {
                api,
                trust,
                dns_name: arguments.dns_probe_name.clone(),
                timing: arguments.timing(),
                persistence: match arguments.memory_only {
                    true => Persistence::MemoryOnly,
                    false => Persistence::AcrossReboots,
                },
            },
            record: RecordFile::new(folder.join(RECORD), boot.trim()),
            events: Mutex::new(None),
            metrics: metrics.clone(),
        };
        let handler = Handler {
            node: arguments.node_name.clone(),
            namespace: arguments.namespace.clone(),
            machine,
            service: Arc::clone(&service),
            metrics,
        };
        tracing::info!(node = %arguments.node_name, "handling policies");
        Box::pin(handler.run(client, &stop)).await
    };
    tokio::select! {
        done = work => done,
        served = service_port::serve(arguments.listen, Arc::clone(&service)) => match served? {},
        never = metrics_port => match never {},
    }
}

/// The address of the API server, for the probe.
fn endpoint(config: &Config) -> Result<Endpoint> {
    let url = &config.cluster_url;
    let host = url.host().with_context(|| format!("the cluster's address {url} has no host"))?;
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
    Ok(Endpoint { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// The trust for the API server, for the probe.
fn trust(config: &Config) -> Result<Option<ApiTrust>> {
    let is_tls = config.cluster_url.scheme_str() != Some("http") && !config.accept_invalid_certs;
    let authorities = config.root_cert.clone().filter(|_| is_tls);
    let trust = authorities.map(|it| ApiTrust::new(it, config.tls_server_name.clone()));
    Ok(trust.transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_goes_where_the_client_goes() {
        let at = |url: &str| endpoint(&Config::new(url.parse().unwrap())).unwrap();
        let expected = Endpoint { host: "api-int.example".into(), port: 6443 };
        assert_eq!(at("https://api-int.example:6443"), expected);
        assert_eq!(at("https://[2001:db8::1]").host, "2001:db8::1");
        assert_eq!(at("https://172.30.0.1/").port, 443);
    }
}
