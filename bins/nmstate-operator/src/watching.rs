//! The log message for a watch that was interrupted. It resumes by itself after a while.

use std::error::Error;
use std::io;

use kube::runtime::watcher;

/// A server sends nothing on the watch of a kind that never had any event, not even an
/// acknowledgement; such a watch is reopened from time to time, which is not reported.
pub(crate) fn lost(error: &watcher::Error) {
    if is_silence(error) {
        tracing::debug!("nothing was heard of the cluster for a while; asking again");
    } else {
        tracing::warn!("watching the cluster: {error}");
    }
}

fn is_silence(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        // An I/O error displays the error that it contains, which its `source` omits.
        let inner = io.and_then(io::Error::get_ref).map(|inner| inner as &(dyn Error + 'static));
        next = inner.or_else(|| error.source());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: io::Error) -> watcher::Error {
        watcher::Error::WatchFailed(kube::Error::ReadEvents(error))
    }

    #[test]
    fn an_idle_watch_is_distinguished_from_a_lost_one() {
        let quiet = || io::Error::new(io::ErrorKind::TimedOut, "nothing came");
        assert!(is_silence(&failed(quiet())));
        assert!(is_silence(&failed(io::Error::other(quiet()))));
        assert!(!is_silence(&failed(io::Error::other("broken"))));
        assert!(!is_silence(&failed(io::ErrorKind::ConnectionReset.into())));
    }
}
