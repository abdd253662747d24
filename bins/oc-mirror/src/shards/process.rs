//! The process of one shard.

use std::fs;
use std::io::{self, BufRead, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mirror::{
    Event, Observer, Settings, ShardEnding, ShardReport, ShardSettings, ShardWatch, transfer_shard,
};
use mirror_plan::{PartError, RunIdentity, ShardPart};
use oci::Digest;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arguments::ShardArguments;
use super::line::{Line, PAUSE, RESUME};
use crate::interrupt::{self, Ended};
use crate::pace_arguments::Pace;
use crate::pacing;
use crate::problem::chain;

/// Far above the part of any shard.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes are reported in steps of this size.
const STEP: u64 = 1 << 20;

/// Name and version of this program, as parts have it.
pub(crate) fn program() -> String {
    format!("oc-mirror {}", build_info::VERSION)
}

/// Why a part cannot be used.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("reading {path}")]
    Read { path: String, source: io::Error },
    #[error("{path} is larger than {} MiB", MAX_BYTES >> 20)]
    Large { path: String },
    #[error("{path} was modified: expected the digest {expected}, found {found}")]
    Modified { path: String, expected: Digest, found: Digest },
    #[error("{path} cannot be used")]
    Part { path: String, source: PartError },
}

/// Does the part of a shard, and reports on standard output.
pub(crate) fn run(
    arguments: &ShardArguments,
    part: &Path,
    settings: Settings,
    pace: &Pace,
) -> ExitCode {
    let lines = Arc::new(Lines::default());
    let reject = |message: String| {
        lines.write(&Line::Rejected { message });
        ExitCode::FAILURE
    };
    let part = match read(part, arguments) {
        Ok(part) => part,
        Err(error) => return reject(chain(&error)),
    };
    let processes = NonZeroU32::new(part.shards).unwrap_or(NonZeroU32::MIN);
    pace.source.iter().chain(&pace.destination).for_each(|limiter| limiter.share(processes));
    let runtime = match crate::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return reject(format!("starting threads: {error}")),
    };
    let settings = ShardSettings {
        directory: settings.workflow.directory().to_owned(),
        source: settings.source,
        destination: settings.destination,
        parallel_images: settings.parallel_images,
        parallel_layers: settings.parallel_layers,
        transfer_timeout: settings.transfer_timeout,
        cache: settings.cache,
        is_repeated: arguments.shard_repeated,
    };
    let ended = runtime.block_on(async {
        let transfer = |cancel: CancellationToken| {
            let held = follow_input(cancel.clone());
            let observer = Arc::clone(&lines) as Arc<dyn Observer>;
            transfer_shard(settings, &part, ShardWatch { observer, cancel, held })
        };
        tokio::select! {
            ended = interrupt::until_ended(transfer) => ended,
            () = pacing::follow(pace.schedule.as_ref()) => unreachable!("a timetable never ends"),
        }
    });
    runtime.shutdown_background();
    match ended {
        Ok(Ended::Result(Ok(report))) => {
            let code = match report.ending {
                ShardEnding::Complete | ShardEnding::Incomplete => ExitCode::SUCCESS,
                ShardEnding::Failed | ShardEnding::LastAttempt => ExitCode::FAILURE,
                ShardEnding::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
            };
            lines.report(report);
            code
        }
        Ok(Ended::Result(Err(failure))) => reject(failure.message),
        Ok(Ended::Abandoned) => ExitCode::from(interrupt::EXIT_CODE),
        Err(error) => reject(format!("waiting for signals: {error}")),
    }
}

/// Reads the part that the run wrote for this shard.
fn read(path: &Path, arguments: &ShardArguments) -> Result<ShardPart, ReadError> {
    let name = || path.display().to_string();
    let failed = |source| ReadError::Read { path: name(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(ReadError::Large { path: name() });
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let found = Digest::of(text.as_bytes());
    if let Some(expected) = arguments.shard_digest.filter(|expected| *expected != found) {
        return Err(ReadError::Modified { path: name(), expected, found });
    }
    let unusable = |source| ReadError::Part { path: name(), source };
    let part = ShardPart::from_text(&text).map_err(unusable)?;
    let expected = RunIdentity { plan: part.run.plan, program: program() };
    part.check(&expected, arguments.shard_index.unwrap_or_default()).map_err(unusable)?;
    Ok(part)
}

/// Follows what the run writes: whether to pause. Its end is the end of the shard.
fn follow_input(cancel: CancellationToken) -> watch::Receiver<bool> {
    let (told, held) = watch::channel(false);
    // A thread of its own: reading cannot be cancelled, and must not keep the program from ending.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                PAUSE => told.send_replace(true),
                RESUME => told.send_replace(false),
                _ => continue,
            };
        }
        cancel.cancel();
    });
    held
}

/// Writes events to standard output.
#[derive(Debug, Default)]
struct Lines {
    moved: AtomicU64,
    /// Lines must not mix.
    one_at_a_time: Mutex<()>,
}

impl Lines {
    fn write(&self, line: &Line) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let _one_at_a_time = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let mut output = io::stdout().lock();
        // A run that does not read any more has ended, and closes the input too.
        let _ = output.write_all(&text).and_then(|()| output.flush());
    }

    fn moved(&self) {
        let bytes = self.moved.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            self.write(&Line::Moved { bytes });
        }
    }

    fn report(&self, report: ShardReport) {
        self.moved();
        self.write(&Line::Report(report));
    }
}

impl Observer for Lines {
    fn notice(&self, event: Event) {
        let line = match event {
            Event::Moved { bytes } => {
                if self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes >= STEP {
                    self.moved();
                }
                return;
            }
            Event::BlobStarted { digest, size } => Line::Started { digest, size },
            Event::BlobDone { digest } => Line::Done { digest },
            Event::BlobFailed { digest, error } => {
                Line::Failed { digest, error: workspace::redact_urls(&error) }
            }
            Event::Warning { message } => Line::Warning { message },
            _ => return,
        };
        self.moved();
        self.write(&line);
    }
}
