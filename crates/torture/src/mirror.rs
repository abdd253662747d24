//! Kills oc-mirror in all three modes. After every few kills one run completes; the target must
//! then have exactly the content of an undisturbed run, and the source must not have sent much
//! more than every byte once.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use lab::corpus::Corpus;
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use tempfile::TempDir;

use crate::random::Random;

/// Kills before a run completes and workspace and target start empty again.
const KILLS_PER_ROUND: usize = 6;
/// A twentieth of the benchmark's corpus: 62 tags, 226 blobs, 100 MB.
const SHRINK: u64 = 20;
/// Bytes per second of each connection to the source.
const RATE: u64 = 3_000_000;
/// What the source may send, per unique byte, while runs are killed.
const MOST_FETCHED: f64 = 1.2;
const NAMESPACE: &str = "mirror";
/// A run takes seconds; one that takes this long hangs.
const HANGS: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workflow {
    MirrorToDisk,
    DiskToMirror,
    MirrorToMirror,
}

impl fmt::Display for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MirrorToDisk => "mirror to disk",
            Self::DiskToMirror => "disk to mirror",
            Self::MirrorToMirror => "mirror to mirror",
        })
    }
}

/// Everything that runs use.
struct Site {
    program: PathBuf,
    folder: TempDir,
    source: LabRegistry,
    target: LabRegistry,
    unique_bytes: u64,
}

/// The results of undisturbed runs.
struct Undisturbed {
    /// The content of the target.
    content: BTreeSet<String>,
    /// How long a run takes in each mode.
    durations: [(Workflow, Duration); 3],
    /// The archive that was transferred.
    archive: TempDir,
}

/// What happened in one mode.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    kills: usize,
    /// Workspaces that were wiped between two kills, beside those between rounds.
    wiped: usize,
    /// The largest ratio of bytes that the source sent to unique bytes, over all rounds.
    worst_fetched: f64,
}

/// `torture mirror`.
pub(crate) fn run(program: &Path, kills: usize, seed: Option<u64>) -> Result<()> {
    let seed = seed.unwrap_or_else(Random::seed);
    println!("{kills} kills; repeat with --seed {seed}");
    let mut random = Random::new(seed);
    let site = Site::new(program)?;
    let undisturbed = site.undisturbed()?;
    println!("an undisturbed run leaves {} tags, manifests and blobs", undisturbed.content.len());
    for (index, (mode, duration)) in undisturbed.durations.into_iter().enumerate() {
        // The first modes get the remainder of the division by three.
        let share = (kills + 2 - index) / 3;
        let tally = site
            .torture(mode, share, duration, &undisturbed, &mut random)
            .with_context(|| format!("{mode} (seed {seed})"))?;
        println!(
            "{mode}: {} kills in {} rounds, the workspace wiped {} times between kills, nothing \
             lost; the source sent at most {:.2} × the unique bytes to a workspace",
            tally.kills, tally.rounds, tally.wiped, tally.worst_fetched
        );
    }
    Ok(())
}

