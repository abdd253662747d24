//! Whom to trust as which registry: system roots, `certs.d` directories, and
//! the client certificates kept there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::environment::Environment;

#[derive(Debug, Clone, thiserror::Error)]
pub enum TlsError {
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: Arc<io::Error>,
    },
    #[error("{} holds no usable certificate in PEM form: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("{} holds no usable private key in PEM form: {why}", path.display())]
    Key { path: PathBuf, why: String },
    #[error("{} has no {} beside it; a client certificate needs both", path.display(), missing.display())]
    Pair { path: PathBuf, missing: PathBuf },
    #[error("the certificates of the system cannot be read: {0}")]
    System(String),
    #[error(
        "no certificates to trust were found on this system; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoRoots,
    #[error("setting up TLS: {0}")]
    Setup(String),
}

/// Makes TLS settings for hosts.
#[derive(Debug)]
pub(crate) struct Trust {
    provider: Arc<CryptoProvider>,
    cert_dir: Option<PathBuf>,
    certs_d: Vec<PathBuf>,
    ssl_cert_file: Option<PathBuf>,
    ssl_cert_dir: Option<PathBuf>,
    /// Read when the first host needs them, shared by all that need no more.
    roots: OnceLock<Result<Arc<RootCertStore>, TlsError>>,
}

