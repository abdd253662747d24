//! A roll-out on many nodes: the real handlers and the real coordinator at a real API server. Only
//! the networks are played. What was written is counted from the server's own record.
//!
//! `cargo xtask bench operator` builds and runs it.

#![allow(missing_debug_implementations)]

mod cluster;
mod memory;
mod played;
mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use jiff::Timestamp;
use lab::kube::ApiServer;
use nmstate_operator::coordinator::Coordinator;
use nmstate_operator::handler::Handler;
use nmstate_operator::service_port::Standing;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use cluster::Cluster;
use played::Played;
use record::Record;

/// Threads that handlers share. A node has a process of its own for each.
const THREADS: usize = 4;
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
    /// The program whose memory is measured, in a node with a real network
    #[arg(long)]
    program: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    raise_limit()?;
    let runtime = Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    // Clients are made within a runtime.
    let _inside = runtime.enter();
    let server = runtime.block_on(ApiServer::start_audited()).context("starting a server")?;
    let cluster = runtime.block_on(Cluster::prepare(&server, arguments.nodes))?;
    println!("{} nodes, {} ms for each change", arguments.nodes, arguments.change);
    let stop = CancellationToken::new();
    let handlers = start_handlers(&cluster, Duration::from_millis(arguments.change), &stop);
    let coordinator = {
        let (config, stop) = (cluster.config(), stop.clone());
        std::thread::spawn(move || -> Result<()> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = kube::Client::try_from(config)?;
                Coordinator::new(client, Arc::new(Standing::default())).run(&stop).await
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

fn start_handlers(
    cluster: &Cluster,
    change: Duration,
    stop: &CancellationToken,
) -> Vec<std::thread::JoinHandle<Result<()>>> {
    let names = cluster.names();
    let share = names.len().div_ceil(THREADS);
    let start = |names: &[String]| {
        let (names, stop, config) = (names.to_vec(), stop.clone(), cluster.config());
        std::thread::spawn(move || -> Result<()> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let handlers = names.iter().map(|name| {
                    let (config, stop) = (config.clone(), stop.clone());
                    async move {
                        let handler = Handler {
                            node: name.parse()?,
                            machine: Played::new(change)?,
                            standing: Arc::new(Standing::default()),
                        };
                        let client = kube::Client::try_from(config)?;
                        Box::pin(handler.run(client, &stop)).await
                    }
                });
                let ends = futures_util::future::join_all(handlers).await;
                ends.into_iter().collect()
            })
        })
    };
    names.chunks(share).map(start).collect()
}

/// Each handler has a connection for each of its watches; the server has all of them.
fn raise_limit() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, limit).context("allowing more open files")
}