impl Site {
    fn new(program: &Path) -> Result<Self> {
        let source = LabRegistry::start(Settings::default())?;
        let corpus = Corpus::shaped(SHRINK)?;
        corpus.fill(&source)?;
        // The rate of a link, not of loopback: a fast server fills the buffers of every connection
        // with megabytes that a killed client never reads.
        source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::SlowBytesPerSecond(RATE)));
        let folder = tempfile::tempdir().context("creating a folder")?;
        fs::write(folder.path().join("isc.yaml"), corpus.image_set(&source.host()?))
            .context("writing the configuration")?;
        Ok(Self {
            program: std::path::absolute(program).context("finding oc-mirror")?,
            folder,
            source,
            target: LabRegistry::start(Settings::default())?,
            unique_bytes: corpus.unique_bytes(),
        })
    }

    fn undisturbed(&self) -> Result<Undisturbed> {
        let archive = tempfile::tempdir().context("creating a folder")?;
        let workspace = self.empty_workspace()?;
        let to_disk = self.complete(Workflow::MirrorToDisk, &workspace)?;
        copy_archives(&workspace, archive.path())?;
        let from_disk = self.complete(Workflow::DiskToMirror, archive.path())?;
        let content = self.target.content();
        self.target.wipe();
        let workspace = self.empty_workspace()?;
        let direct = self.complete(Workflow::MirrorToMirror, &workspace)?;
        ensure!(
            self.target.content() == content,
            "the target differs between mirror to mirror and the path over a disk"
        );
        let durations = [
            (Workflow::MirrorToDisk, to_disk),
            (Workflow::DiskToMirror, from_disk),
            (Workflow::MirrorToMirror, direct),
        ];
        Ok(Undisturbed { content, durations, archive })
    }

    /// Kills runs in one mode until `kills` were killed.
    fn torture(
        &self,
        mode: Workflow,
        kills: usize,
        duration: Duration,
        undisturbed: &Undisturbed,
        random: &mut Random,
    ) -> Result<Tally> {
        let mut tally = Tally::default();
        while tally.kills < kills {
            self.target.wipe();
            let workspace = self.fresh_workspace(mode, undisturbed)?;
            tally.rounds += 1;
            // In every second round the workspace is lost halfway, and the target is not.
            let is_lost = tally.rounds % 2 == 0;
            for kill in 0..KILLS_PER_ROUND.min(kills - tally.kills) {
                if is_lost && kill == KILLS_PER_ROUND / 2 {
                    self.fresh_workspace(mode, undisturbed)?;
                    tally.wiped += 1;
                }
                let mut child = self.start(mode, &workspace)?;
                std::thread::sleep(random.below(duration));
                let ended = child.try_wait().context("watching oc-mirror")?.is_some();
                child.kill().context("killing oc-mirror")?;
                child.wait().context("waiting for oc-mirror")?;
                if ended {
                    break;
                }
                tally.kills += 1;
            }
            self.complete(mode, &workspace)?;
            let fetched = self.source.requests().bytes_sent() as f64 / self.unique_bytes as f64;
            tally.worst_fetched = tally.worst_fetched.max(fetched);
            self.check(mode, &workspace, &undisturbed.content, fetched)?;
        }
        Ok(tally)
    }

    fn check(
        &self,
        mode: Workflow,
        workspace: &Path,
        expected: &BTreeSet<String>,
        fetched: f64,
    ) -> Result<()> {
        ensure!(
            fetched <= MOST_FETCHED,
            "the source sent {fetched:.2} × the unique bytes, expected at most {MOST_FETCHED}"
        );
        if mode == Workflow::MirrorToDisk {
            // The content of the disk is checked by mirroring it to the target.
            let other_side = tempfile::tempdir().context("creating a folder")?;
            copy_archives(workspace, other_side.path())?;
            self.complete(Workflow::DiskToMirror, other_side.path())?;
        }
        let found = self.target.content();
        let missing: Vec<&String> = expected.difference(&found).take(5).collect();
        let unexpected: Vec<&String> = found.difference(expected).take(5).collect();
        ensure!(
            missing.is_empty() && unexpected.is_empty(),
            "the target differs from that of an undisturbed run: missing {missing:?}, unexpected \
             {unexpected:?}"
        );
        Ok(())
    }

    /// Runs oc-mirror to its end. Returns how long it took.
    fn complete(&self, mode: Workflow, workspace: &Path) -> Result<Duration> {
        let mut child = self.start(mode, workspace)?;
        let start = Instant::now();
        loop {
            match child.try_wait().context("watching oc-mirror")? {
                Some(status) if status.success() => return Ok(start.elapsed()),
                Some(status) => {
                    let log = fs::read_to_string(self.log()).unwrap_or_default();
                    bail!("a run that was not killed ended with {status}:\n{log}");
                }
                None if start.elapsed() > HANGS => {
                    child.kill().context("killing oc-mirror")?;
                    child.wait().context("waiting for oc-mirror")?;
                    bail!("a run did not end within {HANGS:?}");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn start(&self, mode: Workflow, workspace: &Path) -> Result<Child> {
        let (disk, target) = (
            format!("file://{}", workspace.display()),
            format!("docker://{}/{NAMESPACE}", self.target.address()),
        );
        let mut command = Command::new(&self.program);
        command.args(["-c", "isc.yaml", "--src-tls-verify=false", "--dest-tls-verify=false"]);
        match mode {
            Workflow::MirrorToDisk => command.arg(disk),
            Workflow::DiskToMirror => command.args(["--from", &disk, &target]),
            Workflow::MirrorToMirror => command.args(["--workspace", &disk, &target]),
        };
        let log = fs::File::create(self.log()).context("creating a log")?;
        let errors = log.try_clone().context("creating a log")?;
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("CONTAINERS_REGISTRIES_CONF")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context("starting oc-mirror")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// An empty workspace, with the archive if one is pushed. Requests so far are not counted.
    fn fresh_workspace(&self, mode: Workflow, undisturbed: &Undisturbed) -> Result<PathBuf> {
        let workspace = self.empty_workspace()?;
        if mode == Workflow::DiskToMirror {
            copy_archives(undisturbed.archive.path(), &workspace)?;
        }
        self.source.forget_requests();
        Ok(workspace)
    }

    fn empty_workspace(&self) -> Result<PathBuf> {
        let workspace = self.folder.path().join("data");
        if workspace.exists() {
            fs::remove_dir_all(&workspace).context("emptying the workspace")?;
        }
        fs::create_dir(&workspace).context("creating a workspace")?;
        Ok(workspace)
    }
}

/// Copies the archives of one folder to another.
fn copy_archives(from: &Path, to: &Path) -> Result<()> {
    let mut copied = 0;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry.with_context(|| format!("reading {}", from.display()))?.path();
        let Some(name) = path.file_name() else { continue };
        if path.extension().is_some_and(|extension| extension == "tar") {
            fs::copy(&path, to.join(name))
                .with_context(|| format!("copying {}", path.display()))?;
            copied += 1;
        }
    }
    ensure!(copied > 0, "there is no archive in {}", from.display());
    Ok(())
}
