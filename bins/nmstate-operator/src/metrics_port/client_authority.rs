//! The CA that signs the certificates with which clients of the cluster's servers authenticate. The
//! cluster keeps it in a ConfigMap for all its servers.
//!
//! It is read when a client connects, and not again while it is fresh. An idle component sends no
//! requests; a watch on every node would be expensive for one change per year.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::requests::within;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";

/// How long a CA that was read is considered fresh.
const FRESH: Duration = Duration::from_secs(300);
/// The same when it did not sign the certificate of a client, or when it could not be read.
const DOUBTED: Duration = Duration::from_secs(5);
/// How long a client waits for a read that may fail.
const WAIT: Duration = Duration::from_secs(3);

pub(super) struct ClientAuthority {
    maps: Api<ConfigMap>,
    known: watch::Sender<Known>,
    wanted: Notify,
    doubted: AtomicBool,
}

/// The result of the last read.
#[derive(Debug, Clone, Default)]
struct Known {
    at: Option<Instant>,
    roots: Option<Arc<RootCertStore>>,
    problem: Option<AuthorityError>,
}

impl Known {
    /// Stores the result of a read. A CA that the cluster trusted earlier is trusted until the
    /// cluster replaces it: a failed read does not replace it.
    fn take(&mut self, read: Result<RootCertStore, AuthorityError>, now: Instant) {
        self.at = Some(now);
        match read {
            Ok(roots) => (self.roots, self.problem) = (Some(Arc::new(roots)), None),
            Err(problem @ (AuthorityError::Read(_) | AuthorityError::TooLate { .. })) => {
                self.problem = Some(problem);
            }
            Err(problem) => (self.roots, self.problem) = (None, Some(problem)),
        }
    }

    fn is_due(&self, doubted: bool, now: Instant) -> bool {
        let good = if doubted || self.problem.is_some() { DOUBTED } else { FRESH };
        self.at.is_none_or(|at| now.duration_since(at) > good)
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum AuthorityError {
    #[error("reading the ConfigMap {NAMESPACE}/{NAME}")]
    Read(#[source] Arc<kube::Error>),
    #[error("reading the ConfigMap {NAMESPACE}/{NAME}: {why}")]
    TooLate { why: String },
    #[error("the ConfigMap {NAMESPACE}/{NAME} is not there")]
    NoMap,
    #[error("the ConfigMap {NAMESPACE}/{NAME} has no {KEY}")]
    NoKey,
    #[error("{KEY} of the ConfigMap {NAMESPACE}/{NAME} holds no certificate that can be used")]
    NoCertificate,
    #[error("the ConfigMap {NAMESPACE}/{NAME} has not been read yet")]
    NotYet,
}

impl ClientAuthority {
    pub(super) fn new(client: Client) -> Self {
        Self {
            maps: Api::namespaced(client, NAMESPACE),
            known: watch::Sender::default(),
            wanted: Notify::new(),
            doubted: AtomicBool::new(false),
        }
    }

    /// Reads whenever it is requested, for as long as it is awaited.
    pub(super) async fn keep(&self) -> Infallible {
        loop {
            self.wanted.notified().await;
            // There may have been several requests at once.
            if !self.is_due() {
                continue;
            }
            let read = self.read().await;
            self.doubted.store(false, Ordering::Relaxed);
            self.known.send_modify(|known| known.take(read, Instant::now()));
        }
    }

    /// The CA that is trusted now. Without a response of the API server it is the previous one.
    pub(super) async fn trusted(&self) -> Result<Arc<RootCertStore>, AuthorityError> {
        let mut news = self.known.subscribe();
        if self.is_due() {
            self.wanted.notify_one();
            // After a failed read, clients that can use the previous CA do not wait.
            let can_do_without = news.borrow().problem.is_some() && news.borrow().roots.is_some();
            if !can_do_without {
                let _ = tokio::time::timeout(WAIT, news.changed()).await;
            }
        }
        let known = news.borrow().clone();
        known.roots.ok_or_else(|| known.problem.unwrap_or(AuthorityError::NotYet))
    }

    /// The certificate of a client is not signed by the CA: there may be a new one.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        self.known.borrow().is_due(self.doubted.load(Ordering::Relaxed), Instant::now())
    }

    async fn read(&self) -> Result<RootCertStore, AuthorityError> {
        let map = within(self.maps.get_opt(NAME))
            .await
            .map_err(|error| AuthorityError::TooLate { why: format!("{error:#}") })?
            .map_err(|error| AuthorityError::Read(Arc::new(error)))?
            .ok_or(AuthorityError::NoMap)?;
        let data = map.data.unwrap_or_default();
        let text = data.get(KEY).ok_or(AuthorityError::NoKey)?;
        roots(text).ok_or(AuthorityError::NoCertificate)
    }
}

/// The certificates in a bundle. One that cannot be used is ignored.
fn roots(text: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()).flatten() {
        if let Err(error) = roots.add(certificate) {
            tracing::warn!(
                "{KEY} of the ConfigMap {NAMESPACE}/{NAME} holds a certificate that cannot be used: {error}"
            );
        }
    }
    (!roots.is_empty()).then_some(roots)
}

#[cfg(test)]
mod tests {
    use lab::certificates::Authority;

    use super::*;

    fn authority() -> RootCertStore {
        roots(Authority::generate().unwrap().pem()).unwrap()
    }

    #[test]
    fn trust_ends_when_the_cluster_removes_it_and_not_without_a_response() {
        let now = Instant::now();
        let mut known = Known::default();
        known.take(Ok(authority()), now);
        known.take(Err(AuthorityError::TooLate { why: "away".into() }), now);
        assert!(known.roots.is_some() && known.problem.is_some());
        known.take(Ok(authority()), now);
        assert!(known.roots.is_some() && known.problem.is_none());
        for gone in [AuthorityError::NoMap, AuthorityError::NoKey, AuthorityError::NoCertificate] {
            known.take(Ok(authority()), now);
            known.take(Err(gone), now);
            assert!(known.roots.is_none());
        }
    }

    #[test]
    fn the_ca_is_read_after_minutes_and_in_doubt_after_seconds() {
        let start = Instant::now();
        let mut known = Known::default();
        assert!(known.is_due(false, start));
        known.take(Ok(authority()), start);
        for (seconds, undoubted, doubted) in [
            (0, false, false),
            (5, false, false),
            (6, false, true),
            (300, false, true),
            (301, true, true),
        ] {
            let later = start + Duration::from_secs(seconds);
            assert_eq!(known.is_due(false, later), undoubted, "{seconds} s");
            assert_eq!(known.is_due(true, later), doubted, "{seconds} s, doubted");
        }
        known.take(Err(AuthorityError::NoMap), start);
        assert!(known.is_due(false, start + Duration::from_secs(6)));
    }

    #[test]
    fn a_bundle_is_as_good_as_the_good_certificates_in_it() {
        let (one, two) = (Authority::generate().unwrap(), Authority::generate().unwrap());
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bundle = format!("# ours\n{}{bad}{}", one.pem(), two.pem());
        assert_eq!(roots(&bundle).unwrap().len(), 2);
        assert!(roots(bad).is_none() && roots("").is_none());
    }
}
