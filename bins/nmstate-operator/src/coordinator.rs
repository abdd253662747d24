//! `coordinator`: grants nodes permission to change, and writes the status of policies. No other
//! component does either.

mod announcement;
mod assignments;
mod features;
mod reverts;
mod run_loop;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use kube::Api;
use tokio::sync::watch;

use crate::leadership::{self, Candidate, Pace};
use crate::metrics_port::{self, ServedTls};
use crate::requests;
use crate::service_port::{self, ServiceState};
use crate::stop;

pub use features::CoordinatorMetrics;
pub use run_loop::Coordinator;

/// The name of the lease.
const LEASE: &str = "nmstate-coordinator";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Namespace of the leader election lease
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "openshift-nmstate-operator"
    )]
    namespace: String,
    /// Identity of this coordinator in the lease
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "nmstate-coordinator")]
    identity: String,
    /// Seconds after which another coordinator replaces a leader that no longer renews its lease
    #[arg(long, value_name = "SECONDS", default_value_t = 137, value_parser = clap::value_parser!(u32).range(5..=3600))]
    lease: u32,
    /// Address of the health endpoints
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    #[command(flatten)]
    metrics: metrics_port::MetricsPort,
    #[command(flatten)]
    terms: metrics_port::Terms,
}

/// Runs until a stop is requested.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop::requested()?;
    let service = Arc::new(ServiceState::default());
    let served_tls = watch::Sender::new(ServedTls::Tls(arguments.terms.settings()?));
    let client = requests::client(requests::config().await?)?;
    let metrics = CoordinatorMetrics::register(&service.metrics);
    let metrics_port =
        metrics_port::serve(&arguments.metrics, client.clone(), served_tls.subscribe(), &service);
    let work = async {
        let candidate = Candidate {
            lease: LEASE.to_owned(),
            identity: leadership::identity(&arguments.identity),
            pace: Pace::lasting(arguments.lease),
        };
        let leases = Api::namespaced(client.clone(), &arguments.namespace);
        // A candidate that waits for the lease is ready.
        service.set_ready(true);
        leadership::lead(&leases, &candidate, &stop, async |stop| {
            let namespace = &arguments.namespace;
            Coordinator::new(client, namespace, metrics).run(&stop).await
        })
        .await
    };
    tokio::select! {
        done = work => done,
        served = service_port::serve(arguments.listen, Arc::clone(&service)) => match served? {},
        never = metrics_port => match never {},
    }
}
