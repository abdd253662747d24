//! The server's certificate and key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The configuration for TLS.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "reading the certificate {path}: expected a PEM file with the chain, the server's own first"
    )]
    Certificate { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error(
        "{path} has no certificate; expected a PEM file with the chain, the server's own first"
    )]
    NoCertificate { path: PathBuf },
    #[error("reading the private key {path}: expected a PEM file with an unencrypted key")]
    Key { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("using the certificate {certificate} with the key {key}")]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

impl Tls {
    /// Reads a certificate chain and its key from PEM files.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let bad = |source| TlsError::Certificate { path: certificate.into(), source };
        let chain = CertificateDer::pem_file_iter(certificate)
            .map_err(bad)?
            .collect::<Result<Vec<_>, _>>()
            .map_err(bad)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: certificate.into() });
        }
        let secret = PrivateKeyDer::from_pem_file(key)
            .map_err(|source| TlsError::Key { path: key.into(), source })?;
        let pair =
            |source| TlsError::Pair { certificate: certificate.into(), key: key.into(), source };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.0
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_certificate_or_key_is_reported_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (one, two) = (made(), made());
        let certificate = write("one.crt", &one.cert.pem());
        let key = write("one.key", &one.signing_key.serialize_pem());
        let other_key = write("two.key", &two.signing_key.serialize_pem());
        let empty = write("empty", "");
        let absent = dir.path().join("absent");
        assert!(Tls::open(&certificate, &key).is_ok());
        for (certificate, key, expected) in [
            (&absent, &key, "reading the certificate"),
            (&empty, &key, "has no certificate"),
            (&certificate, &empty, "reading the private key"),
            (&certificate, &other_key, "two.key"),
        ] {
            let error = Tls::open(certificate, key).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
