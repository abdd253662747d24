//! How long a node is cut off from the network of its API server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab_cluster::node::Lan;

/// Between two pings.
const INTERVAL: &str = "0.2";

/// Pings a node from beside its API server, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Reachability {
    ping: Child,
    reader: Option<JoinHandle<()>>,
    gaps: Arc<Mutex<Gaps>>,
}

/// How long a node was out of reach. The time during which it had no power, and booted, is not counted:
/// [`Reachability::restart`] is called after the boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The longest time between two replies. It includes the restart of programs that were killed.
    pub(crate) longest: Duration,
    /// The longest part of such a time during which nothing was killed.
    pub(crate) undisturbed: Duration,
}

impl Outage {
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            longest: self.longest.max(other.longest),
            undisturbed: self.undisturbed.max(other.undisturbed),
        }
    }
}

/// The times between two replies.
#[derive(Debug, Clone, Copy)]
struct Gaps {
    last: Instant,
    killed: Instant,
    outage: Outage,
}

impl Gaps {
    fn new(now: Instant) -> Self {
        Self { last: now, killed: now, outage: Outage::default() }
    }

    fn reply(&mut self, now: Instant) {
        self.outage = self.outage_at(now);
        self.last = now;
    }

    fn kill(&mut self, now: Instant) {
        self.outage = self.outage_at(now);
        self.killed = now;
    }

    fn outage_at(&self, now: Instant) -> Outage {
        let since = |start: Instant| now.saturating_duration_since(start);
        let last =
            Outage { longest: since(self.last), undisturbed: since(self.last.max(self.killed)) };
        self.outage.max(last)
    }
}

impl Reachability {
    pub(crate) fn watch(lan: &Lan, address: &str) -> Result<Self> {
        let mut ping = lan
            .command("ping")
            .args(["-n", "-i", INTERVAL, address])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting ping")?;
        let replies = ping.stdout.take().context("ping has no output")?;
        let gaps = Arc::new(Mutex::new(Gaps::new(Instant::now())));
        let reader = std::thread::spawn({
            let gaps = Arc::clone(&gaps);
            move || {
                let lines = BufReader::new(replies).lines().map_while(Result::ok);
                for _ in lines.filter(|line| line.contains("bytes from")) {
                    lock(&gaps).reply(Instant::now());
                }
            }
        });
        Ok(Self { ping, reader: Some(reader), gaps })
    }

    /// Clears the earlier record: the node has just been powered on, or a round starts.
    pub(crate) fn restart(&self) {
        *lock(&self.gaps) = Gaps::new(Instant::now());
    }

    /// A program of the node is killed now.
    pub(crate) fn note_kill(&self) {
        lock(&self.gaps).kill(Instant::now());
    }

    /// How long there was no reply since the last call of `restart`.
    pub(crate) fn outage(&self) -> Outage {
        lock(&self.gaps).outage_at(Instant::now())
    }
}

fn lock(gaps: &Mutex<Gaps>) -> MutexGuard<'_, Gaps> {
    gaps.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reachability {
    fn drop(&mut self) {
        let _ = self.ping.kill();
        let _ = self.ping.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_includes_the_one_that_lasts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut gaps = Gaps::new(start);
        gaps.reply(at(1));
        gaps.reply(at(8));
        gaps.reply(at(9));
        assert_eq!(gaps.outage_at(at(10)).longest, Duration::from_secs(7));
        assert_eq!(gaps.outage_at(at(20)).longest, Duration::from_secs(11));
    }

    #[test]
    fn a_kill_divides_an_outage_and_does_not_shorten_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut gaps = Gaps::new(start);
        gaps.kill(at(12));
        gaps.kill(at(15));
        gaps.reply(at(20));
        let expected =
            Outage { longest: Duration::from_secs(20), undisturbed: Duration::from_secs(12) };
        assert_eq!(gaps.outage_at(at(20)), expected);
    }
}
