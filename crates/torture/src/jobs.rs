//! Kills the pods of a run in a cluster. A real API server and a real Job controller; pods run from
//! the unpacked image of a release, each in its own network namespace.
//!
//! Each round mirrors to an empty registry with 16 shards while pods are killed and evicted, a node
//! is lost, registries respond with 429, scratch volumes are full and one shard is slow. The
//! registry and the report must then be those of a single process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use lab::corpus::Corpus;
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use lab_cluster::kube::{
    ApiServer, FieldValidation, ImageRoot, Persistence, PodOptions, PodRunner,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::random::Random;

const SHARDS: u64 = 16;
const NODES: NonZeroUsize = NonZeroUsize::new(4).unwrap();
/// The most kills of one shard in a round: it fails after more than 6 failures, and 429 responses may
/// cause some too.
const KILLS_PER_SHARD: usize = 4;
const KILLS_PER_ROUND: usize = 32;
/// Evictions of a round; they do not count as failures.
const EVICTIONS: usize = 4;
/// Pods of a round whose scratch volume is too small for some blobs.
const SMALL_PODS: usize = 2;
const SMALL_KIB: u64 = 64;
/// A fortieth of the benchmark's corpus: 62 tags, 226 blobs, 50 MB.
const SHRINK: u64 = 40;
/// The same tags and blobs with a tenth of the bytes.
const SHORT_SHRINK: u64 = 400;
/// The delay of each request for a blob, until all kills are done: with 14 blobs, a pod would work for
/// half a minute.
const DELAY: Duration = Duration::from_secs(2);
/// The longest time between two kills.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes per second of the largest blob: its shard is slow.
const SLOW: u64 = 300_000;
/// A round takes a minute or two; one that takes this long hangs.
const HANGS: Duration = Duration::from_secs(600);
/// Pods must be as restricted as the strictest profile of Kubernetes demands.
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: mirror
  labels: {pod-security.kubernetes.io/enforce: restricted}
";

/// What a campaign does.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a Path,
    /// The archive of a release with the image that pods run; without one, pods run the program.
    pub(crate) image: Option<&'a Path>,
    pub(crate) kills: usize,
    pub(crate) seed: Option<u64>,
    /// Less content, and no lost node: the cluster removes its pods after more than a minute. A test
    /// of `oc-mirror` covers that case.
    pub(crate) is_short: bool,
}

/// What happened to pods.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    kills: usize,
    evictions: usize,
    nodes: usize,
    full: usize,
}

/// `torture jobs`.
pub(crate) fn run(plan: &Plan<'_>) -> Result<()> {
    let seed = plan.seed.unwrap_or_else(Random::seed);
    println!("{} kills; repeat with --seed {seed}", plan.kills);
    let mut random = Random::new(seed);
    let runtime = tokio::runtime::Runtime::new().context("starting threads")?;
    let site = Site::new(plan)?;
    let expected = site.expected()?;
    println!(
        "a single process and --shards 4 leave the same {} tags, manifests and blobs",
        expected.content.len()
    );
    let mut tally = Tally::default();
    while tally.kills < plan.kills {
        let kills = KILLS_PER_ROUND.min(plan.kills - tally.kills);
        runtime
            .block_on(site.round(kills, &expected, &mut tally, &mut random))
            .with_context(|| format!("round {} (seed {seed})", tally.rounds + 1))?;
        tally.rounds += 1;
    }
    println!(
        "{SHARDS} shards, {} rounds: {} kills, {} evictions, {} lost nodes, {} full volumes, a slow \
         shard and 429 in each round; registries and reports are those of a single process",
        tally.rounds, tally.kills, tally.evictions, tally.nodes, tally.full
    );
    Ok(())
}

struct Site {
    program: PathBuf,
    folder: TempDir,
    source: LabRegistry,
    target: LabRegistry,
    largest_blob: String,
    root: Option<ImageRoot>,
    loses_node: bool,
}

/// What a run leaves that nothing disturbs.
struct Expected {
    content: BTreeSet<String>,
    report: Value,
}

impl Site {
    fn new(plan: &Plan<'_>) -> Result<Self> {
        let source = LabRegistry::start(Settings::default())?;
        let target = LabRegistry::start(Settings::default())?;
        let corpus = Corpus::shaped(if plan.is_short { SHORT_SHRINK } else { SHRINK })?;
        corpus.fill(&source)?;
        let folder = tempfile::tempdir().context("creating a folder")?;
        fs::write(folder.path().join("isc.yaml"), corpus.image_set(&source.host()?))
            .context("writing the configuration")?;
        let largest = corpus.blobs().into_iter().max_by_key(|(_, size)| *size);
        let ports = vec![source.address().port(), target.address().port()];
        let root = match plan.image {
            Some(image) => Some(unpack(image, &folder.path().join("image"), ports)?),
            None => None,
        };
        Ok(Self {
            program: std::path::absolute(plan.program).context("finding oc-mirror")?,
            folder,
            source,
            target,
            largest_blob: largest.context("the corpus has no blobs")?.0.to_string(),
            root,
            loses_node: !plan.is_short,
        })
    }

