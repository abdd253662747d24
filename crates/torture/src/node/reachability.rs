//! How long a node is cut off from the network of its API server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::node::Lan;

/// Between two pings.
const INTERVAL: &str = "0.2";

/// Pings a node from beside its API server, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Reachability {
    ping: Child,
    reader: Option<JoinHandle<()>>,
    gaps: Arc<Mutex<Gaps>>,
}

/// The times between two replies.
#[derive(Debug, Clone, Copy)]
struct Gaps {
    last: Instant,
    longest: Duration,
}

impl Gaps {
    fn new(now: Instant) -> Self {
        Self { last: now, longest: Duration::ZERO }
    }

    fn reply(&mut self, now: Instant) {
        self.longest = self.longest_at(now);
        self.last = now;
    }

    fn longest_at(&self, now: Instant) -> Duration {
        self.longest.max(now.saturating_duration_since(self.last))
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

    /// Forgets what was before: the node has just been switched on, or a round begins.
    pub(crate) fn restart(&self) {
        *lock(&self.gaps) = Gaps::new(Instant::now());
    }

    /// The longest time without a reply since then.
    pub(crate) fn longest(&self) -> Duration {
        lock(&self.gaps).longest_at(Instant::now())
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
        assert_eq!(gaps.longest_at(at(10)), Duration::from_secs(7));
        assert_eq!(gaps.longest_at(at(20)), Duration::from_secs(11));
    }
}
