//! How one side of a copy talks to its registries.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::Environment;
use crate::rate_limit::RateLimiter;
use crate::retry::Retry;
use crate::upload_log::UploadLog;

/// Everything a [`Client`](crate::Client) is made from. Source and destination
/// have one each, so that what was allowed for one never holds for the other.
#[derive(Debug, Clone)]
pub struct Settings {
    pub environment: Environment,
    pub side: Side,
    /// `false`: certificates are not checked, and plain HTTP is used for a
    /// registry that does not respond with TLS.
    pub tls_verify: bool,
    pub credentials: CredentialSource,
    /// A directory with `*.crt`, `*.cert` and `*.key` files, used for every
    /// registry of this side in place of the `certs.d` directories.
    pub cert_dir: Option<PathBuf>,
    pub retry: Retry,
    /// Requests in progress at one registry, of each kind: small ones (manifests,
    /// lookups) and transfers of blobs.
    pub per_host: NonZeroUsize,
    pub timeouts: Timeouts,
    /// Limits on the rate of transfers; all of them apply. A limiter that is part of several
    /// settings counts the bytes of all.
    pub limits: Vec<RateLimiter>,
    /// Remembers uploads, so that another process continues them.
    pub uploads: Option<Arc<dyn UploadLog>>,
    pub user_agent: String,
}

/// Which end of a copy a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reads: the mirrors of `registries.conf` are tried before the registry.
    Source,
    /// Is written to: never a mirror, only the registry itself.
    Destination,
}

/// Where credentials come from.
#[derive(Clone, Default)]
pub enum CredentialSource {
    /// `REGISTRY_AUTH_FILE`, else the files of podman and docker.
    #[default]
    Search,
    /// This file alone. It must exist.
    File(PathBuf),
    /// One user for all registries of the side.
    User { name: String, password: String },
    /// A bearer token for all registries of the side.
    Token(String),
    /// None, even where a file has some.
    Anonymous,
}

/// How long to wait, for what. There is no limit on the whole of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, with its TLS handshake.
    pub connect: Duration,
    /// For the next bytes, in either direction, and for the response to a request.
    pub stall: Duration,
    /// For the response after the last byte of an upload: the registry checks
    /// and stores the whole blob then.
    pub commit: Duration,
}

impl Settings {
    /// Settings as the command line's defaults have them.
    pub fn new(environment: Environment, side: Side) -> Self {
        Self {
            environment,
            side,
            tls_verify: true,
            credentials: CredentialSource::Search,
            cert_dir: None,
            retry: Retry::default(),
            per_host: const { NonZeroUsize::new(16).unwrap() },
            timeouts: Timeouts::default(),
            limits: Vec::new(),
            uploads: None,
            user_agent: concat!("oc-mirror/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            commit: Duration::from_secs(600),
        }
    }
}

impl CredentialSource {
    /// `user:password`, as `--src-creds` and `--dest-creds` have it. `None`
    /// where the user is missing; a missing password is an empty one.
    pub fn from_pair(text: &str) -> Option<Self> {
        let (name, password) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return None;
        }
        Some(Self::User { name: name.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Search => f.write_str("Search"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::User { name, .. } => {
                f.debug_struct("User").field("name", name).finish_non_exhaustive()
            }
            Self::Token(_) => f.write_str("Token(…)"),
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_at_its_first_colon_and_its_password_is_not_printed() {
        let Some(pair) = CredentialSource::from_pair("me:se:cret") else { panic!() };
        assert!(
            matches!(&pair, CredentialSource::User { name, password } if name == "me" && password == "se:cret")
        );
        assert!(!format!("{pair:?}").contains("cret"));
        assert!(CredentialSource::from_pair(":x").is_none());
        let token = CredentialSource::Token("hush".into());
        assert!(!format!("{token:?}").contains("hush"));
    }
}
