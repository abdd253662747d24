//! Executes a schedule: a bounded number of jobs at once, until all are done.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control::Hold;
use crate::report::Outcome;
use crate::transfer::schedule::{ImageId, Job, Parallel, Schedule};
use crate::transfer::transfer_error::{Cause, ImageError, TransferError};

/// Where blobs and images go: a disk or a registry.
pub(crate) trait Destination: Send + Sync + 'static {
    /// Performs one job.
    ///
    /// # Guarantees
    ///
    /// After `Ok`, the blob or the image is at the destination, complete and verified. A job may be
    /// performed again: existing content is not an error. A job that is dropped leaves nothing
    /// that a reader would take for complete content.
    ///
    /// # Errors
    ///
    /// A [`TransferError`] names the fault: whether another source or a retry can help.
    fn perform(&self, job: Job) -> impl Future<Output = Result<(), TransferError>> + Send;
}

/// How much at once, and for how long at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) parallel: Parallel,
    pub(crate) transfer_timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executed {
    Entirely,
    Interrupted,
}

/// What is reported of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment<'a> {
    /// The transfer of its first blob began.
    Began,
    Finished,
    /// With the reason.
    Failed(&'a ImageError),
}

impl Moment<'_> {
    /// How the image ended, if it did.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Began => None,
            Self::Finished => Some(Outcome::Copied),
            Self::Failed(error) => Some(Outcome::Failed { error: error.reason() }),
        }
    }
}

/// What ends transfers, or holds them.
#[derive(Debug)]
pub(crate) struct Stops {
    pub(crate) cancel: CancellationToken,
    pub(crate) hold: Hold,
}