    /// One process and four must agree before pods are compared with them.
    fn expected(&self) -> Result<Expected> {
        let mut found = Vec::new();
        for (workspace, more) in [("single", &[][..]), ("shards", &["--shards", "4"][..])] {
            self.target.wipe();
            let mut command = self.command(&["-c", "isc.yaml", "--workspace"], workspace);
            let ended = command.args(more).arg(self.destination()).output();
            let ended = ended.context("starting oc-mirror")?;
            let errors = String::from_utf8_lossy(&ended.stderr);
            ensure!(ended.status.success(), "{workspace} ended with {}: {errors}", ended.status);
            let report = self.lasting(&ended.stdout, workspace)?;
            found.push(Expected { content: self.content(), report });
        }
        let (single, shards) = (found.remove(0), found.remove(0));
        compare("--shards 4", &single, &shards)?;
        Ok(single)
    }

    async fn round(
        &self,
        kills: usize,
        expected: &Expected,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<()> {
        self.target.wipe();
        self.disturb();
        let mut server = ApiServer::start().await?;
        server.start_controllers_and_pod_collection().await?;
        let strict = FieldValidation::Strict;
        server.client().apply(NAMESPACE, Persistence::Stored, strict).await?;
        let options = PodOptions {
            namespace: "mirror".to_owned(),
            program: self.program.clone(),
            root: self.root.clone(),
            environment: Vec::new(),
            mounts: Vec::new(),
            nodes: NODES,
        };
        let pods = PodRunner::start(&server, options)?;
        pods.shrink_scratch("-blobs-", SMALL_KIB, SMALL_PODS);
        let mut run = self.submit(&server)?;
        let ended = self.torment(&mut run, (&server, &pods), kills, tally, random).await;
        self.source.clear_faults();
        self.target.clear_faults();
        if ended.is_err() {
            let _ = run.kill();
        }
        ended.with_context(|| format!("pods: {:?}", pods.problem()))?;
        let (output, errors) = self.wait(run)?;
        ensure!(pods.problem().is_none(), "running pods: {:?}", pods.problem());
        let report = self.lasting(&output, "job").with_context(|| errors.clone())?;
        compare("pods", expected, &Expected { content: self.content(), report })?;
        tally.full += SMALL_PODS;
        Ok(())
    }

    /// What registries do in each round.
    fn disturb(&self) {
        self.source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::Delay(DELAY)));
        let slow = Effect::SlowBytesPerSecond(SLOW);
        self.source.fault(Fault::on(Method::GET, &self.largest_blob).does(slow));
        for (registry, method, part) in
            [(&self.source, Method::GET, "/blobs/"), (&self.target, Method::POST, "/blobs/uploads")]
        {
            let fault = Fault::on(method, part).after(20).times(20);
            registry.fault(fault.does(Effect::too_many_requests(0)));
        }
    }

    /// Evicts and kills pods while the run is under way, and takes one node away.
    async fn torment(
        &self,
        run: &mut Child,
        (server, pods): (&ApiServer, &PodRunner),
        kills: usize,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<()> {
        let begun = Instant::now();
        let (mut killed, mut evicted) = (BTreeMap::<u64, usize>::new(), 0);
        let mut lost_nodes = 0;
        let nodes = usize::from(self.loses_node);
        loop {
            let total: usize = killed.values().sum();
            if total >= kills && evicted >= EVICTIONS && lost_nodes >= nodes {
                tally.kills += total;
                tally.evictions += evicted;
                tally.nodes += lost_nodes;
                return Ok(());
            }
            if let Some(status) = run.try_wait().context("watching oc-mirror")? {
                bail!(
                    "the run ended with {status} after {total} kills, before all were done: {}",
                    fs::read_to_string(self.log("err")).unwrap_or_default()
                );
            }
            ensure!(begun.elapsed() < HANGS, "the kills were not done within {HANGS:?}");
            tokio::time::sleep(random.below(PAUSE)).await;
            let first = random.pick(SHARDS);
            let mut shards = (0..SHARDS).map(move |step| (first + step) % SHARDS);
            let pod = |shard: u64| format!("-blobs-{shard}-");
            if evicted < EVICTIONS {
                evicted += usize::from(shards.any(|shard| pods.evict(&pod(shard), 0)));
            } else if total < kills {
                let count = |shard: &u64| killed.get(shard).copied().unwrap_or_default();
                let shard = shards
                    .find(|shard| count(shard) < KILLS_PER_SHARD && pods.kill(&pod(*shard), 0));
                if let Some(shard) = shard {
                    *killed.entry(shard).or_default() += 1;
                }
            }
            if lost_nodes < nodes
                && total >= kills / 2
                && let Some(node) = pods.lose_node("-blobs-")
            {
                // An administrator removes a node that does not come back.
                server.client().delete(&format!("/api/v1/nodes/{node}")).await?;
                lost_nodes += 1;
            }
        }
    }

    fn submit(&self, server: &ApiServer) -> Result<Child> {
        let kubeconfig = server.kubeconfig().display().to_string();
        let shards = SHARDS.to_string();
        let words = ["job", "-c", "isc.yaml", "--image", "registry.example/oc-mirror:1", "-n"];
        let more = ["mirror", "--kubeconfig", &kubeconfig, "--shards", &shards, "--submit"];
        let pace = ["--follow", "--parallel-images=1", "--parallel-layers=1", "--workspace"];
        let workspace = self.folder.path().join("job");
        if workspace.exists() {
            fs::remove_dir_all(&workspace).context("emptying the workspace")?;
        }
        let mut command = self.command(&[&words[..], &more, &pace].concat(), "job");
        let create = |name| fs::File::create(self.log(name)).context("creating a log");
        command.arg(self.destination()).stdout(create("out")?).stderr(create("err")?);
        command.spawn().context("starting oc-mirror")
    }

    fn wait(&self, mut run: Child) -> Result<(Vec<u8>, String)> {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = run.try_wait().context("watching oc-mirror")? {
                break status;
            }
            if begun.elapsed() > HANGS {
                run.kill().context("killing oc-mirror")?;
                run.wait().context("waiting for oc-mirror")?;
                bail!(
                    "the run did not end within {HANGS:?}: {}",
                    fs::read_to_string(self.log("err"))?
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let errors = fs::read_to_string(self.log("err")).context("reading the log")?;
        ensure!(status.success(), "the run ended with {status}: {errors}");
        Ok((fs::read(self.log("out")).context("reading the report")?, errors))
    }

    fn command(&self, words: &[&str], workspace: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).arg(format!("file://{workspace}"));
        command.args(["--src-tls-verify=false", "--dest-tls-verify=false", "--output=json"]);
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("CONTAINERS_REGISTRIES_CONF")
            .stdin(Stdio::null());
        command
    }

    fn destination(&self) -> String {
        format!("docker://{}/ocp", self.target.address())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("job.{name}"))
    }

    /// What the target holds, without what only runs in a cluster leave.
    fn content(&self) -> BTreeSet<String> {
        let content = self.target.content().into_iter();
        content.filter(|line| !line.starts_with("ocp/oc-mirror-runs")).collect()
    }

    /// The report without times, numbers of requests, and names of files that have the time in them.
    fn lasting(&self, output: &[u8], workspace: &str) -> Result<Value> {
        let here = self.folder.path().join(workspace).display().to_string();
        let text = String::from_utf8_lossy(output).replace(&here, "WORKSPACE");
        let text = text.replace("/workspace", "WORKSPACE");
        let mut report: Value = serde_json::from_str(&text).context("reading the report")?;
        if let Some(report) = report.as_object_mut() {
            for key in ["files", "log", "run"] {
                report.remove(key);
            }
        }
        if let Some(totals) = report["totals"].as_object_mut() {
            for key in ["seconds", "sourceRequests", "destinationRequests", "retries"] {
                totals.remove(key);
            }
        }
        Ok(report)
    }
}