/// What a directory of `certs.d` has for one host.
#[derive(Debug, Default)]
struct HostCertificates {
    authorities: Vec<(PathBuf, CertificateDer<'static>)>,
    identity: Option<(PathBuf, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Trust {
    pub(crate) fn new(environment: &Environment, cert_dir: Option<PathBuf>) -> Self {
        let certs_d = [
            environment.user_containers("certs.d"),
            Some(environment.system_containers("certs.d")),
            Some(environment.system_docker("certs.d")),
        ];
        Self {
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            cert_dir,
            certs_d: certs_d.into_iter().flatten().collect(),
            ssl_cert_file: environment.ssl_cert_file.clone(),
            ssl_cert_dir: environment.ssl_cert_dir.clone(),
            roots: OnceLock::new(),
        }
    }

    /// Settings for a host, without ALPN. `host` is as in a reference:
    /// `quay.io`, `registry.lan:5000`.
    pub(crate) fn config(&self, host: &str, verify: bool) -> Result<ClientConfig, TlsError> {
        let own = match self.directory(host)? {
            Some(dir) => HostCertificates::open(&dir)?,
            None => HostCertificates::default(),
        };
        let setup = |error: &dyn std::fmt::Display| TlsError::Setup(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| setup(&error))?
            .dangerous();
        let builder = if verify {
            let roots = self.roots_with(&own.authorities)?;
            let provider = Arc::clone(&self.provider);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| setup(&error))?;
            builder.with_custom_certificate_verifier(verifier)
        } else {
            let verifier = Unverified(self.provider.clone());
            builder.with_custom_certificate_verifier(Arc::new(verifier))
        };
        match own.identity {
            None => Ok(builder.with_no_client_auth()),
            Some((path, chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| TlsError::Key { path, why: error.to_string() }),
        }
    }

    /// Where the host's own certificates are: the first directory that exists.
    fn directory(&self, host: &str) -> Result<Option<PathBuf>, TlsError> {
        if let Some(dir) = &self.cert_dir {
            let own = dir.join(host);
            let chosen = if own.is_dir() { own } else { dir.clone() };
            // Named by the user, so it must be readable.
            let read = std::fs::read_dir(&chosen);
            return read.map(|_| Some(chosen)).map_err(|error| read_error(dir, error));
        }
        Ok(self.certs_d.iter().map(|dir| dir.join(host)).find(|dir| dir.is_dir()))
    }

    fn roots_with(
        &self,
        more: &[(PathBuf, CertificateDer<'static>)],
    ) -> Result<Arc<RootCertStore>, TlsError> {
        let system = self.roots.get_or_init(|| self.system_roots()).clone()?;
        if more.is_empty() {
            return if system.is_empty() { Err(TlsError::NoRoots) } else { Ok(system) };
        }
        let mut roots = RootCertStore::clone(&system);
        for (path, certificate) in more {
            roots.add(certificate.clone()).map_err(|error| TlsError::Certificate {
                path: path.clone(),
                why: error.to_string(),
            })?;
        }
        Ok(Arc::new(roots))
    }

    fn system_roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let named = (self.ssl_cert_file.as_deref(), self.ssl_cert_dir.as_deref());
        let loaded = match named {
            (None, None) => rustls_native_certs::load_native_certs(),
            (file, dir) => rustls_native_certs::load_certs_from_paths(file, dir),
        };
        // One odd file among the system's hundreds is not a reason to stop; a
        // file that was named is.
        let named = named != (None, None);
        if let Some(error) = loaded.errors.first().filter(|_| named || loaded.certs.is_empty()) {
            return Err(TlsError::System(error.to_string()));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(loaded.certs);
        Ok(Arc::new(roots))
    }
}

impl HostCertificates {
    fn open(dir: &Path) -> Result<Self, TlsError> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(|error| read_error(dir, error))?;
        files.sort();
        let mut own = Self::default();
        for path in files {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("crt") => {
                    let chain = certificates(&path)?;
                    own.authorities.extend(chain.into_iter().map(|one| (path.clone(), one)));
                }
                Some("cert") => {
                    let key = path.with_extension("key");
                    if !key.exists() {
                        return Err(TlsError::Pair { path, missing: key });
                    }
                    let chain = certificates(&path)?;
                    own.identity = Some((key.clone(), chain, private_key(&key)?));
                }
                Some("key") if !path.with_extension("cert").exists() => {
                    let missing = path.with_extension("cert");
                    return Err(TlsError::Pair { path, missing });
                }
                _ => {}
            }
        }
        Ok(own)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |why: String| TlsError::Certificate { path: path.into(), why };
    let pem = std::fs::read(path).map_err(|error| read_error(path, error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| bad(error.to_string()))?;
    if chain.is_empty() { Err(bad("it has no certificate".into())) } else { Ok(chain) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = std::fs::read(path).map_err(|error| read_error(path, error))?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| TlsError::Key { path: path.into(), why: error.to_string() })
}

fn read_error(path: &Path, error: io::Error) -> TlsError {
    TlsError::Read { path: path.into(), source: Arc::new(error) }
}

/// Takes every certificate: for hosts whose verification was switched off.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(root: &Path) -> Trust {
        let environment = Environment { system_root: root.into(), ..Environment::default() };
        Trust::new(&environment, None)
    }

    fn identity() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_bad_file_is_an_error_that_names_it() {
        let (certificate, key) = identity();
        for (files, expected) in [
            (&[("ca.crt", "nonsense")][..], "ca.crt holds no usable certificate"),
            (&[("me.cert", &certificate)], "me.key beside it"),
            (&[("me.key", &key)], "me.cert beside it"),
            (
                &[("me.cert", &certificate), ("me.key", "nonsense")],
                "me.key holds no usable private key",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("etc/containers/certs.d/host:5000");
            std::fs::create_dir_all(&dir).unwrap();
            for (name, text) in files {
                std::fs::write(dir.join(name), text).unwrap();
            }
            let error = trust(root.path()).config("host:5000", false).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(trust(root.path()).config("host:5001", false).is_ok());
        }
    }

    #[test]
    fn client_certificates_and_authorities_of_a_host_are_taken() {
        let (certificate, key) = identity();
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("etc/docker/certs.d/host");
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("ca.crt", &certificate), ("me.cert", &certificate), ("me.key", &key)]
        {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let config = trust(root.path()).config("host", true).unwrap();
        assert!(config.client_auth_cert_resolver.has_certs());
    }

    #[test]
    fn a_directory_that_was_named_must_be_there() {
        let trust = Trust::new(&Environment::default(), Some("/nowhere".into()));
        assert!(trust.config("host", false).unwrap_err().to_string().contains("/nowhere"));
    }
}
