//! Requests to the API server: each has a deadline.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::{Client, Config};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(10);
/// Bookmarks come every minute, so a watch that is silent for longer is broken.
const SILENCE: Duration = Duration::from_secs(100);

/// The address of the cluster, and the timeouts of requests.
pub(crate) async fn config() -> Result<Config> {
    let mut config = Config::infer().await.context("finding the cluster")?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    Ok(config)
}

pub(crate) fn client(config: Config) -> Result<Client> {
    Client::try_from(config).context("making a client of the cluster")
}

/// A request with a deadline.
pub(crate) async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Result<T, kube::Error>> {
    tokio::time::timeout(REQUEST, request)
        .await
        .with_context(|| format!("no response from the API server within {} s", REQUEST.as_secs()))
}

/// Now, as the API writes times: in whole seconds.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A readable reason for an error: for a request that the server rejected, the server's message.
pub(crate) fn why(error: &anyhow::Error) -> String {
    let mut causes = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            causes.push(status.message.clone());
            break;
        }
        causes.push(cause.to_string());
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_has_the_message_of_the_server() {
        let status = Status::failure("namespaces \"n\" not found", "NotFound").with_code(404);
        let refused = anyhow::Error::new(kube::Error::Api(status.boxed()));
        let error = refused.context("restoring the Subscription n/s");
        assert_eq!(why(&error), "restoring the Subscription n/s: namespaces \"n\" not found");
        assert_eq!(why(&anyhow::anyhow!("a").context("b")), "b: a");
    }
}