fn compare(what: &str, expected: &Expected, found: &Expected) -> Result<()> {
    let missing: Vec<&String> = expected.content.difference(&found.content).take(5).collect();
    let unexpected: Vec<&String> = found.content.difference(&expected.content).take(5).collect();
    ensure!(
        missing.is_empty() && unexpected.is_empty(),
        "{what}: the registry differs from that of a single process: missing {missing:?}, unexpected {unexpected:?}"
    );
    ensure!(
        expected.report == found.report,
        "{what}: the report differs from that of a single process: expected {}, found {}",
        expected.report,
        found.report
    );
    Ok(())
}

/// Unpacks the image of a release as container engines do.
fn unpack(archive: &Path, folder: &Path, ports: Vec<u16>) -> Result<ImageRoot> {
    fs::create_dir_all(folder).context("creating a folder for the image")?;
    let image = format!("oci-archive:{}", archive.display());
    let layout = folder.join("layout").display().to_string();
    // Some machines have no policy file.
    let skopeo = |arguments: &[&str]| {
        output(Command::new("skopeo").arg("--insecure-policy").args(arguments))
    };
    skopeo(&["copy", "--quiet", &image, &format!("oci:{layout}:run")])?;
    let config = skopeo(&["inspect", "--config", &image])?;
    let config: Value = serde_json::from_str(&config).context("reading the image")?;
    let bundle = folder.join("bundle");
    let mut umoci = Command::new("umoci");
    output(umoci.args(["unpack", "--image", &format!("{layout}:run")]).arg(&bundle))?;
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str);
    Ok(ImageRoot {
        path: bundle.join("rootfs"),
        entrypoint: text("/config/Entrypoint/0")
            .context("the image has no entry point")?
            .to_owned(),
        user: text("/config/User").context("the image has no user")?.to_owned(),
        ports,
    })
}

fn output(command: &mut Command) -> Result<String> {
    let ended = command.output().with_context(|| format!("starting {command:?}"))?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{command:?} ended with {}: {errors}", ended.status);
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
