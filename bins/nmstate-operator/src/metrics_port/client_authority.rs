//! The authority by whose certificates clients of the cluster's servers show who they are. The
//! cluster keeps it in a ConfigMap for all who serve something.
//!
//! It is read when somebody connects, and for as long as it is fresh not again: an idle part asks
//! for nothing, and a watch on every node would be a dear way to learn of a change once a year.

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

/// How long what was read is good.
const FRESH: Duration = Duration::from_secs(300);
/// The same when somebody came whom it does not vouch for, or when it could not be read.
const DOUBTED: Duration = Duration::from_secs(5);
/// How long a client waits for a look that may fail.
const WAIT: Duration = Duration::from_secs(3);

pub(super) struct ClientAuthority {
    maps: Api<ConfigMap>,
    known: watch::Sender<Known>,
    wanted: Notify,
    doubted: AtomicBool,
}

/// What the last look gave.
#[derive(Debug, Clone, Default)]
struct Known {
    at: Option<Instant>,
    roots: Option<Arc<RootCertStore>>,
    problem: Option<AuthorityError>,
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

    /// Reads whenever it is asked to, for as long as it is awaited.
    pub(super) async fn keep(&self) -> Infallible {
        loop {
            self.wanted.notified().await;
            // Several may have asked at once.
            if !self.is_due(&self.known.borrow()) {
                continue;
            }
            let read = self.read().await;
            self.doubted.store(false, Ordering::Relaxed);
            self.known.send_modify(|known| {
                known.at = Some(Instant::now());
                match read {
                    Ok(roots) => (known.roots, known.problem) = (Some(Arc::new(roots)), None),
                    // Whom the cluster trusted a while ago is trusted until it says otherwise.
                    Err(problem @ (AuthorityError::Read(_) | AuthorityError::TooLate { .. })) => {
                        known.problem = Some(problem);
                    }
                    Err(problem) => (known.roots, known.problem) = (None, Some(problem)),
                }
            });
        }
    }

    /// Who vouches for clients now. Without an answer of the API server it is who did before.
    pub(super) async fn trusted(&self) -> Result<Arc<RootCertStore>, AuthorityError> {
        let mut news = self.known.subscribe();
        let due = self.is_due(&news.borrow_and_update());
        if due {
            self.wanted.notify_one();
            // A look that failed before is not waited for by those who can do without.
            let failed = news.borrow().problem.is_some() && news.borrow().roots.is_some();
            if !failed {
                let _ = tokio::time::timeout(WAIT, news.changed()).await;
            }
        }
        let known = news.borrow().clone();
        known.roots.ok_or_else(|| known.problem.unwrap_or(AuthorityError::NotYet))
    }

    /// Somebody came whom nobody vouches for: perhaps there is a new authority.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    fn is_due(&self, known: &Known) -> bool {
        let doubted = self.doubted.load(Ordering::Relaxed) || known.problem.is_some();
        let good = if doubted { DOUBTED } else { FRESH };
        known.at.is_none_or(|at| at.elapsed() > good)
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

/// The certificates in a bundle. One that cannot be used vouches for nobody; the others do.
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

    #[test]
    fn a_bundle_is_as_good_as_the_good_certificates_in_it() {
        let (one, two) = (Authority::generate().unwrap(), Authority::generate().unwrap());
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bundle = format!("# ours\n{}{bad}{}", one.pem(), two.pem());
        assert_eq!(roots(&bundle).unwrap().len(), 2);
        assert!(roots(bad).is_none() && roots("").is_none());
    }
}
