//! How many requests one registry gets at a time. A registry that responds that it has
//! too much to do gets no requests for as long as it states, then half as many
//! at once, and slowly more again while it responds well.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Small requests never queue behind large transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Small = 0,
    Transfer = 1,
}

#[derive(Debug)]
pub(crate) struct Throttle {
    most: usize,
    state: Mutex<State>,
    freed: [Notify; 2],
}

#[derive(Debug)]
struct State {
    limit: usize,
    in_flight: [usize; 2],
    paused_until: Option<Instant>,
    /// Goes up each time the limit is halved: many requests are refused at
    /// once, and that is one reason to slow down, not many.
    halvings: u64,
    succeeded: usize,
}

/// The right to send one request. Returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    throttle: Arc<Throttle>,
    lane: Lane,
    halvings: u64,
}

enum Entry {
    Granted(u64),
    Full,
    Paused(Instant),
}

impl Throttle {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let state =
            State { limit: most, in_flight: [0; 2], paused_until: None, halvings: 0, succeeded: 0 };
        Arc::new(Self { most, state: Mutex::new(state), freed: [Notify::new(), Notify::new()] })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn enter(self: &Arc<Self>, lane: Lane) -> Permit {
        loop {
            let mut freed = std::pin::pin!(self.freed[lane as usize].notified());
            // In line before looking, so that no release is missed in between.
            freed.as_mut().enable();
            let entry = self.state().enter(lane, Instant::now());
            match entry {
                Entry::Granted(halvings) => {
                    return Permit { throttle: Arc::clone(self), lane, halvings };
                }
                Entry::Full => freed.await,
                Entry::Paused(until) => sleep_until(until).await,
            }
        }
    }
}

impl State {
    fn enter(&mut self, lane: Lane, now: Instant) -> Entry {
        match self.paused_until {
            Some(until) if until > now => return Entry::Paused(until),
            _ => self.paused_until = None,
        }
        let in_flight = &mut self.in_flight[lane as usize];
        if *in_flight >= self.limit {
            return Entry::Full;
        }
        *in_flight += 1;
        Entry::Granted(self.halvings)
    }

    fn pause(&mut self, until: Instant) {
        self.paused_until = Some(self.paused_until.map_or(until, |other| other.max(until)));
    }

    fn halve(&mut self, seen: u64) {
        if seen == self.halvings {
            self.halvings += 1;
            self.limit = (self.limit / 2).max(1);
            self.succeeded = 0;
        }
    }

    /// One more at a time after as many successful responses as there are places.
    fn recover(&mut self, most: usize) -> bool {
        if self.limit >= most {
            return false;
        }
        self.succeeded += 1;
        let grown = self.succeeded >= self.limit;
        if grown {
            self.succeeded = 0;
            self.limit += 1;
        }
        grown
    }
}

impl Permit {
    /// The registry responded with 429.
    pub(crate) fn too_many(&self, stay_away: Option<Duration>) {
        let mut state = self.throttle.state();
        state.halve(self.halvings);
        if let Some(stay_away) = stay_away {
            state.pause(Instant::now() + stay_away);
        }
    }

    /// The registry responded that it is not available until later.
    pub(crate) fn stay_away(&self, stay_away: Duration) {
        self.throttle.state().pause(Instant::now() + stay_away);
    }

    pub(crate) fn succeeded(&self) {
        if self.throttle.state().recover(self.throttle.most) {
            self.throttle.freed.iter().for_each(Notify::notify_one);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.throttle.state().in_flight[self.lane as usize] -= 1;
        self.throttle.freed[self.lane as usize].notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(throttle: &Throttle) -> usize {
        throttle.state().limit
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_waits_for_a_place_and_leaves_the_other_lane_alone() {
        let throttle = Throttle::new(1);
        let first = throttle.enter(Lane::Transfer).await;
        let waited = tokio::time::timeout(Duration::from_secs(9), throttle.enter(Lane::Transfer));
        assert!(waited.await.is_err());
        drop(throttle.enter(Lane::Small).await);
        drop(first);
        throttle.enter(Lane::Transfer).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_refusals_halves_once_and_good_responses_restore_the_limit() {
        let throttle = Throttle::new(8);
        let mut permits = Vec::new();
        for _ in 0..4 {
            permits.push(throttle.enter(Lane::Small).await);
        }
        permits.iter().for_each(|permit| permit.too_many(None));
        assert_eq!(limit(&throttle), 4);
        drop(permits);
        let later = throttle.enter(Lane::Small).await;
        later.too_many(None);
        assert_eq!(limit(&throttle), 2);
        for _ in 0..2 {
            later.succeeded();
        }
        assert_eq!(limit(&throttle), 3);
        for _ in 0..100 {
            later.succeeded();
        }
        assert_eq!(limit(&throttle), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_starts_while_the_registry_requests_a_pause() {
        let throttle = Throttle::new(2);
        throttle.enter(Lane::Small).await.stay_away(Duration::from_secs(30));
        let start = Instant::now();
        let _both = (throttle.enter(Lane::Small).await, throttle.enter(Lane::Transfer).await);
        assert_eq!(start.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_gives_up_waiting_does_not_lose_the_place_of_the_next() {
        let throttle = Throttle::new(1);
        let held = throttle.enter(Lane::Small).await;
        let mut gives_up = Box::pin(throttle.enter(Lane::Small));
        let mut stays = Box::pin(throttle.enter(Lane::Small));
        assert!(futures_util::poll!(gives_up.as_mut()).is_pending());
        assert!(futures_util::poll!(stays.as_mut()).is_pending());
        drop(held);
        drop(gives_up);
        assert!(tokio::time::timeout(Duration::from_secs(1), stays).await.is_ok());
    }
}
