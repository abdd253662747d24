//! Requests to the API server: each has a deadline.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// A request with a deadline.
pub(crate) async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Result<T, kube::Error>> {
    tokio::time::timeout(REQUEST, request)
        .await
        .with_context(|| format!("no answer from the API server within {} s", REQUEST.as_secs()))
}

/// Now, as the API writes times: in whole seconds.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH)
}
