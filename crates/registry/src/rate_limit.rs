//! A limit on bytes per second that all transfers share. The rate may change while they run, down to
//! nothing at all: transfers then wait and continue later.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// What may pass at once after a quiet moment, as a part of a second.
const BURST: f64 = 0.1;

/// Shared by its clones. Counts bytes of bodies; headers are small.
#[derive(Debug, Clone, Default)]
pub struct RateLimiter(Arc<Shared>);

/// What a limiter allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Allowed {
    #[default]
    Everything,
    BytesPerSecond(NonZeroU64),
    Nothing,
}

#[derive(Debug, Default)]
struct Shared {
    bucket: Mutex<Bucket>,
    changed: Notify,
}

/// Bytes that may pass now. Below zero: more passed than was allowed, which is waited for.
#[derive(Debug)]
struct Bucket {
    allowed: Allowed,
    /// Processes that share the rate.
    processes: NonZeroU32,
    bytes: f64,
    filled: Instant,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            allowed: Allowed::Everything,
            processes: NonZeroU32::MIN,
            bytes: 0.0,
            filled: Instant::now(),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Turn {
    Now,
    In(Duration),
    AfterAChange,
}

impl Bucket {
    /// Takes `count` bytes, or returns when to try again.
    #[expect(clippy::cast_precision_loss, reason = "far below the precision of a rate")]
    fn take(&mut self, count: u64, now: Instant) -> Turn {
        let rate = match self.allowed {
            Allowed::Everything => return Turn::Now,
            Allowed::Nothing => return Turn::AfterAChange,
            Allowed::BytesPerSecond(rate) => rate.get() as f64 / f64::from(self.processes.get()),
        };
        let passed = now.duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.bytes = (self.bytes + passed * rate).min(rate * BURST);
        if self.bytes >= 0.0 {
            self.bytes -= count as f64;
            return Turn::Now;
        }
        Turn::In(Duration::from_secs_f64((-self.bytes / rate).clamp(0.001, 3600.0)))
    }
}

impl RateLimiter {
    pub fn new(allowed: Allowed) -> Self {
        let limiter = Self::default();
        limiter.set(allowed);
        limiter
    }

    /// Changes what is allowed, for transfers in progress too.
    pub fn set(&self, allowed: Allowed) {
        let mut bucket = self.bucket();
        if bucket.allowed != allowed {
            let processes = bucket.processes;
            *bucket = Bucket { allowed, processes, ..Bucket::default() };
            drop(bucket);
            self.0.changed.notify_waiters();
        }
    }

    /// Allows this process an equal part of the rate, as so many processes share it.
    pub fn share(&self, processes: NonZeroU32) {
        self.bucket().processes = processes;
    }

    pub fn allowed(&self) -> Allowed {
        self.bucket().allowed
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `count` more bytes may pass. With 0, waits only while nothing is allowed.
    async fn pass(&self, count: u64) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Registered before the check, so that no change is missed in between.
            changed.as_mut().enable();
            let turn = match count {
                0 if self.allowed() != Allowed::Nothing => Turn::Now,
                0 => Turn::AfterAChange,
                count => self.bucket().take(count, Instant::now()),
            };
            match turn {
                Turn::Now => return,
                Turn::AfterAChange => changed.await,
                Turn::In(wait) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }
}

/// The limits that apply to one side: its own, and those it shares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits(Arc<[RateLimiter]>);

impl Limits {
    pub(crate) fn new(limiters: &[RateLimiter]) -> Self {
        Self(limiters.into())
    }

    /// Waits until `count` bytes may pass everywhere.
    pub(crate) async fn pass(&self, count: usize) {
        for limiter in self.0.iter() {
            limiter.pass(count as u64).await;
        }
    }

    /// Waits while nothing is allowed.
    pub(crate) async fn open(&self) {
        self.pass(0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(bytes: u64) -> Allowed {
        Allowed::BytesPerSecond(NonZeroU64::new(bytes).unwrap())
    }

    /// The clock of these tests stands still but for sleeping.
    async fn seconds_for(limiter: &RateLimiter, pieces: usize, size: u64) -> f64 {
        let start = Instant::now();
        for _ in 0..pieces {
            limiter.pass(size).await;
        }
        start.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn processes_that_share_a_rate_get_an_equal_part_of_it() {
        let limiter = RateLimiter::new(per_second(1000));
        let alone = seconds_for(&limiter, 101, 100).await;
        limiter.share(NonZeroU32::new(4).unwrap());
        let shared = seconds_for(&limiter, 101, 100).await;
        assert!((shared / alone - 4.0).abs() < 0.2, "{alone} {shared}");
        limiter.set(per_second(2000));
        let faster = seconds_for(&limiter, 101, 100).await;
        assert!((shared / faster - 2.0).abs() < 0.2, "{shared} {faster}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate() {
        let limiter = RateLimiter::new(per_second(1000));
        let seconds = seconds_for(&limiter, 101, 100).await;
        assert!((9.5..=10.5).contains(&seconds), "{seconds}");
        // A piece may be larger than what is allowed in a second.
        let seconds = seconds_for(&limiter, 3, 5000).await;
        assert!((9.5..=11.0).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn transfers_share_the_rate() {
        let limiter = RateLimiter::new(per_second(1000));
        let start = Instant::now();
        let transfers = (0..5).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { seconds_for(&limiter, 20, 100).await })
        });
        for transfer in transfers.collect::<Vec<_>>() {
            transfer.await.unwrap();
        }
        let seconds = start.elapsed().as_secs_f64();
        assert!((9.5..=10.5).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_is_not_compensated() {
        let limiter = RateLimiter::new(per_second(1000));
        limiter.pass(1).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let seconds = seconds_for(&limiter, 101, 100).await;
        assert!((9.5..=10.5).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_when_the_rate_changes_and_a_lower_rate_counts_at_once() {
        let limiter = RateLimiter::new(Allowed::Nothing);
        let other = limiter.clone();
        let waiting = tokio::spawn(async move {
            other.pass(0).await;
            seconds_for(&other, 11, 100).await
        });
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert!(!waiting.is_finished());
        limiter.set(per_second(1000));
        let seconds = waiting.await.unwrap();
        assert!((0.8..=1.2).contains(&seconds), "{seconds}");
        limiter.set(Allowed::Everything);
        assert!(seconds_for(&limiter, 1000, 1 << 30).await < 0.001);
    }
}
