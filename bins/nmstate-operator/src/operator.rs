//! `operator`: decides whether handlers run in this cluster, deploys them, and tells the cluster.
//!
//! Observe, decide, perform, report; what is decided is in `nmstate-deployment`.

mod adoption;
pub(crate) mod handover;
mod notes;
pub(crate) mod observe;
pub(crate) mod others;
mod own_port;
mod perform;
mod reports;
mod stored_versions;
mod watches;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use kube::{Api, Client};
use nmstate_deployment::decide::{Decision, Seen, Settings, decide};
use nmstate_deployment::handover::HandoverState;
use nmstate_deployment::names::{NAMESPACE, OPERATOR};
use nmstate_deployment::operand::{ControlPlane, SINGLE_NODE_LEASE};
use tokio_util::sync::CancellationToken;

use crate::leadership::{self, Candidate, Pace};
use crate::metrics_port;
use crate::requests;
use crate::service_port::{self, ServiceState};
use crate::stop;
use adoption::Adopter;
use own_port::OwnPort;
use perform::Performer;

/// Without any event, everything is reconciled again after this time.
const RESYNC_INTERVAL: Duration = Duration::from_secs(600);
/// Another operator can disappear without an event.
const OTHERS_INTERVAL: Duration = Duration::from_secs(30);
/// While one operator makes way for another, which happens step by step.
const HAND_OVER: Duration = Duration::from_secs(2);
/// After a failure.
const RETRY: Duration = Duration::from_secs(5);
/// Events come in bursts; one reconciliation is enough for all of them.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Image of the handlers and the coordinator
    #[arg(long, value_name = "IMAGE", env = "OPERAND_IMAGE")]
    operand_image: String,
    /// Version to report to the cluster
    #[arg(long, value_name = "VERSION", env = "RELEASE_VERSION")]
    release_version: String,
    /// Platforms on which an NMState is created by default, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "BareMetal")]
    default_platforms: Vec<String>,
    /// Run beside a hosted control plane, without a lease: one replica is ensured there
    #[arg(long)]
    hosted: bool,
    /// Identity of this operator in the lease
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "nmstate-operator")]
    identity: String,
    /// Address of the health endpoints
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    #[command(flatten)]
    metrics: metrics_port::MetricsPort,
}

/// Runs until a stop is requested.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop::requested()?;
    let service = Arc::new(ServiceState::default());
    let client = requests::client(requests::config().await?)?;
    let port = OwnPort::new(&service);
    let metrics =
        metrics_port::serve(&arguments.metrics, client.clone(), port.served_tls(), &service);
    let work = async {
        // A candidate that waits for the lease is ready.
        service.set_ready(true);
        let settings = Settings {
            image: arguments.operand_image.clone(),
            version: arguments.release_version.clone(),
            default_platforms: platforms(&arguments.default_platforms),
        };
        if arguments.hosted {
            return Box::pin(operate(&client, &settings, arguments.hosted, &port, &stop)).await;
        }
        let candidate = Candidate {
            lease: OPERATOR.to_owned(),
            identity: leadership::identity(&arguments.identity),
            pace: pace(&client).await,
        };
        let leases = Api::namespaced(client.clone(), NAMESPACE);
        leadership::lead(&leases, &candidate, &stop, async |stop| {
            Box::pin(operate(&client, &settings, arguments.hosted, &port, &stop)).await
        })
        .await
    };
    tokio::select! {
        done = work => done,
        served = service_port::serve(arguments.listen, Arc::clone(&service)) => match served? {},
        never = metrics => match never {},
    }
}

/// How long the lease lasts in this cluster.
async fn pace(client: &Client) -> Pace {
    match observe::platform(client).await {
        Ok(platform) if platform.control_plane == ControlPlane::SingleNode => {
            Pace::lasting(SINGLE_NODE_LEASE)
        }
        _ => Pace::default(),
    }
}

