//! The programs that are measured, and the command of each for a task.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab::corpus::Corpus;
use oci::{ImageRef, RegistryHost};

use crate::launch::Invocation;
use crate::results::{Job, State};

/// A program with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    OcMirror,
    /// Writes the workspace, but no archive.
    OcMirrorNoArchive,
    /// Another oc-mirror, by its index in [`Programs::others`].
    Other(u8),
    /// One `skopeo copy` per image, this many in parallel; OCI layouts share a folder of blobs.
    SkopeoCopy(u8),
    /// One `skopeo sync`.
    SkopeoSync,
    /// One `regsync once` with this many images in parallel.
    Regsync(u8),
}

/// Paths of the programs. skopeo and xargs are on the PATH.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) oc_mirror: PathBuf,
    /// Other oc-mirrors to compare with: the newest oc-mirror v2, or an older build of ours.
    pub(crate) others: Vec<PathBuf>,
    pub(crate) regsync: PathBuf,
    /// Whether skopeo and regsync are left out.
    pub(crate) only_oc_mirror: bool,
    /// Whether one setting of each peer is enough, to see that the benchmark works.
    pub(crate) one_setting_each: bool,
}

/// One task, for any contender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) job: Job,
    pub(crate) corpus: &'a Corpus,
    pub(crate) source: &'a RegistryHost,
    /// The folder that content is written to or read from.
    pub(crate) disk: &'a Path,
    pub(crate) destination: Option<&'a RegistryHost>,
    /// For lists, configurations and caches. Kept between the runs of one case.
    pub(crate) scratch: &'a Path,
    /// The edition of the images on the disk, where that is the source.
    pub(crate) state: State,
}

/// The namespace that all contenders mirror into.
const NAMESPACE: &str = "bench";

/// Where `skopeo copy` keeps layouts on the disk: all of the first edition, and the changed one.
pub(crate) const FIRST: &str = "first";
pub(crate) const CHANGED: &str = "changed";

impl Contender {
    /// The contenders for a job, with this many other oc-mirrors.
    pub(crate) fn for_job(job: Job, others: usize) -> Vec<Self> {
        let others = (0..others).filter_map(|number| u8::try_from(number).ok()).map(Self::Other);
        others.chain(Self::always_for(job).iter().copied()).collect()
    }

    fn always_for(job: Job) -> &'static [Self] {
        use Contender::{OcMirror, OcMirrorNoArchive, Regsync, SkopeoCopy, SkopeoSync};
        match job {
            Job::ToDisk => &[
                OcMirrorNoArchive,
                OcMirror,
                SkopeoCopy(1),
                SkopeoCopy(2),
                SkopeoCopy(4),
                SkopeoCopy(8),
                SkopeoSync,
                Regsync(4),
            ],
            Job::FromDisk => {
                &[OcMirror, SkopeoCopy(1), SkopeoCopy(2), SkopeoCopy(4), SkopeoCopy(8), SkopeoSync]
            }
            Job::Across => &[
                OcMirror,
                SkopeoCopy(1),
                SkopeoCopy(2),
                SkopeoCopy(4),
                SkopeoCopy(8),
                SkopeoSync,
                Regsync(1),
                Regsync(4),
            ],
        }
    }

    /// Whether it repeats a program with another setting.
    pub(crate) fn is_further_setting(self) -> bool {
        matches!(self, Self::SkopeoCopy(1 | 2 | 8) | Self::Regsync(1))
    }

    /// The states that a contender is measured in. `skopeo sync` does not write into a folder that
    /// contains an image.
    pub(crate) fn states(self, job: Job) -> &'static [State] {
        match (self, job) {
            (Self::SkopeoSync, Job::ToDisk) => &[State::Cold],
            (Self::SkopeoSync, Job::FromDisk) => &[State::Cold, State::Warm],
            _ => &State::ALL,
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::OcMirror | Self::OcMirrorNoArchive)
    }

    /// Whether the program has the interface of oc-mirror.
    pub(crate) fn is_oc_mirror(self) -> bool {
        self.is_ours() || matches!(self, Self::Other(_))
    }

    pub(crate) fn is_skopeo(self) -> bool {
        matches!(self, Self::SkopeoCopy(_) | Self::SkopeoSync)
    }

    /// The command for a task. Writes the files that the command reads.
    pub(crate) fn invocation(self, programs: &Programs, task: &Task<'_>) -> Result<Invocation> {
        match self {
            Self::OcMirror => oc_mirror(programs, task, &[]),
            Self::OcMirrorNoArchive => oc_mirror(programs, task, &["--no-archive"]),
            Self::Other(number) => {
                let program = programs.others.get(usize::from(number));
                let oc_mirror = program.context("there is no such program")?.clone();
                let invocation =
                    self::oc_mirror(&Programs { oc_mirror, ..programs.clone() }, task, &["--v2"])?;
                // It must not use the cache of the user.
                let home = task.scratch.join("home");
                fs::create_dir_all(&home)
                    .with_context(|| format!("creating {}", home.display()))?;
                let environment = BTreeMap::from([("HOME".to_owned(), home)]);
                Ok(Invocation { environment, ..invocation })
            }
            Self::SkopeoCopy(parallel) => skopeo_copy(task, parallel),
            Self::SkopeoSync => skopeo_sync(task),
            Self::Regsync(parallel) => regsync(programs, task, parallel),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OcMirror => write!(f, "oc-mirror"),
            Self::OcMirrorNoArchive => write!(f, "oc-mirror --no-archive"),
            Self::Other(number) => write!(f, "other oc-mirror {}", number + 1),
            Self::SkopeoCopy(parallel) => write!(f, "skopeo copy, {parallel} at once"),
            Self::SkopeoSync => write!(f, "skopeo sync"),
            Self::Regsync(parallel) => write!(f, "regsync, {parallel} at once"),
        }
    }
}

