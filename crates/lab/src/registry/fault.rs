//! How the registry misbehaves, on demand.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;

/// One kind of misbehaviour: which requests it meets, how often, and what
/// happens to them. Made with [`Fault::on`] or [`Fault::on_any`].
///
/// Faults are tried in the order they were added, and all that match a
/// request apply to it.
#[derive(Debug, Clone)]
pub struct Fault {
    method: Option<Method>,
    path_part: String,
    spared: usize,
    left: Option<usize>,
    effect: Effect,
}

/// A fault that still lacks its effect.
#[derive(Debug, Clone)]
pub struct FaultOn(Fault);

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Reads the request, responds with this status, these headers and this body, and does nothing
    /// else.
    Status(u16, Vec<(String, String)>, String),
    /// Redirects with 307 to the same path below this address (`http://127.0.0.1:1234`).
    RedirectTo(String),
    /// Closes the connection without a response.
    DropConnection,
    /// Reads this much of the request's body, then closes the connection.
    CutRequestAfter(u64),
    /// Keeps this much of an upload's body, then closes the connection.
    KeepThenCut(u64),
    /// Waits, then continues.
    Delay(Duration),
    /// Invalidates all tokens it issued, then continues.
    ExpireTokensNow,
    /// Announces the whole body, sends this much, and closes the connection.
    CutAfter(u64),
    /// Announces the whole body, sends this much, and then nothing more.
    StallAfter(u64),
    /// Flips a bit in the first byte of the body.
    WrongBytes,
    /// Sends this much more than there is.
    ExtraBytes(u64),
    /// Claims another digest in `Docker-Content-Digest`.
    WrongDigestHeader,
    /// Claims this content type.
    WrongContentType(String),
    /// Sends the body at this pace.
    SlowBytesPerSecond(u64),
    /// Sends the whole blob with 200 where a range was requested.
    IgnoreRange,
}

impl Fault {
    /// A fault of requests of this method whose path and query contain `path_part`.
    pub fn on(method: Method, path_part: &str) -> FaultOn {
        FaultOn(Self { method: Some(method), ..Self::new(path_part) })
    }

    /// A fault of requests of any method whose path and query contain `path_part`.
    pub fn on_any(path_part: &str) -> FaultOn {
        FaultOn(Self::new(path_part))
    }

    fn new(path_part: &str) -> Self {
        let effect = Effect::DropConnection;
        Self { method: None, path_part: path_part.into(), spared: 0, left: None, effect }
    }
}

impl FaultOn {
    /// Meets only so many requests. Without this, all.
    pub fn times(mut self, times: usize) -> Self {
        self.0.left = Some(times);
        self
    }

    /// Spares the first so many requests.
    pub fn after(mut self, spared: usize) -> Self {
        self.0.spared = spared;
        self
    }

    /// What happens to them.
    pub fn does(self, effect: Effect) -> Fault {
        Fault { effect, ..self.0 }
    }
}

impl Effect {
    /// A refusal in the way of the distribution API, without headers.
    pub fn status(code: u16) -> Self {
        let body = r#"{"errors":[{"code":"LAB_FAULT","message":"a configured fault"}]}"#;
        Self::Status(code, vec![("content-type".into(), "application/json".into())], body.into())
    }

    /// 429 with `Retry-After` in seconds and, as quay.io has sent it, a page of HTML.
    pub fn too_many_requests(retry_after: u64) -> Self {
        let headers = vec![
            ("retry-after".into(), retry_after.to_string()),
            ("content-type".into(), "text/html".into()),
        ];
        Self::Status(
            429,
            headers,
            "<html><body><h1>429 Too Many Requests</h1></body></html>".into(),
        )
    }
}

/// The faults that are set, and how often each still meets a request.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// The effects on a request, counting it.
    pub(crate) fn meet(&self, method: &Method, path: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for fault in self.lock().iter_mut() {
            let met = fault.method.as_ref().is_none_or(|m| m == method)
                && path.contains(&fault.path_part);
            if !met || fault.left == Some(0) {
                continue;
            }
            if fault.spared > 0 {
                fault.spared -= 1;
                continue;
            }
            if let Some(left) = &mut fault.left {
                *left -= 1;
            }
            effects.push(fault.effect.clone());
        }
        effects
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_spares_the_first_meets_the_next_and_then_is_spent() {
        let faults = Faults::default();
        faults.add(Fault::on(Method::GET, "/blobs/").after(1).times(2).does(Effect::WrongBytes));
        let met = |method, path| faults.meet(&method, path).len();
        assert_eq!(met(Method::HEAD, "/v2/a/blobs/x"), 0);
        assert_eq!(met(Method::GET, "/v2/a/manifests/x"), 0);
        assert_eq!(met(Method::GET, "/v2/a/blobs/x"), 0);
        assert_eq!(met(Method::GET, "/v2/a/blobs/x"), 1);
        assert_eq!(met(Method::GET, "/v2/a/blobs/x"), 1);
        assert_eq!(met(Method::GET, "/v2/a/blobs/x"), 0);
    }
}
