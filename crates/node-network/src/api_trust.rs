//! Verification of the API server's identity: a connection alone may reach only a load balancer.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::message::Message;
use crate::probe::Endpoint;

/// The CAs with which the certificate of an API server is verified.
#[derive(Clone)]
pub struct ApiTrust {
    connector: TlsConnector,
    /// The name in its certificate, if that is not the host of the endpoint.
    server_name: Option<String>,
}

impl std::fmt::Debug for ApiTrust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiTrust").finish_non_exhaustive()
    }
}

/// CAs that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("reading the certificate authorities of the API server")]
pub struct ApiTrustError(#[from] rustls::Error);

impl ApiTrust {
    /// Trusts these CAs, as DER.
    ///
    /// # Errors
    ///
    /// If one of them is not a certificate.
    pub fn new(
        authorities: impl IntoIterator<Item = Vec<u8>>,
        server_name: Option<String>,
    ) -> Result<Self, ApiTrustError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(CertificateDer::from(authority))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server_name })
    }

    /// Sends a request and reads the status of the response. An API server that rejects the request,
    /// which is not authenticated, is there; one that is not ready, or something in front of it that
    /// cannot reach it, reports an error of its own.
    pub(crate) async fn probe(
        &self,
        endpoint: &Endpoint,
        stream: TcpStream,
    ) -> Result<Message, Message> {
        let host = self.server_name.as_deref().unwrap_or(&endpoint.host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Message::new(format!("{host} is not a name of a server")))?;
        let message = |error: std::io::Error| Message::new(error.to_string());
        let mut stream = self.connector.connect(name, stream).await.map_err(message)?;
        let request = format!("GET /readyz HTTP/1.0\r\nHost: {}\r\n\r\n", endpoint.host);
        stream.write_all(request.as_bytes()).await.map_err(message)?;
        stream.flush().await.map_err(message)?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < 100 {
            let mut part = [0; 100];
            match stream.read(&mut part).await.map_err(message)? {
                0 => break,
                read => line.extend_from_slice(&part[..read]),
            }
        }
        match status(&line) {
            Some(code) if code < 500 => Ok("responded".into()),
            Some(code) => Err(format!("it responded with status {code}").into()),
            None => Err("it did not respond in HTTP".into()),
        }
    }
}

fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line.split(|byte| *byte == b'\r').next()?).ok()?;
    let (version, rest) = line.split_once(' ')?;
    version.strip_prefix("HTTP/")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::probe::{Check, CheckProbes, Probe, Target, When};
    use crate::reach;

    struct Authority {
        certificate: Vec<u8>,
        server: Arc<ServerConfig>,
    }

    /// A CA and a server for 127.0.0.1 with a certificate of it.
    fn authority() -> Authority {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        let issuer = rcgen::Issuer::new(parameters, key);
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        Authority { certificate: certificate.der().to_vec(), server: Arc::new(server) }
    }

    /// Serves one connection with this response, over TLS if there is a configuration for it.
    async fn serve(tls: Option<Arc<ServerConfig>>, response: &'static str) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1000];
            match tls {
                Some(config) => {
                    let Ok(mut stream) = TlsAcceptor::from(config).accept(stream).await else {
                        return;
                    };
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(response.as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
                None => {
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(response.as_bytes()).await;
                }
            }
        });
        Endpoint { host: "127.0.0.1".into(), port }
    }

    async fn probed(endpoint: Endpoint, trust: &ApiTrust) -> (bool, String) {
        let target = Target::ApiServer(endpoint.clone());
        let check = Check { id: "api-server", any_of: vec![target], when: When::Always };
        let request = CheckProbes { check, probes: vec![Probe::ApiServer(endpoint)] };
        let reports = reach::probe(&[request], Duration::from_secs(20), Some(trust)).await;
        (reports[0].holds, reports[0].probes[0].detail.to_string())
    }

    #[tokio::test]
    async fn only_the_api_server_itself_passes_the_probe() {
        let (ours, other) = (authority(), authority());
        let trust = ApiTrust::new([ours.certificate.clone()], None).unwrap();
        for response in ["HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.0 403 Forbidden\r\n\r\n"] {
            let endpoint = serve(Some(Arc::clone(&ours.server)), response).await;
            assert_eq!(probed(endpoint, &trust).await, (true, "responded".to_owned()));
        }
        let endpoint = serve(Some(Arc::clone(&ours.server)), "HTTP/1.1 503 No\r\n\r\n").await;
        let expected = (false, "it responded with status 503".to_owned());
        assert_eq!(probed(endpoint, &trust).await, expected);
        let endpoint = serve(Some(ours.server), "SSH-2.0-OpenSSH\r\n").await;
        assert!(!probed(endpoint, &trust).await.0);
        // Another host, and a load balancer that rejects plain HTTP.
        let endpoint = serve(Some(other.server), "HTTP/1.1 200 OK\r\n\r\n").await;
        let (holds, detail) = probed(endpoint, &trust).await;
        assert!(!holds && detail.contains("certificate"), "{detail}");
        let endpoint = serve(None, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
        assert!(!probed(endpoint, &trust).await.0);
    }

    #[test]
    fn a_status_is_read_from_the_first_line() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nA: b\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        assert_eq!(status(b"\x15\x03\x01"), None);
        assert_eq!(status(b""), None);
    }
}
