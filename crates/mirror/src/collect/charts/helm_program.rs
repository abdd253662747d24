//! Compares the images that we find with those that the user's Helm renders.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use helm::capabilities::Capabilities;
use helm::discover::{DiscoverError, Discovery, rendered_images};
use helm::images::Origin;
use helm::version::VersionError;
use oci::ImageRef;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::Search;

/// The most text of Helm's error that is repeated.
const MAX_MESSAGE: usize = 2000;

/// What one run of the program may use.
#[derive(Debug, Clone, Copy)]
struct Limits {
    time: Duration,
    output_bytes: u64,
    error_bytes: u64,
}

const LIMITS: Limits =
    Limits { time: Duration::from_secs(60), output_bytes: 64 << 20, error_bytes: 1 << 20 };

/// Why the images cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    #[error("creating a temporary folder")]
    Folder(#[source] io::Error),
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("writing the values")]
    Values(#[from] serde_json::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
}

/// Why the program gave no documents.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("starting it")]
    Start(#[source] io::Error),
    #[error("reading its output")]
    Read(#[source] io::Error),
    #[error("it did not end within {} s and was stopped", .0.as_secs())]
    Time(Duration),
    #[error("it wrote more than {} MiB and was stopped", .0 >> 20)]
    Output(u64),
    /// What Helm printed.
    #[error("{0}")]
    Failed(String),
}

/// Images that only one of both finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) only_helm: BTreeSet<ImageRef>,
    pub(crate) only_ours: BTreeSet<ImageRef>,
}

/// Renders a packed chart with Helm, once for each set of APIs.
pub(crate) async fn compare(
    program: &Path,
    archive: Vec<u8>,
    search: &Search,
    discovery: &Discovery,
) -> Result<Difference, CompareError> {
    let folder = tempfile::tempdir().map_err(CompareError::Folder)?;
    let (chart, values) = (folder.path().join("chart.tgz"), folder.path().join("values.json"));
    let text = serde_json::to_vec(&search.values)?;
    for (path, bytes) in [(&chart, archive), (&values, text)] {
        std::fs::write(path, bytes)
            .map_err(|source| CompareError::Write { path: path.clone(), source })?;
    }
    let options = &search.options;
    let mut theirs = BTreeSet::new();
    for set in &options.api_sets {
        let capabilities = Capabilities::new(*set, &options.kube_version)?;
        let release = &options.rendering.release;
        let mut command = Command::new(program);
        command
            .args(["template", &release.name, "--namespace", &release.namespace])
            .arg(&chart)
            .arg("--values")
            .arg(&values)
            .args(["--include-crds", "--skip-schema-validation"])
            .args(["--kube-version", &options.kube_version])
            .stdin(Stdio::null());
        for version in &capabilities.api_versions {
            command.args(["--api-versions", version]);
        }
        let text = output(command, LIMITS).await?;
        theirs.extend(rendered_images(&text, options)?);
    }
    Ok(difference(discovery, &theirs))
}

/// What a program writes to its standard output. It is stopped, with all processes that it started,
/// when it exceeds a limit or the run is interrupted.
async fn output(mut command: Command, limits: Limits) -> Result<String, ProgramError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(ProgramError::Start)?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let run = async {
        let read = async {
            tokio::try_join!(bounded(out, limits.output_bytes), bounded(err, limits.error_bytes))
        };
        let (out, err) = read.await?;
        let status = child.wait().await.map_err(ProgramError::Read)?;
        Ok((status, out, err))
    };
    let ended = tokio::time::timeout(limits.time, run).await;
    drop(group);
    let (status, out, err): (ExitStatus, Vec<u8>, Vec<u8>) =
        ended.map_err(|_| ProgramError::Time(limits.time))??;
    if !status.success() {
        let message = String::from_utf8_lossy(&err);
        let message: String = message.trim().chars().take(MAX_MESSAGE).collect();
        return Err(ProgramError::Failed(if message.is_empty() {
            status.to_string()
        } else {
            message
        }));
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// All bytes, unless there are too many.
async fn bounded(
    source: Option<impl AsyncRead + Unpin>,
    limit: u64,
) -> Result<Vec<u8>, ProgramError> {
    let mut bytes = Vec::new();
    let Some(source) = source else { return Ok(bytes) };
    source.take(limit + 1).read_to_end(&mut bytes).await.map_err(ProgramError::Read)?;
    match bytes.len() as u64 > limit {
        true => Err(ProgramError::Output(limit)),
        false => Ok(bytes),
    }
}

/// Processes that end with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It no longer exists if the program ended and left nothing behind.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Helm does not read annotations, so that images which are only listed there do not count.
fn difference(discovery: &Discovery, theirs: &BTreeSet<ImageRef>) -> Difference {
    let is_rendered = |origins: &Vec<Origin>| {
        origins.iter().any(|origin| matches!(origin, Origin::Document { .. }))
    };
    let ours = discovery.images.iter().filter(|(_, origins)| is_rendered(origins));
    let ours: BTreeSet<ImageRef> = ours.map(|(image, _)| image.clone()).collect();
    let known = |image: &&ImageRef| !discovery.images.contains_key(*image);
    Difference {
        only_helm: theirs.iter().filter(known).cloned().collect(),
        only_ours: ours.difference(theirs).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_chain::chain;

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    fn limits(time: Duration) -> Limits {
        Limits { time, output_bytes: 1 << 20, error_bytes: 1 << 20 }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_stopped_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let text = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let error = output(script(&text), limits(Duration::from_millis(500))).await.unwrap_err();
        assert!(matches!(error, ProgramError::Time(_)), "{error}");
        let pid = std::fs::read_to_string(pid).unwrap();
        let status = format!("/proc/{}/status", pid.trim());
        // A process that was killed stays as a zombie until its parent reads its status.
        let is_running = || {
            let status = std::fs::read_to_string(&status).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        while is_running() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_program_that_prints_without_end_is_stopped() {
        for text in ["yes", "yes >&2"] {
            let error = output(script(text), limits(Duration::from_secs(600))).await.unwrap_err();
            assert_eq!(error.to_string(), "it wrote more than 1 MiB and was stopped", "{text}");
        }
    }

    #[tokio::test]
    async fn what_a_program_prints_is_read_and_its_failure_reported() {
        let long = limits(Duration::from_secs(600));
        assert_eq!(output(script("echo a; echo b >&2"), long).await.unwrap(), "a\n");
        let error = output(script("echo why >&2; exit 3"), long).await.unwrap_err();
        assert_eq!(error.to_string(), "why");
        let error = output(script("exit 3"), long).await.unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3");
        let error = output(Command::new("/nowhere/helm"), long).await.unwrap_err();
        let error = chain(&error);
        assert!(error.starts_with("starting it: No such file"), "{error}");
    }
}
