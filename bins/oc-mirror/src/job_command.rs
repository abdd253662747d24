//! `oc-mirror job`: mirrors with pods of a cluster. Plans here, stores the plan in the target
//! registry, and writes or creates the Jobs that execute it.

mod arguments;
mod follow;
mod inspect;
mod segments;
mod shard_watch;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use archive_store::ArchiveLocation;
use cluster_connection::{Connection, KubeconfigPaths, ObjectError};
use mirror::{Claimant, DryRun, Ending, RunStore, StoredPlan, Workflow};
use mirror_job::{Manifest, Run, RunName, manifests};
use mirror_plan::Target;
use oci::{Digest, ImageRef};
use serde_json::Value;
use workspace::Workspace;

use crate::USAGE;
use crate::carried_archives::CarriedArchives;
use crate::console::Console;
use crate::lookup_arguments::wait;
use crate::mirror_command::{self, View};
use crate::object_store::Transfer;
use crate::output_file::{self, Existing};
use crate::problem::chain;
use crate::progress::Display;
use crate::request::ProcessEnvironment;
use crate::route;
use crate::shards::process::program;

use shard_watch::WatchSettings;

pub(crate) use arguments::{JobArguments, JobCommand};

/// Runs a job command to its exit code.
pub(crate) fn job(
    arguments: &JobArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    console: &Console,
) -> ExitCode {
    let done = match &arguments.command {
        None => start(arguments, line, process, console),
        Some(JobCommand::Status(run)) => inspect::status(run, process).map(|()| 0),
        Some(JobCommand::Logs(logs)) => inspect::logs(logs, process).map(|()| 0),
        Some(JobCommand::Cancel(run)) => inspect::cancel(run, process).map(|()| 0),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(USAGE)
        }
    }
}

/// Plans a run, and writes or creates its Jobs.
fn start(
    arguments: &JobArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    console: &Console,
) -> anyhow::Result<u8> {
    let problems = arguments.problems();
    if !problems.is_empty() {
        problems.iter().for_each(|problem| tracing::error!("{problem}"));
        return Ok(USAGE);
    }
    let Some(shards) = arguments.mirror.shards.shards else {
        bail!("--shards N is required");
    };
    if process.has_store_endpoint && arguments.lacks_endpoint() {
        tracing::warn!(
            "AWS_ENDPOINT_URL applies to this command and not to its pods: use --s3-endpoint, or add it to the Secret of --store-secret"
        );
    }
    if arguments.submit {
        // A kubeconfig that cannot be used is reported before time is spent on planning.
        wait(async { connect(arguments, process).await })?;
    }
    if let Some(Transfer::Fetch(place)) = fetched(arguments) {
        let workspace = arguments.mirror.workspace.as_deref().unwrap_or_default();
        let directory = route::directory("--workspace", workspace)
            .map_err(|problem| anyhow::anyhow!("{problem}"))?;
        let archives = CarriedArchives::Store(place);
        let store = &arguments.mirror.store;
        wait(async { Ok(archives.provide_descriptions(store, &directory).await?) })?;
    }
    let Ok((mut settings, pace)) = mirror_command::settings(&arguments.mirror, line, process)
        .map_err(|refusal| refusal.tell(console))
    else {
        return Ok(USAGE);
    };
    let (Workflow::MirrorToMirror { dir, target } | Workflow::DiskToMirror { dir, target }) =
        settings.workflow.clone()
    else {
        let place = match fetched(arguments) {
            Some(Transfer::Store(place)) => place,
            _ => ArchiveLocation::Directory(
                std::path::absolute(settings.workflow.directory())
                    .context("finding the directory of the archives")?,
            ),
        };
        let image = arguments.image.clone().context("--image IMAGE is required")?;
        let pods = arguments.pods(image, shards, line)?;
        return segments::start(arguments, (settings, &pace), (place, pods), process, console);
    };
    let image = match &arguments.image {
        Some(image) => image.clone(),
        None => wait(async { image_at(&target, &settings.destination).await })?,
    };
    settings.shards = None;
    settings.dry_run = DryRun::Plan;
    let view = View {
        display: Display::choose(arguments.mirror.quiet, io::stderr().is_terminal()),
        console: console.clone(),
        metrics: None,
        claim: None,
    };
    let destination = settings.destination.clone();
    let report = match mirror_command::execute(settings, &pace, view) {
        Ok(report) => report,
        Err(_) => return Ok(crate::interrupt::EXIT_CODE),
    };
    mirror_command::tell_failures(&report);
    if report.ending != Ending::Planned {
        return Ok(report.exit_code().max(USAGE));
    }
    let path = Workspace::open(&dir).working_dir().join("dry-run/plan.json");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let plan = StoredPlan::read(&path)?;
    let name = RunName::of(&Digest::of(text.as_bytes()));
    let stored = wait(async {
        let store = RunStore::of_target(&target, &destination)?;
        let run = (&plan, text.as_str());
        let stored = store.store_run(run, shards, program(), (name.as_str(), &dir)).await?;
        if !arguments.submit {
            // Whether the same run is under way is known where it is created.
            store.withdraw_results((name.as_str(), shards.get())).await?;
        }
        Ok(stored)
    })?;
    tracing::info!("the plan is stored as {stored}");
    let plan = format!("docker://{stored}");
    let run = Run { name, plan, target: target.to_string(), shards, has_publish_job: true };
    let pods = arguments.pods(image, shards, line)?;
    let objects = manifests(&run, &pods);
    if let Some(out) = &arguments.out {
        write(out, &objects)?;
        tracing::info!(
            "manifests written to {}; create them with `oc apply -f {}`",
            out.display(),
            out.display()
        );
    }
    if arguments.submit {
        let namespace = wait(async {
            let cluster = connect(arguments, process).await?;
            let given = arguments.namespace.clone();
            let namespace = given.unwrap_or_else(|| cluster.namespace().to_owned());
            let store = RunStore::of_target(&target, &destination)?;
            submit((&cluster, &namespace), &store, &run, &objects).await?;
            Ok(namespace)
        })?;
        tracing::info!("run {} started in the namespace {namespace}", run.name);
        if arguments.follow {
            return wait(async {
                // Connections belong to the runtime that made them.
                let cluster = connect(arguments, process).await?;
                let store = RunStore::of_target(&target, &destination)?;
                let output = (dir.as_path(), arguments.mirror.output);
                let watch = WatchSettings {
                    start_timeout: arguments.start_timeout,
                    metrics: arguments.mirror.metrics_file.clone(),
                };
                follow::follow(&cluster, &namespace, &run, &store, output, watch).await
            });
        }
        tracing::info!("see its progress with `oc-mirror job status {} -n {namespace}`", run.name);
    }
    command_line::write_result(format!("{}\n", run.name).as_bytes())?;
    Ok(0)
}

