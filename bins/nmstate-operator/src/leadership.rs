//! One leader among several replicas of a program: a Lease that is renewed while the leader runs.
//!
//! Clocks of different machines are never compared. A replica waits until a lease has not changed
//! for its whole duration by the replica's own clock, as Kubernetes' own components do.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Durations. They are those of OpenShift: they tolerate an API server that is unavailable for a
/// minute and a half.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// A lease that was not renewed for this time may be acquired.
    pub(crate) duration: Duration,
    /// A leader that could not renew for this time gives up; less than `duration`.
    pub(crate) renew_deadline: Duration,
    /// The delay between two attempts.
    pub(crate) retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(137),
            renew_deadline: Duration::from_secs(107),
            retry: Duration::from_secs(26),
        }
    }
}

impl Pace {
    /// The same for a lease of this many seconds.
    pub(crate) fn lasting(seconds: u32) -> Self {
        let usual = Self::default();
        let duration = Duration::from_secs(seconds.into());
        let share =
            |part: Duration| duration.mul_f64(part.as_secs_f64() / usual.duration.as_secs_f64());
        Self { duration, renew_deadline: share(usual.renew_deadline), retry: share(usual.retry) }
    }
}

/// A lease, and the identity of a candidate for it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Name of the Lease.
    pub(crate) lease: String,
    /// Unique to this process: a restarted pod is another candidate.
    pub(crate) identity: String,
    pub(crate) pace: Pace,
}

/// The last observed state of a lease, and since when it is unchanged.
struct Seen {
    record: (Option<String>, Option<MicroTime>),
    since: Instant,
}

/// An identity of this process among all that ever run in this pod: its PID is the same each time a
/// container starts.
pub(crate) fn identity(pod: &str) -> String {
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let unique = unique.unwrap_or_else(|_| std::process::id().to_string());
    format!("{pod}_{}", unique.trim())
}

/// The result of an attempt to acquire or renew a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Ours,
    /// Another candidate holds it.
    Others,
    /// It was written between our request to read it and the one to write it. That may be a change
    /// of its labels.
    Conflict,
}

impl Taken {
    /// Whether a leader must stop. After a conflict there is time to read the lease again.
    fn ends_leadership(self) -> bool {
        self == Self::Others
    }
}

/// The action for a lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It does not exist.
    Create,
    /// It is ours, has no holder, or is not renewed.
    Take,
    /// Another candidate holds it.
    Wait,
}

/// Waits for the lease, then does `work`, whose token is cancelled when this process is requested
/// to stop. Returns what the work returns, or an error when the lease was lost: the process must
/// not interfere with the new leader, so it ends and restarts as a follower. A lease that is not
/// needed any more is released, so that the next leader need not wait until it expires.
pub(crate) async fn lead<W: Future<Output = Result<()>>>(
    leases: &Api<Lease>,
    candidate: &Candidate,
    stop: &CancellationToken,
    work: impl FnOnce(CancellationToken) -> W,
) -> Result<()> {
    tokio::select! {
        acquired = acquire(leases, candidate) => acquired?,
        () = stop.cancelled() => return Ok(()),
    }
    tracing::info!(lease = candidate.lease, identity = candidate.identity, "leading");
    let result = tokio::select! {
        done = work(stop.child_token()) => done,
        lost = keep(leases, candidate) => return lost,
    };
    release(leases, candidate).await;
    result
}

async fn acquire(leases: &Api<Lease>, candidate: &Candidate) -> Result<()> {
    let mut seen = None;
    loop {
        match try_take(leases, candidate, &mut seen).await {
            Ok(Taken::Ours) => return Ok(()),
            Ok(Taken::Others | Taken::Conflict) => {}
            Err(error) => tracing::warn!("{error:#}"),
        }
        sleep(candidate.pace.retry).await;
    }
}

/// Renews until that fails for too long.
async fn keep(leases: &Api<Lease>, candidate: &Candidate) -> Result<()> {
    let mut renewed = Instant::now();
    loop {
        sleep(candidate.pace.retry).await;
        let left = candidate.pace.renew_deadline.saturating_sub(renewed.elapsed());
        match timeout(left, try_take(leases, candidate, &mut None)).await {
            Ok(Ok(Taken::Ours)) => renewed = Instant::now(),
            Ok(Ok(taken)) if taken.ends_leadership() => {
                bail!("another process holds the lease {} now", candidate.lease)
            }
            Ok(Ok(_)) => tracing::debug!("the lease {} was changed meanwhile", candidate.lease),
            Ok(Err(error)) => tracing::warn!("{error:#}"),
            Err(_) => {}
        }
        if renewed.elapsed() >= candidate.pace.renew_deadline {
            bail!(
                "the lease {} could not be renewed for {} s",
                candidate.lease,
                candidate.pace.renew_deadline.as_secs()
            );
        }
    }
}

/// Acquires or renews the lease if that is possible.
async fn try_take(
    leases: &Api<Lease>,
    candidate: &Candidate,
    seen: &mut Option<Seen>,
) -> Result<Taken> {
    let doing = || format!("taking the lease {}", candidate.lease);
    let held = leases.get_opt(&candidate.lease).await.with_context(doing)?;
    let written = match step(held.as_ref(), candidate, seen, Instant::now()) {
        Step::Wait => return Ok(Taken::Others),
        Step::Create => {
            let lease = ours(None, candidate);
            leases.create(&PostParams::default(), &lease).await
        }
        Step::Take => {
            let lease = ours(held, candidate);
            leases.replace(&candidate.lease, &PostParams::default(), &lease).await
        }
    };
    match written {
        Ok(_) => Ok(Taken::Ours),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Taken::Conflict),
        Err(error) => Err(error).with_context(doing),
    }
}