/// Runs `schedule` to its end or until it is cancelled. While it is held, no job begins, and those
/// in progress end. `tell` is called for every image: that it began, and how it ended, each once.
/// What failed for a reason that may have passed is retried once, after everything else.
pub(crate) async fn execute<D: Destination>(
    mut schedule: Schedule,
    destination: Arc<D>,
    limits: Limits,
    mut stops: Stops,
    mut tell: impl FnMut(ImageId, Moment<'_>),
) -> Executed {
    let mut flying: JoinSet<(Job, Result<(), TransferError>)> = JoinSet::new();
    let mut begun: HashSet<ImageId> = HashSet::new();
    loop {
        let is_held = stops.hold.is_held();
        while !is_held && flying.len() < limits.parallel.jobs() {
            let Some(job) = schedule.next(limits.parallel) else { break };
            if begun.insert(job.image()) {
                tell(job.image(), Moment::Began);
            }
            let destination = Arc::clone(&destination);
            flying.spawn(async move {
                (job, bounded(limits.transfer_timeout, &job, destination.perform(job)).await)
            });
        }
        let landed = tokio::select! {
            biased;
            () = stops.cancel.cancelled() => {
                for failed in schedule.give_up_final_round() {
                    tell(failed.image, Moment::Failed(&failed.error));
                }
                return Executed::Interrupted;
            }
            () = stops.hold.changed() => continue,
            landed = flying.join_next(), if !(is_held && flying.is_empty()) => landed,
        };
        match landed {
            None => match schedule.begin_final_round() {
                0 => return Executed::Entirely,
                again => tracing::warn!("final round: retrying {again} of the images that failed"),
            },
            Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            Some(Ok((job, outcome))) => {
                if let (Job::Finish { image }, Ok(())) = (job, &outcome) {
                    tell(image, Moment::Finished);
                }
                for failed in schedule.done(&job, outcome) {
                    tell(failed.image, Moment::Failed(&failed.error));
                }
            }
        }
    }
}

async fn bounded(
    limit: Option<Duration>,
    job: &Job,
    performed: impl Future<Output = Result<(), TransferError>>,
) -> Result<(), TransferError> {
    let Some(limit) = limit else { return performed.await };
    tokio::time::timeout(limit, performed)
        .await
        .unwrap_or_else(|_| Err(TransferError::new(job.step(), Cause::TimedOut(limit))))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use std::pin::pin;

    use mirror_plan::BlobRef;
    use oci::Digest;
    use workspace::{ControlRequest, ControlState, Controlled};

    use super::*;
    use crate::control::RunControl;
    use crate::transfer::schedule::Need;
    use crate::transfer::supply::SupplyError;

    /// Counts jobs at once; fails the given blob.
    #[derive(Default)]
    struct Counting {
        now: AtomicUsize,
        most: AtomicUsize,
        bad: Option<Digest>,
        hang: bool,
    }

    impl Destination for Counting {
        async fn perform(&self, job: Job) -> Result<(), TransferError> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.hang {
                std::future::pending::<()>().await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            match job {
                Job::Move { blob, .. } if Some(blob.digest) == self.bad => {
                    Err(TransferError::new(job.step(), SupplyError::Missing(blob.digest)))
                }
                _ => Ok(()),
            }
        }
    }

    fn stops(control: &RunControl) -> Stops {
        Stops { cancel: control.token(), hold: control.hold() }
    }

    fn needs() -> Vec<Option<Need>> {
        let blob = |n: u8| BlobRef { digest: Digest::of(&[n]), size: 10 };
        let need = |n| {
            let blobs = vec![blob(n), blob(200)];
            Some(Need { repository: 0, source: 0, blobs })
        };
        (0..20).map(need).collect()
    }

    async fn run(destination: Counting, limits: Limits) -> (Executed, Vec<(usize, bool)>, usize) {
        let destination = Arc::new(destination);
        let ended = Mutex::new(Vec::new());
        let control = RunControl::new(CancellationToken::new(), None);
        let executed = execute(
            Schedule::new(needs(), vec![0]),
            Arc::clone(&destination),
            limits,
            stops(&control),
            |image, moment| {
                if !matches!(moment, Moment::Began) {
                    ended.lock().unwrap().push((image, matches!(moment, Moment::Finished)));
                }
            },
        )
        .await;
        (executed, ended.into_inner().unwrap(), destination.most.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn every_image_ends_once_and_no_more_jobs_run_than_allowed() {
        let limits = Limits { parallel: Parallel { images: 4, layers: 1 }, transfer_timeout: None };
        let bad = Some(Digest::of(&[7]));
        let (executed, mut ended, most) =
            run(Counting { bad, ..Counting::default() }, limits).await;
        ended.sort_unstable();
        assert_eq!(executed, Executed::Entirely);
        assert_eq!(ended, (0..20).map(|n| (n, n != 7)).collect::<Vec<_>>());
        assert!(most <= 4, "{most}");
    }

    #[tokio::test]
    async fn a_transfer_that_takes_too_long_fails_its_images() {
        let limits = Limits {
            parallel: Parallel { images: 30, layers: 1 },
            transfer_timeout: Some(Duration::from_millis(20)),
        };
        let (_, ended, _) = run(Counting { hang: true, ..Counting::default() }, limits).await;
        assert_eq!(ended.iter().filter(|(_, well)| *well).count(), 0);
        assert_eq!(ended.len(), 20);
    }

    #[tokio::test]
    async fn a_cancelled_run_ends_at_once() {
        let control = RunControl::new(CancellationToken::new(), None);
        assert_eq!(control.control(ControlRequest::Stop), ControlState::Stopping);
        let limits = Limits { parallel: Parallel { images: 4, layers: 1 }, transfer_timeout: None };
        let destination = Arc::new(Counting::default());
        let schedule = Schedule::new(needs(), vec![0]);
        let executed = execute(schedule, destination, limits, stops(&control), |_, _| {}).await;
        assert_eq!(executed, Executed::Interrupted);
    }

    #[tokio::test]
    async fn a_paused_run_begins_nothing_until_it_is_resumed() {
        let control = RunControl::new(CancellationToken::new(), None);
        assert_eq!(control.control(ControlRequest::Pause), ControlState::Paused);
        let limits = Limits { parallel: Parallel { images: 4, layers: 1 }, transfer_timeout: None };
        let destination = Arc::new(Counting::default());
        let schedule = Schedule::new(needs(), vec![0]);
        let executed =
            execute(schedule, Arc::clone(&destination), limits, stops(&control), |_, _| {});
        let mut executed = pin!(executed);
        let waiting = tokio::time::timeout(Duration::from_millis(20), &mut executed).await;
        assert!(waiting.is_err());
        assert_eq!(destination.most.load(Ordering::SeqCst), 0);
        assert_eq!(control.control(ControlRequest::Resume), ControlState::Running);
        assert_eq!(executed.await, Executed::Entirely);
    }
}