impl Task<'_> {
    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.display().to_string())
    }

    fn destination(&self) -> Result<&RegistryHost> {
        self.destination.context("this job has no destination registry")
    }

    /// Every image with its name at the destination.
    fn names(&self) -> Result<Vec<(ImageRef, String)>> {
        let host = self.destination()?;
        let name = |source: ImageRef| {
            let tag = source.tag.as_ref().map(ToString::to_string).unwrap_or_default();
            let name = format!("{host}/{NAMESPACE}/{}:{tag}", source.repository);
            (source, name)
        };
        Ok(self.corpus.references(self.source).map(name).collect())
    }

    fn url(&self) -> String {
        format!("file://{}", self.disk.display())
    }
}

fn oc_mirror(programs: &Programs, task: &Task<'_>, more: &[&str]) -> Result<Invocation> {
    let configuration = task.write("isc.yaml", &task.corpus.image_set(task.source))?;
    let tls = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    let disk = task.url();
    let target = || Ok::<_, anyhow::Error>(format!("docker://{}/{NAMESPACE}", task.destination()?));
    let mut arguments = vec!["-c", &configuration];
    arguments.extend(more);
    let registry;
    match task.job {
        Job::ToDisk => arguments.extend([tls[0], &disk]),
        Job::FromDisk => {
            registry = target()?;
            arguments.extend([tls[1], "--from", &disk, &registry]);
        }
        Job::Across => {
            registry = target()?;
            arguments.extend([tls[0], tls[1], "--workspace", &disk, &registry]);
        }
    }
    Ok(Invocation::new(&programs.oc_mirror, &arguments))
}

