//! A roll-out on many nodes: the real handlers and the real coordinator at a real API server. Only
//! the networks are played. What was written is counted from the server's own record.
//!
//! `cargo xtask bench operator` builds and runs it.

#![allow(missing_debug_implementations)]

mod cluster;
mod each;
mod identities;
mod memory;
mod played;
mod record;
mod traffic;
mod vlans;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use jiff::Timestamp;
use lab_cluster::kube::ApiServer;
use nmstate_operator::coordinator::{Coordinator, CoordinatorMetrics};
use nmstate_operator::handler::{Handler, HandlerMetrics};
use nmstate_operator::service_port::ServiceState;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use cluster::Cluster;
use played::Played;
use record::Record;
use traffic::Traffic;

/// Threads that handlers share. A node has a process of its own for each.
const THREADS: usize = 4;
/// Handlers that have started and not reported yet, at most. If thousands start at once, or faster than
/// a busy machine can serve them, the server has so many new connections that it responds to none of them
/// in time.
const MOST_STARTING: usize = 16;
/// The interval between two checks that a handler has reported.
const START_CHECK: Duration = Duration::from_millis(50);
/// How long nothing is done, to see whether anything is written.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Arguments {
    /// How many nodes
    #[arg(long, default_value_t = 500)]
    nodes: usize,
    /// How long each change of a network takes, in milliseconds
    #[arg(long, default_value_t = 2000)]
    change: u64,
    /// Measure what handlers receive with so many nodes that have a policy each, and compare
    #[arg(long, value_name = "NODES,NODES", value_delimiter = ',', requires = "program")]
    each: Vec<usize>,
    /// Measure the memory of a handler that applies so many VLANs
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', requires = "program")]
    vlans: Vec<usize>,
    /// The program whose memory is measured
    #[arg(long)]
    program: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    raise_limit()?;
    let runtime = Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    // Clients are made within a runtime.
    let _inside = runtime.enter();
    ensure!(matches!(arguments.each.len(), 0 | 2), "--each: expected two numbers of nodes");
    if let ([small, large], Some(program)) = (&arguments.each[..], &arguments.program) {
        let change = Duration::from_millis(arguments.change);
        let measure = |nodes: usize| -> Result<each::Measured> {
            let measured = each::measure(&runtime, nodes, change, program)?;
            measured.print();
            Ok(measured)
        };
        return each::compare(&measure(*small)?, &measure(*large)?);
    }
    if let ([_, ..], Some(program)) = (&arguments.vlans[..], &arguments.program) {
        return arguments.vlans.iter().try_for_each(|it| vlans::measure(&runtime, *it, program));
    }
    let server = runtime.block_on(ApiServer::start_audited()).context("starting a server")?;
    let cluster = runtime.block_on(Cluster::prepare(&server, arguments.nodes))?;
    println!("{} nodes, {} ms for each change", arguments.nodes, arguments.change);
    let stop = CancellationToken::new();
    let handlers: Vec<_> =
        cluster.names().iter().map(|name| (name.clone(), cluster.config())).collect();
    let handlers = start_handlers(&handlers, None, Duration::from_millis(arguments.change), &stop);
    let coordinator = {
        let (config, stop) = (cluster.config(), stop.clone());
        std::thread::spawn(move || -> Result<()> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = kube::Client::try_from(config)?;
                let metrics = CoordinatorMetrics::register(&ServiceState::default().metrics);
                Coordinator::new(client, "default", metrics).run(&stop).await
            })
        })
    };
    runtime.block_on(cluster.wait_for_reports())?;

    let began = Instant::now();
    let from = Timestamp::now();
    runtime.block_on(cluster.create_policy())?;
    runtime.block_on(cluster.wait_until_available())?;
    let took = began.elapsed();
    // The last reports about networks are on their way.
    std::thread::sleep(Duration::from_secs(10));
    let done = Timestamp::now();
    std::thread::sleep(IDLE);
    let end = Timestamp::now();

    let record = Record::read(&server.audit_log())?;
    let writes = record.of_nodes(from, done);
    ensure!(writes.len() == arguments.nodes, "only {} nodes wrote anything", writes.len());
    let most = writes.values().max().copied().unwrap_or_default();
    let all: usize = writes.values().sum();
    println!("writes per node: {:.2} on average, {most} at most", all as f64 / writes.len() as f64);
    let (statuses, shortest) = record.of_policies(from, done);
    println!(
        "writes of the policy's status: {statuses} in {:.1} s, at least {shortest:.2} s between two",
        took.as_secs_f64()
    );
    println!("events: {}", record.events(from, done));
    println!("writes in {} idle seconds: {}", IDLE.as_secs(), record.all(done, end));
    println!(
        "from policy to all nodes Available: {:.1} s; two waves of changes take {:.1} s, all changes one after the other {:.0} s",
        took.as_secs_f64(),
        2.0 * arguments.change as f64 / 1000.0,
        arguments.nodes as f64 * arguments.change as f64 / 1000.0,
    );
    stop.cancel();
    for thread in handlers.into_iter().chain([coordinator]) {
        thread.join().map_err(|_| anyhow::anyhow!("a thread ended badly"))??;
    }
    if let Some(program) = &arguments.program {
        println!("{}", memory::measure(&server, &cluster, &runtime, program)?);
    }
    Ok(())
}

/// Starts the handlers of these nodes; counts what each receives, if requested.
fn start_handlers(
    handlers: &[(String, kube::Config)],
    traffic: Option<&[Arc<Traffic>]>,
    change: Duration,
    stop: &CancellationToken,
) -> Vec<std::thread::JoinHandle<Result<()>>> {
    let share = handlers.len().div_ceil(THREADS);
    let counted = |index: usize| traffic.and_then(|traffic| traffic.get(index)).cloned();
    let all: Vec<_> = handlers
        .iter()
        .enumerate()
        .map(|(index, (name, config))| (name.clone(), config.clone(), counted(index)))
        .collect();
    let starting = Arc::new(Semaphore::new(MOST_STARTING));
    let start = |handlers: &[(String, kube::Config, Option<Arc<Traffic>>)]| {
        let (handlers, stop) = (handlers.to_vec(), stop.clone());
        let starting = Arc::clone(&starting);
        std::thread::spawn(move || -> Result<()> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let handlers = handlers.iter().map(|handler| {
                    let (name, config, counted) = handler;
                    let (stop, starting) = (stop.clone(), Arc::clone(&starting));
                    async move {
                        let place = starting.acquire_owned().await?;
                        let service = Arc::new(ServiceState::default());
                        let handler = Handler {
                            node: name.parse()?,
                            namespace: nmstate_deployment::names::NAMESPACE.to_owned(),
                            machine: Played::new(change)?,
                            metrics: HandlerMetrics::register(&service.metrics),
                            service: Arc::clone(&service),
                        };
                        let client = match counted {
                            Some(traffic) => traffic::client(config.clone(), traffic)?,
                            None => kube::Client::try_from(config.clone())?,
                        };
                        let started = async {
                            while !service.is_ready() && !stop.is_cancelled() {
                                tokio::time::sleep(START_CHECK).await;
                            }
                            drop(place);
                        };
                        tokio::join!(Box::pin(handler.run(client, &stop)), started).0
                    }
                });
                let ends = futures_util::future::join_all(handlers).await;
                ends.into_iter().collect()
            })
        })
    };
    all.chunks(share).map(start).collect()
}

/// Each handler has a connection for each of its watches; the server has all of them.
fn raise_limit() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, limit).context("allowing more open files")
}
