//! The route to a host: through which proxy, and whether the host has responded before.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures within this time of the first count as the same: requests in parallel fail together,
/// and each of them may be retried.
const FIRST_FAILURES: Duration = Duration::from_secs(1);

/// A host that let a connection time out before it ever responded is not contacted for this long:
/// each request would wait for the whole limit again.
const GIVEN_UP_FOR: Duration = Duration::from_secs(60);

/// How a request travelled, for messages and for the number of retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The proxy's address without credentials, and the variable that names it.
    pub proxy: Option<Arc<str>>,
    pub contact: Contact,
}

/// What is known about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// It responded earlier in this run.
    Established,
    /// It did not respond yet.
    New,
    /// It did not respond, and an earlier request was already retried.
    Failed,
}

impl Contact {
    /// How often a failed connection is retried at most. A host that responded before gets all
    /// the retries of the settings: a link may be down for a while.
    pub(crate) fn most_retries(self) -> u32 {
        match self {
            Self::Established => u32::MAX,
            Self::New => 1,
            Self::Failed => 0,
        }
    }
}

/// Ends a sentence such as "no connection".
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.proxy {
            Some(proxy) => write!(f, " through the proxy {proxy}"),
            None => Ok(()),
        }
    }
}

/// The hosts of a run, by name and port.
#[derive(Debug, Default)]
pub(crate) struct Contacts {
    hosts: Mutex<HashMap<String, State>>,
    /// Hosts that the user was informed about.
    announced: Mutex<HashSet<String>>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Responded,
    FailedSince(Instant),
    /// It did not accept a connection within the limit, at this time.
    TimedOut(Instant),
}

impl Contacts {
    /// Records a response. True for the first one of a host.
    pub(crate) fn responded(&self, host: &str) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        match hosts.get_mut(host) {
            Some(State::Responded) => false,
            Some(state) => {
                *state = State::Responded;
                true
            }
            None => {
                hosts.insert(host.to_owned(), State::Responded);
                true
            }
        }
    }

    /// Records a failure, and returns what was known before it.
    pub(crate) fn failed(&self, host: &str, now: Instant) -> Contact {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        match hosts.entry(host.to_owned()).or_insert(State::FailedSince(now)) {
            State::Responded => Contact::Established,
            State::FailedSince(first) if now.duration_since(*first) <= FIRST_FAILURES => {
                Contact::New
            }
            State::FailedSince(_) | State::TimedOut(_) => Contact::Failed,
        }
    }

    /// Records a connection that was not accepted in time. A host that never responded is given up
    /// for a while.
    pub(crate) fn timed_out(&self, host: &str, now: Instant) -> Contact {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        match hosts.get(host) {
            Some(State::Responded) => Contact::Established,
            _ => {
                hosts.insert(host.to_owned(), State::TimedOut(now));
                Contact::Failed
            }
        }
    }

    /// Whether a request to this host would only wait for the limit again.
    pub(crate) fn is_given_up(&self, host: &str, now: Instant) -> bool {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(hosts.get(host), Some(State::TimedOut(at)) if now.duration_since(*at) < GIVEN_UP_FOR)
    }

    /// Whether the user has not been informed yet that this host does not respond.
    pub(crate) fn is_first_wait(&self, host: &str) -> bool {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        !self.has_responded(host) && announced.insert(host.to_owned())
    }

    /// Whether the host responded earlier in this run.
    pub(crate) fn has_responded(&self, host: &str) -> bool {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(hosts.get(host), Some(State::Responded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_never_responded_is_retried_once_and_one_that_did_as_often_as_allowed() {
        let contacts = Contacts::default();
        let now = Instant::now();
        assert_eq!(contacts.failed("a", now), Contact::New);
        assert_eq!(contacts.failed("a", now + FIRST_FAILURES / 2), Contact::New);
        assert_eq!(contacts.failed("a", now + FIRST_FAILURES * 2), Contact::Failed);
        assert_eq!(contacts.failed("b", now), Contact::New);
        assert!(contacts.responded("a") && !contacts.responded("a"));
        assert_eq!(contacts.failed("a", now + FIRST_FAILURES * 3), Contact::Established);
    }

    #[test]
    fn a_host_that_let_a_connection_time_out_is_given_up_for_a_while_unless_it_responded() {
        let contacts = Contacts::default();
        let now = Instant::now();
        assert!(!contacts.is_given_up("a", now));
        assert_eq!(contacts.timed_out("a", now), Contact::Failed);
        assert!(contacts.is_given_up("a", now + GIVEN_UP_FOR / 2));
        assert!(!contacts.is_given_up("a", now + GIVEN_UP_FOR * 2));
        contacts.responded("b");
        assert_eq!(contacts.timed_out("b", now), Contact::Established);
        assert!(!contacts.is_given_up("b", now) && contacts.has_responded("b"));
    }
}
