//! The requests to the registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Method};
use oci::Digest;

/// One request and its result.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query, as they were sent.
    pub path: String,
    /// All its headers.
    pub headers: HeaderMap,
    /// The status of the response; 0 when the connection was dropped instead.
    pub status: u16,
    /// Bytes of body that were sent back. Of a cut response, the bytes that were sent count.
    pub sent: u64,
}

impl Request {
    /// Whether it has credentials or a token.
    pub fn had_authorization(&self) -> bool {
        self.headers.contains_key(http::header::AUTHORIZATION)
    }
}

/// The requests so far, in the order of their responses.
#[derive(Debug, Clone, Default)]
pub struct Requests(pub Vec<Request>);

impl Requests {
    /// How many there were.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those of this method whose path and query contain `part`.
    pub fn of(&self, method: &Method, part: &str) -> impl Iterator<Item = &Request> {
        self.0.iter().filter(move |r| r.method == *method && r.path.contains(part))
    }

    /// How many requested headers only.
    pub fn heads(&self) -> usize {
        self.of(&Method::HEAD, "").count()
    }

    /// How many requested a manifest with its body.
    pub fn manifest_gets(&self) -> usize {
        self.of(&Method::GET, "/manifests/").count()
    }

    /// How many requested this blob.
    pub fn blob_gets(&self, digest: &Digest) -> usize {
        self.of(&Method::GET, &format!("/blobs/{digest}")).count()
    }

    /// How many sent this blob whole.
    pub fn blob_puts(&self, digest: &Digest) -> usize {
        let query = format!("digest={digest}").replace(':', "%3A");
        let plain = format!("digest={digest}");
        self.of(&Method::PUT, "/blobs/uploads/")
            .filter(|r| r.path.contains(&query) || r.path.contains(&plain))
            .count()
    }

    /// How many requested to mount this blob from another repository.
    pub fn mounts(&self, digest: &Digest) -> usize {
        self.of(&Method::POST, &format!("mount={digest}").replace(':', "%3A")).count()
            + self.of(&Method::POST, &format!("mount={digest}")).count()
    }

    /// All bytes of body that were sent back.
    pub fn bytes_sent(&self) -> u64 {
        self.0.iter().map(|request| request.sent).sum()
    }
}

/// The log that is still being written.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Mutex<Vec<(Request, Arc<AtomicU64>)>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    disturbed: AtomicUsize,
}

/// A request in flight, until its response is sent or dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    log: Arc<Log>,
    sent: Arc<AtomicU64>,
}

impl Log {
    pub(crate) fn arrived(self: &Arc<Self>) -> InFlight {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        InFlight { log: self.clone(), sent: Arc::default() }
    }

    pub(crate) fn requests(&self) -> Requests {
        let entries = self.entries();
        let finish = |(request, sent): &(Request, Arc<AtomicU64>)| Request {
            sent: sent.load(Ordering::SeqCst),
            ..request.clone()
        };
        Requests(entries.iter().map(finish).collect())
    }

    pub(crate) fn clear(&self) {
        self.entries().clear();
        self.most_in_flight.store(self.in_flight.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Counts a request that met a fault, before the fault has its effect.
    pub(crate) fn disturb(&self) {
        self.disturbed.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn disturbed(&self) -> usize {
        self.disturbed.load(Ordering::SeqCst)
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.most_in_flight.load(Ordering::SeqCst)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(Request, Arc<AtomicU64>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlight {
    pub(crate) fn responded(&self, request: Request) {
        self.log.entries().push((request, self.sent.clone()));
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::SeqCst);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.log.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