/// The image of this version at the destination, where every node can pull it.
async fn image_at(target: &Target, settings: &registry::Settings) -> anyhow::Result<String> {
    let (target, version) = (target.to_string(), build_info::NUMBER);
    let text = format!("{target}/oc-mirror:{version}");
    let image: ImageRef = text.parse().with_context(|| format!("using the image {text}"))?;
    let client = registry::Client::open(settings.clone())?;
    let found = client.manifest(&image).await;
    match found.with_context(|| format!("looking for the image of oc-mirror, {text}"))? {
        Some(_) => Ok(text),
        None => bail!(
            "the container image that pods run, {text}, does not exist: push it with \
             `skopeo copy --all oci-archive:oc-mirror-{version}-oci.tar docker://{text}`, \
             or name another one with --image"
        ),
    }
}

/// What is done with an object store.
fn fetched(arguments: &JobArguments) -> Option<Transfer> {
    // Wrong flags are reported with all others.
    arguments.mirror.places().ok().and_then(|places| places.transfer)
}

async fn connect(
    arguments: &JobArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<Connection> {
    let paths = KubeconfigPaths {
        named: arguments.cluster.kubeconfig.as_deref(),
        default: &process.kubeconfigs,
    };
    Ok(Connection::connect(paths, arguments.cluster.context.as_deref()).await?)
}

fn write(out: &Path, objects: &[Manifest]) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    for Manifest { file, object } in objects {
        let text = serde_saphyr::to_string(object).context("writing a manifest as YAML")?;
        output_file::write(&out.join(file), text.as_bytes(), Existing::Replace)?;
    }
    Ok(())
}

/// The collection that an object belongs to.
pub(super) fn collection(namespace: &str, object: &Value) -> String {
    match object["kind"].as_str() {
        Some("Job") => jobs(namespace),
        _ => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
    }
}

pub(super) fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// Creates the objects of a run, unless another run mirrors to the same target.
async fn submit(
    (cluster, namespace): (&Connection, &str),
    store: &RunStore,
    run: &Run,
    objects: &[Manifest],
) -> anyhow::Result<()> {
    let known = follow::known_runs(cluster, namespace, run).await?;
    if let Some(other) = known.other {
        bail!(
            "the run {other} mirrors to {} already: wait for its end, or end it with `oc-mirror job cancel {other} -n {namespace}`",
            run.target
        );
    }
    if known.has_this {
        bail!(
            "the same plan runs or ran in the namespace {namespace}; see it with `oc-mirror job status {0} -n {namespace}`, remove it with `oc-mirror job cancel {0} -n {namespace}`",
            run.name
        );
    }
    // Runs of this namespace were found above, so that a claim of one that was cancelled does not
    // block. Others are known by their claims only.
    let owner = Some(format!("namespace {namespace} of {}", cluster.address()));
    let claimant = Claimant { run: run.name.to_string(), owner };
    store.check_claim(&claimant).await?;
    store.withdraw_results((run.name.as_str(), run.shards.get())).await?;
    for Manifest { object, .. } in objects {
        match cluster.create(&collection(namespace, object), object).await {
            Ok(_) => {}
            // The account of an earlier attempt is the same.
            Err(ObjectError::Exists { .. }) if object["kind"] == "ServiceAccount" => {}
            Err(error @ ObjectError::Exists { .. }) => bail!(
                "{error}: the same plan runs or ran in the namespace {namespace}; see it with `oc-mirror job status {0} -n {namespace}`, remove it with `oc-mirror job cancel {0} -n {namespace}`",
                run.name
            ),
            Err(error @ ObjectError::Forbidden { .. }) => bail!(
                "{error}; the account of the kubeconfig needs the right to create ServiceAccounts and Jobs in the namespace {namespace}: nothing was started"
            ),
            Err(error) => return Err(error.into()),
        }
    }
    // The pod that publishes claims the target too, and ends if another run was faster.
    if let Err(error) = store.claim(&claimant).await {
        tracing::warn!("claiming the target: {}", chain(&error));
    }
    Ok(())
}
