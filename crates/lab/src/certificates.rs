//! A private certificate authority for loopback servers and their clients.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Names and addresses that a server certificate is good for.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate authority that nothing else trusts. A new one each time.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    servers: Servers,
}

/// What server certificates are good for.
struct Servers {
    names: Vec<String>,
    expired: bool,
}

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// Where [`Identity::write`] put things.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority.
    pub fn generate() -> Result<Self> {
        let context = "generating a certificate authority";
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Landfall lab authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context(context)?;
        let certificate = params.self_signed(&key).context(context)?;
        let servers = Servers { names: LOOPBACK.map(String::from).into(), expired: false };
        Ok(Self { pem: certificate.pem(), issuer: Issuer::new(params, key), servers })
    }

    /// From now on its server certificates are good for this host instead.
    pub fn naming_servers(mut self, name: &str) -> Self {
        self.servers.names = vec![name.to_owned()];
        self
    }

    /// From now on its server certificates ran out long ago.
    pub fn with_expired_servers(mut self) -> Self {
        self.servers.expired = true;
        self
    }

    /// The authority's certificate, for clients to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server on `localhost`, `127.0.0.1` and `::1`, unless
    /// this authority is configured otherwise.
    pub fn server(&self) -> Result<Identity> {
        let mut params = CertificateParams::new(self.servers.names.clone())
            .context("naming the server's certificate")?;
        if self.servers.expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client called `name`.
    pub fn client(&self, name: &str) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Writes what podman's `certs.d/<host>` folder holds: `ca.crt`, and for
    /// a client `client.cert` and `client.key`. skopeo's `--cert-dir` reads it.
    pub fn write_certs_dir(&self, dir: &Path, client: Option<&Identity>) -> Result<()> {
        let writing = || format!("writing certificates to {}", dir.display());
        fs::create_dir_all(dir).with_context(writing)?;
        fs::write(dir.join("ca.crt"), &self.pem).with_context(writing)?;
        if let Some(client) = client {
            fs::write(dir.join("client.cert"), &client.certificate).with_context(writing)?;
            fs::write(dir.join("client.key"), &client.key).with_context(writing)?;
        }
        Ok(())
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("generating a key")?;
        let certificate =
            params.signed_by(&key, &self.issuer).context("issuing a certificate")?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// Settings of a TLS server that presents a new certificate, and, if
    /// required, accepts only clients with a certificate of this authority.
    pub(crate) fn server_config(&self, clients: ClientCertificates) -> Result<ServerConfig> {
        let identity = self.server()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .context("choosing TLS versions")?;
        let builder = match clients {
            ClientCertificates::Ignored => builder.with_no_client_auth(),
            ClientCertificates::Required => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes())?)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .context("preparing to check client certificates")?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        builder.with_single_cert(chain, key).context("using the server's certificate")
    }
}

/// Whether a server requires a certificate of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Any client may connect.
    #[default]
    Ignored,
    /// Only clients with a certificate of the server's authority may connect.
    Required,
}

impl Identity {
    /// Writes `name.crt` and `name.key` into `dir`.
    pub fn write(&self, dir: &Path, name: &str) -> Result<CertificateFiles> {
        let files = CertificateFiles {
            certificate: dir.join(format!("{name}.crt")),
            key: dir.join(format!("{name}.key")),
        };
        for (path, content) in [(&files.certificate, &self.certificate), (&files.key, &self.key)] {
            fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(files)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}
