//! `--shards N`: the blobs of a mirror run are transferred by processes of this program.
//!
//! A shard is started with the command line of the run and the file with its part, so that all
//! flags apply to it. It reports on its standard output, one JSON document per line
//! ([`line::Line`]), and reads from its standard input whether it is to pause. It ends when its
//! input is closed: shards do not outlive the run.

mod archive_claim;
pub(crate) mod arguments;
mod line;
pub(crate) mod pod;
pub(crate) mod process;
mod segment_pod;
pub(crate) mod target_claim;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mirror::{Event, ShardActivity, ShardEnding, ShardReport, ShardRunner, ShardWatch, StoredPart};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;

use line::{Line, PAUSE, RESUME};

/// A shard is not started again after so many attempts in a row that moved nothing.
const ATTEMPTS: u32 = 3;
/// How long a shard may take to end once its input is closed.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Starts shards as processes of this machine.
#[derive(Clone)]
pub(crate) struct LocalShards {
    pub(crate) count: NonZeroU32,
    /// This program.
    program: PathBuf,
    /// The command line of the run, without the program.
    arguments: Vec<OsString>,
}

// The command line may have passwords.
impl fmt::Debug for LocalShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalShards").field("count", &self.count).finish_non_exhaustive()
    }
}

impl LocalShards {
    /// Shards that run with this command line, the program's name first.
    pub(crate) fn new(count: NonZeroU32, command_line: &[OsString]) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self { count, program, arguments: command_line.iter().skip(1).cloned().collect() })
    }
}

impl ShardRunner for LocalShards {
    fn shards(&self) -> NonZeroU32 {
        self.count
    }

    fn program(&self) -> String {
        process::program()
    }

    fn run<'a>(
        &'a self,
        parts: &'a [StoredPart],
        watch: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Vec<Option<ShardReport>>> + Send + 'a>> {
        let watch = Arc::new(watch);
        Box::pin(async move {
            let mut shards = JoinSet::new();
            for (place, part) in parts.iter().enumerate() {
                let (runner, part, watch) = (self.clone(), part.clone(), Arc::clone(&watch));
                shards.spawn(async move { (place, runner.shard(&part, &watch).await) });
            }
            let mut reports = vec![None; parts.len()];
            while let Some(ended) = shards.join_next().await {
                match ended {
                    Ok((place, report)) => reports[place] = report,
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                }
            }
            reports
        })
    }
}

/// How a process of a shard ended.
struct Attempt {
    status: ExitStatus,
    report: Option<ShardReport>,
    /// Why the shard cannot do its part.
    rejected: Option<String>,
    /// Whether a blob arrived.
    has_progressed: bool,
}

impl LocalShards {
    /// Runs one shard until it has done its part. A process that is killed is started again.
    async fn shard(&self, part: &StoredPart, watch: &ShardWatch) -> Option<ShardReport> {
        let number = part.shard;
        let mut fruitless = 0;
        let mut is_repeated = false;
        let why = loop {
            let attempt = match self.attempt(part, watch, is_repeated).await {
                Ok(attempt) => attempt,
                Err(error) => break format!("starting {}: {error}", self.program.display()),
            };
            if let Some(report) = attempt.report
                && (report.ending != ShardEnding::Interrupted || watch.cancel.is_cancelled())
            {
                return Some(report);
            }
            if watch.cancel.is_cancelled() {
                return None;
            }
            if let Some(rejected) = attempt.rejected {
                break rejected;
            }
            fruitless = if attempt.has_progressed { 0 } else { fruitless + 1 };
            if fruitless == ATTEMPTS {
                break format!(
                    "its process ended {ATTEMPTS} times without progress: {}",
                    attempt.status
                );
            }
            tracing::warn!(
                "shard {number}: its process ended early ({}), starting it again",
                attempt.status
            );
            is_repeated = true;
        };
        let message = format!("shard {number} failed, and its blobs are copied without it: {why}");
        watch.observer.notice(Event::Warning { message });
        None
    }

    async fn attempt(
        &self,
        part: &StoredPart,
        watch: &ShardWatch,
        is_repeated: bool,
    ) -> io::Result<Attempt> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--shard-part").arg(&part.path);
        command.arg("--shard-digest").arg(part.digest.to_string());
        command.arg("--shard-index").arg(part.shard.to_string());
        if is_repeated {
            command.arg("--shard-repeated");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let tell = |activity| {
            watch.observer.notice(Event::Shard { shard: part.shard, activity });
        };
        let mut child = command.kill_on_drop(true).spawn()?;
        tell(ShardActivity::Started);
        let input = child.stdin.take();
        let mut output = child.stdout.take().map(|output| BufReader::new(output).lines());
        let mut errors = child.stderr.take().map(|errors| BufReader::new(errors).lines());
        let (mut report, mut rejected) = (None, None);
        let mut has_progressed = false;
        let read = async {
            while let Some(lines) = &mut output
                && let Ok(Some(text)) = lines.next_line().await
            {
                let Ok(line) = serde_json::from_str(&text) else { continue };
                match line {
                    Line::Report(ended) => report = Some(ended),
                    Line::Rejected { message } => rejected = Some(message),
                    Line::Started { digest, size } => {
                        watch.observer.notice(Event::BlobStarted { digest, size });
                    }
                    Line::Done { digest } => {
                        has_progressed = true;
                        watch.observer.notice(Event::BlobDone { digest });
                    }
                    Line::Failed { digest, error } => {
                        watch.observer.notice(Event::BlobFailed { digest, error });
                    }
                    Line::Moved { bytes } => {
                        watch.observer.notice(Event::Moved { bytes });
                        tell(ShardActivity::Progressed);
                    }
                    Line::Warning { message } => {
                        watch.observer.notice(Event::Warning { message });
                    }
                }
            }
        };
        let log = async {
            while let Some(lines) = &mut errors
                && let Ok(Some(text)) = lines.next_line().await
            {
                tracing::warn!("shard {}: {text}", part.shard);
            }
        };
        let ((), (), status) = tokio::join!(read, log, until_ended(&mut child, input, watch));
        tell(ShardActivity::Ended);
        Ok(Attempt { status: status?, report, rejected, has_progressed })
    }
}

/// Waits for a process, pauses it with the run, and ends it when the run is cancelled.
async fn until_ended(
    child: &mut Child,
    mut input: Option<ChildStdin>,
    watch: &ShardWatch,
) -> io::Result<ExitStatus> {
    let mut held = watch.held.clone();
    held.mark_changed();
    loop {
        tokio::select! {
            status = child.wait() => return status,
            () = watch.cancel.cancelled() => break,
            Ok(()) = held.changed() => {
                let word = if *held.borrow_and_update() { PAUSE } else { RESUME };
                if let Some(input) = &mut input {
                    // A process that has ended reads nothing, and is noticed above.
                    let _ = input.write_all(format!("{word}\n").as_bytes()).await;
                }
            }
        }
    }
    drop(input);
    match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            child.start_kill()?;
            child.wait().await
        }
    }
}