fn skopeo_copy(task: &Task<'_>, parallel: u8) -> Result<Invocation> {
    let blobs = task.disk.join("blobs").display().to_string();
    let parallel = parallel.to_string();
    let (lines, flags): (Vec<String>, Vec<&str>) = match task.job {
        Job::ToDisk => {
            // skopeo creates the folder of an image, but not its parents.
            for folder in [FIRST, CHANGED].map(|folder| task.disk.join(folder)) {
                fs::create_dir_all(&folder)
                    .with_context(|| format!("creating {}", folder.display()))?;
            }
            let sources = task.corpus.references(task.source).enumerate();
            let line = |(n, source)| format!("docker://{source} {}", layout(task, n));
            let flags = ["--src-tls-verify=false", "--dest-shared-blob-dir", &blobs];
            (sources.map(line).collect(), flags.to_vec())
        }
        Job::FromDisk => {
            let names = task.names()?;
            let line = |(n, (_, name)): (usize, &(ImageRef, String))| {
                format!("{} docker://{name}", layout(task, n))
            };
            let flags = ["--dest-tls-verify=false", "--src-shared-blob-dir", &blobs];
            (names.iter().enumerate().map(line).collect(), flags.to_vec())
        }
        Job::Across => {
            let names = task.names()?;
            let line =
                |(source, name): &(ImageRef, String)| format!("docker://{source} docker://{name}");
            let flags = ["--src-tls-verify=false", "--dest-tls-verify=false"];
            (names.iter().map(line).collect(), flags.to_vec())
        }
    };
    let list = task.write("list", &(lines.join("\n") + "\n"))?;
    let mut arguments = vec!["-a", &list, "-P", &parallel, "-L", "1"];
    arguments.extend(["skopeo", "--insecure-policy", "copy", "-q", "--all"]);
    arguments.extend(flags);
    Ok(Invocation { environment: data_home(task), ..Invocation::new("xargs", &arguments) })
}

/// The layout of one image. The changed one is in another folder, so that a disk can hold both.
fn layout(task: &Task<'_>, number: usize) -> String {
    let changed = task.state == State::Changed && number == 0 && task.job == Job::FromDisk;
    let folder = if changed { CHANGED } else { FIRST };
    format!("oci:{}", task.disk.join(folder).join(number.to_string()).display())
}

fn skopeo_sync(task: &Task<'_>) -> Result<Invocation> {
    let mut repositories: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in task.corpus.references(task.source) {
        let tag = source.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        repositories.entry(source.repository.to_string()).or_default().push(tag);
    }
    let mut yaml = format!("{}:\n  tls-verify: false\n  images:\n", task.source);
    for (repository, tags) in &repositories {
        yaml += &format!("    {repository}: [{}]\n", tags.join(", "));
    }
    let yaml = task.write("sync.yaml", &yaml)?;
    let disk = task.disk.display().to_string();
    let registry = task.destination.map(|host| format!("{host}/{NAMESPACE}")).unwrap_or_default();
    let mut arguments = vec!["--insecure-policy", "sync", "--all"];
    arguments.extend(match task.job {
        Job::ToDisk => ["--scoped", "--src", "yaml", "--dest", "dir", &yaml, &disk],
        Job::FromDisk => {
            ["--dest-tls-verify=false", "--src", "dir", "--dest", "docker", &disk, &registry]
        }
        Job::Across => {
            ["--dest-tls-verify=false", "--src", "yaml", "--dest", "docker", &yaml, &registry]
        }
    });
    Ok(Invocation { environment: data_home(task), ..Invocation::new("skopeo", &arguments) })
}

fn regsync(programs: &Programs, task: &Task<'_>, parallel: u8) -> Result<Invocation> {
    let mut yaml = "version: 1\ncreds:\n".to_owned();
    for host in [Some(task.source), task.destination].into_iter().flatten() {
        yaml += &format!("- {{registry: \"{host}\", tls: disabled}}\n");
    }
    yaml += &format!("defaults: {{parallel: {parallel}}}\nsync:\n");
    let names: Vec<(ImageRef, String)> = match task.job {
        Job::ToDisk => {
            let layout = |source: ImageRef| {
                let tag = source.tag.as_ref().map(ToString::to_string).unwrap_or_default();
                let folder = task.disk.join(source.repository.as_str());
                (source, format!("ocidir://{}:{tag}", folder.display()))
            };
            task.corpus.references(task.source).map(layout).collect()
        }
        Job::FromDisk | Job::Across => task.names()?,
    };
    for (source, name) in names {
        yaml += &format!("- {{source: \"{source}\", target: \"{name}\", type: image}}\n");
    }
    let yaml = task.write("regsync.yaml", &yaml)?;
    Ok(Invocation::new(&programs.regsync, &["once", "-c", &yaml]))
}

/// A separate folder for the cache that skopeo keeps between runs.
fn data_home(task: &Task<'_>) -> BTreeMap<String, PathBuf> {
    BTreeMap::from([("XDG_DATA_HOME".to_owned(), task.scratch.to_owned())])
}