fn platforms(list: &[String]) -> BTreeSet<String> {
    let names = list.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The loop: one reconciliation per burst of events.
async fn operate(
    client: &Client,
    settings: &Settings,
    is_hosted: bool,
    port: &OwnPort,
    stop: &CancellationToken,
) -> Result<()> {
    let mut news = watches::open(client);
    let mut news_of_documents = None;
    let mut operation = Operation {
        client,
        settings,
        port,
        performer: Performer::new(client.clone(), is_hosted),
        adopter: None,
        is_migrated: false,
    };
    loop {
        let result = Box::pin(operation.step()).await;
        port.reconciled(&result);
        let wait = match result {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!("{error:#}; trying again in {} s", RETRY.as_secs());
                RETRY
            }
        };
        // Watched only by those who have a use for it.
        match &operation.adopter {
            None => news_of_documents = None,
            Some(_) if news_of_documents.is_some() => {}
            Some(_) => news_of_documents = Some(watches::documents(client)),
        }
        let mut all = stream::select(
            &mut news,
            stream::iter(news_of_documents.as_mut()).flatten().chain(stream::pending()),
        );
        tokio::select! {
            next = all.next() => next.context("watching the cluster ended")?,
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return Ok(()),
        }
        tokio::time::sleep(SETTLE).await;
        while let Some(Some(())) = all.next().now_or_never() {}
    }
}

/// What a reconciliation needs.
struct Operation<'a> {
    client: &'a Client,
    settings: &'a Settings,
    port: &'a OwnPort,
    performer: Performer,
    /// While documents are adopted.
    adopter: Option<Adopter>,
    /// Whether no object is stored in a former version any more.
    is_migrated: bool,
}

impl Operation<'_> {
    /// One reconciliation. Returns the delay until the next, if no event happens before.
    async fn step(&mut self) -> Result<Duration> {
        let Self { client, settings, port, performer, adopter, is_migrated } = self;
        if !*is_migrated {
            // Nothing else waits for it: what is stored can be read in any version.
            match Box::pin(stored_versions::migrate(client)).await {
                Ok(()) => *is_migrated = true,
                Err(error) => tracing::warn!("{error:#}"),
            }
        }
        let mut seen = Box::pin(observe::observe(client)).await.context("reading the cluster")?;
        port.follow(&seen.tls);
        port.observed(&seen.rollout);
        let now = requests::now();
        let mut decision = decide(settings, &seen, now);
        port.decided(&decision);
        let performed = performer.perform(&decision).await;
        // What failed reaches the status, too: the next reconciliation starts from there.
        seen.hindrance = performed.as_ref().err().map(requests::why);
        match decision.adopt_br_ex {
            true => {
                let adopter = adopter.get_or_insert_with(|| Adopter::new((*client).clone()));
                seen.adoption = Some(Box::pin(adopter.reconcile()).await);
            }
            false => *adopter = None,
        }
        if seen.hindrance.is_some() || seen.adoption.is_some() {
            decision = decide(settings, &seen, now);
        }
        performer.report(&seen, &decision, now).await.context("reporting to the cluster")?;
        performed.context("deploying")?;
        if performer.waits_for_handlers(&decision) {
            return Ok(RETRY);
        }
        if !*is_migrated {
            return Ok(OTHERS_INTERVAL);
        }
        Ok(next_reconciliation(&seen, &decision))
    }
}

fn next_reconciliation(seen: &Seen, decision: &Decision) -> Duration {
    let is_under_way = matches!(
        decision.handover,
        Some(HandoverState::TakingOver { .. } | HandoverState::GivingBack { .. })
    );
    if is_under_way {
        HAND_OVER
    } else if seen.others.are_here()
        || !seen.rollout.handlers_not_ready().is_empty()
        || decision.make_default
        || seen.adoption.as_ref().is_some_and(|it| it.waiting > 0 || it.trouble.is_some())
    {
        OTHERS_INTERVAL
    } else {
        RESYNC_INTERVAL
    }
}