fn step(
    held: Option<&Lease>,
    candidate: &Candidate,
    seen: &mut Option<Seen>,
    now: Instant,
) -> Step {
    let Some(lease) = held else { return Step::Create };
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    let renewed = spec.and_then(|spec| spec.renew_time.clone());
    if holder.as_deref().is_none_or(|holder| holder.is_empty() || holder == candidate.identity) {
        return Step::Take;
    }
    let record = (holder, renewed);
    match seen {
        Some(seen) if seen.record == record => {
            // The holder's own duration counts: it may be of another version of the program.
            let duration = spec
                .and_then(|spec| spec.lease_duration_seconds)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(candidate.pace.duration, Duration::from_secs);
            if now.duration_since(seen.since) > duration { Step::Take } else { Step::Wait }
        }
        _ => {
            *seen = Some(Seen { record, since: now });
            Step::Wait
        }
    }
}

/// The lease with us as its holder.
fn ours(held: Option<Lease>, candidate: &Candidate) -> Lease {
    let mut lease = held.unwrap_or_else(|| Lease {
        metadata: ObjectMeta { name: Some(candidate.lease.clone()), ..ObjectMeta::default() },
        spec: None,
    });
    let now = MicroTime(Timestamp::now());
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    if spec.holder_identity.as_deref() != Some(&candidate.identity) {
        spec.lease_transitions =
            Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        spec.acquire_time = Some(now.clone());
    }
    spec.holder_identity = Some(candidate.identity.clone());
    spec.renew_time = Some(now);
    spec.lease_duration_seconds = i32::try_from(candidate.pace.duration.as_secs()).ok();
    lease
}

/// Releases the lease. After a failure, the next leader only waits longer.
async fn release(leases: &Api<Lease>, candidate: &Candidate) {
    let Ok(Some(mut lease)) = leases.get_opt(&candidate.lease).await else { return };
    let Some(spec) = lease.spec.as_mut() else { return };
    if spec.holder_identity.as_deref() != Some(&candidate.identity) {
        return;
    }
    spec.holder_identity = None;
    spec.lease_duration_seconds = Some(1);
    if let Err(error) = leases.replace(&candidate.lease, &PostParams::default(), &lease).await {
        tracing::debug!("giving back the lease {}: {error}", candidate.lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Candidate {
        Candidate { lease: "l".into(), identity: "me".into(), pace: Pace::default() }
    }

    fn held_by(holder: &str, seconds: i32) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[test]
    fn a_leader_gives_up_before_its_lease_may_be_taken_however_short_it_is() {
        for seconds in [5, 15, 137, 3600] {
            let Pace { duration, renew_deadline, retry } = Pace::lasting(seconds);
            assert!(retry * 2 < renew_deadline && renew_deadline < duration, "{seconds}");
        }
        let usual = Pace::default();
        let same = Pace::lasting(137);
        assert_eq!((same.duration, same.renew_deadline), (usual.duration, usual.renew_deadline));
    }

    #[test]
    fn only_another_holder_ends_leadership() {
        let ends = [Taken::Ours, Taken::Conflict, Taken::Others].map(Taken::ends_leadership);
        assert_eq!(ends, [false, false, true]);
    }

    #[test]
    fn a_container_that_starts_again_in_its_pod_is_another_candidate() {
        assert_ne!(identity("pod"), identity("pod"));
        assert!(identity("pod").starts_with("pod_"));
    }

    #[test]
    fn a_lease_that_is_absent_ours_or_without_a_holder_is_taken() {
        let now = Instant::now();
        assert_eq!(step(None, &me(), &mut None, now), Step::Create);
        for holder in ["me", ""] {
            assert_eq!(step(Some(&held_by(holder, 60)), &me(), &mut None, now), Step::Take);
        }
    }

    #[test]
    fn a_lease_of_another_is_taken_only_after_it_stood_still_for_its_own_duration() {
        let start = Instant::now();
        let (lease, mut seen) = (held_by("other", 60), None);
        let at = |second, seen: &mut _| {
            step(Some(&lease), &me(), seen, start + Duration::from_secs(second))
        };
        assert_eq!(at(0, &mut seen), Step::Wait);
        assert_eq!(at(60, &mut seen), Step::Wait);
        assert_eq!(at(61, &mut seen), Step::Take);
    }

    #[test]
    fn a_lease_with_a_new_holder_restarts_the_wait() {
        let start = Instant::now();
        let mut seen = None;
        step(Some(&held_by("one", 60)), &me(), &mut seen, start);
        let later = start + Duration::from_secs(61);
        assert_eq!(step(Some(&held_by("two", 60)), &me(), &mut seen, later), Step::Wait);
    }

    #[test]
    fn a_renewal_keeps_the_count_of_transitions_and_a_change_of_holder_raises_it() {
        let first = ours(None, &me());
        assert_eq!(first.spec.as_ref().unwrap().lease_transitions, Some(0));
        let renewed = ours(Some(first), &me());
        assert_eq!(renewed.spec.as_ref().unwrap().lease_transitions, Some(0));
        let taken = ours(Some(renewed), &Candidate { identity: "you".into(), ..me() });
        assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
    }
}
