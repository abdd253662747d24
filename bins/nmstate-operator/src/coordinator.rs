//! `coordinator`: gives nodes leave to change, and writes the status of policies. Nobody else does
//! either.

mod announcement;
mod assignments;
mod features;
mod view;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use kube::Api;
use tokio::sync::watch;

use crate::leadership::{self, Candidate, Pace};
use crate::metrics_port::{self, Offer};
use crate::requests;
use crate::service_port::{self, Standing};
use crate::stop;

pub use work::Coordinator;

/// The name of the lease.
const LEASE: &str = "nmstate-coordinator";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Namespace of the lease by which one coordinator leads
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "openshift-nmstate-operator"
    )]
    namespace: String,
    /// Unique name of this coordinator among others
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "nmstate-coordinator")]
    identity: String,
    /// Seconds after which another coordinator takes the place of one that is not heard of any more
    #[arg(long, value_name = "SECONDS", default_value_t = 137, value_parser = clap::value_parser!(u32).range(5..=3600))]
    lease: u32,
    /// Where health is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    #[command(flatten)]
    metrics: metrics_port::Place,
    #[command(flatten)]
    terms: metrics_port::Terms,
}

/// Runs until it is asked to stop.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop::requested()?;
    let standing = Arc::new(Standing::default());
    let offer = watch::Sender::new(Offer::Tls(arguments.terms.settings()?));
    let client = requests::client(requests::config().await?)?;
    let metrics =
        metrics_port::serve(&arguments.metrics, client.clone(), offer.subscribe(), &standing);
    let work = async {
        let candidate = Candidate {
            lease: LEASE.to_owned(),
            identity: leadership::identity(&arguments.identity),
            pace: Pace::lasting(arguments.lease),
        };
        let leases = Api::namespaced(client.clone(), &arguments.namespace);
        // Whoever waits for its turn is as ready as it can be.
        standing.set_ready(true);
        leadership::lead(&leases, &candidate, &stop, async |stop| {
            let namespace = &arguments.namespace;
            Coordinator::new(client, namespace, Arc::clone(&standing)).run(&stop).await
        })
        .await
    };
    tokio::select! {
        done = work => done,
        served = service_port::serve(arguments.listen, Arc::clone(&standing)) => match served? {},
        never = metrics => match never {},
    }
}
