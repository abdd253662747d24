use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lab::certificates::{Authority, ClientCertificates};
use lab::images::Image;
use lab::registry::{Auth, Bearer, Credentials, Effect, Fault, LabRegistry, Settings};
use registry::{Client, CredentialSource, Environment, Retry, Side};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{fetch, lab, location, stored_blob};

fn secured(authority: &Arc<Authority>, client_certificates: ClientCertificates) -> LabRegistry {
    let tls = Some(Arc::clone(authority));
    let registry = lab(Settings { tls, client_certificates, ..Settings::default() });
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    registry
}

/// A client that checks certificates, with system files below `root`.
fn strict(root: &Path) -> Client {
    let environment = Environment { system_root: root.into(), ..Environment::default() };
    let settings =
        registry::Settings { environment, tls_verify: true, ..crate::settings(Side::Source) };
    Client::open(settings).unwrap()
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_its_registry_alone() {
    let authority = Arc::new(Authority::generate().unwrap());
    let known = secured(&authority, ClientCertificates::Ignored);
    let unknown = secured(&authority, ClientCertificates::Ignored);
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/containers/certs.d").join(known.host().unwrap().as_str());
    authority.write_certs_dir(&dir, None).unwrap();
    let client = strict(root.path());
    assert!(client.head(&known.image("a", "v1").unwrap()).await.unwrap().is_some());
    let (blob, content) = stored_blob(&known, "b", 200_000);
    assert_eq!(fetch(&client, &location(&known, "b"), blob, 0).await.unwrap(), content);
    let error = client.head(&unknown.image("a", "v1").unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("the certificate is not trusted"), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_client_certificate_is_sent_where_it_is_requested() {
    let authority = Arc::new(Authority::generate().unwrap());
    let registry = secured(&authority, ClientCertificates::Required);
    let image = registry.image("a", "v1").unwrap();
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/docker/certs.d").join(registry.host().unwrap().as_str());
    authority.write_certs_dir(&dir, None).unwrap();
    assert!(strict(root.path()).head(&image).await.is_err());
    let identity = authority.client("mirror").unwrap();
    authority.write_certs_dir(&dir, Some(&identity)).unwrap();
    assert!(strict(root.path()).head(&image).await.unwrap().is_some());
}

#[tokio::test]
async fn a_certificate_directory_can_be_named() {
    let authority = Arc::new(Authority::generate().unwrap());
    let registry = secured(&authority, ClientCertificates::Ignored);
    let dir = tempfile::tempdir().unwrap();
    authority.write_certs_dir(dir.path(), None).unwrap();
    let settings = registry::Settings {
        tls_verify: true,
        cert_dir: Some(dir.path().into()),
        ..crate::settings(Side::Source)
    };
    let client = Client::open(settings).unwrap();
    assert!(client.head(&registry.image("a", "v1").unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn without_verification_any_certificate_will_do() {
    let authority = Arc::new(Authority::generate().unwrap());
    let registry = secured(&authority, ClientCertificates::Ignored);
    let client = crate::source();
    assert!(client.head(&registry.image("a", "v1").unwrap()).await.unwrap().is_some());
    assert_eq!(client.traffic().requests, 1);
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_not_followed() {
    let authority = Arc::new(Authority::generate().unwrap());
    let registry = secured(&authority, ClientCertificates::Ignored);
    let storage = lab(Settings::default());
    storage.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    registry.fault(Fault::on_any("/manifests/").does(Effect::RedirectTo(storage.url().into())));
    let image = registry.image("a", "v1").unwrap();
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/containers/certs.d").join(registry.host().unwrap().as_str());
    authority.write_certs_dir(&dir, None).unwrap();
    let error = strict(root.path()).head(&image).await.unwrap_err();
    assert!(error.to_string().contains("from https to http"), "{error}");
    assert_eq!(storage.requests().count(), 0);
    assert!(crate::source().head(&image).await.unwrap().is_some());
}

#[tokio::test]
async fn tokens_work_over_tls() {
    let authority = Arc::new(Authority::generate().unwrap());
    let auth = Auth::Bearer(Bearer::new(Credentials::new("me", "secret")));
    let tls = Some(Arc::clone(&authority));
    let registry = lab(Settings { tls, auth, ..Settings::default() });
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    authority.write_certs_dir(dir.path(), None).unwrap();
    let settings = registry::Settings {
        tls_verify: true,
        cert_dir: Some(dir.path().into()),
        credentials: CredentialSource::from_pair("me:secret").unwrap(),
        ..crate::settings(Side::Source)
    };
    let client = Client::open(settings).unwrap();
    assert!(client.head(&registry.image("a", "v1").unwrap()).await.unwrap().is_some());
}

/// Accepts TLS connections, offers both protocols, and reports which was agreed
/// on. Sends no response.
async fn agreed_protocols(
    authority: &Authority,
) -> (std::net::SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
    let identity = authority.server().unwrap();
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                let agreed = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
                let _ = send.send(agreed);
            }
        }
    });
    (address, receive)
}

#[tokio::test]
async fn blobs_never_share_one_connection_of_http2() {
    let authority = Authority::generate().unwrap();
    let (address, mut agreed) = agreed_protocols(&authority).await;
    let certs = tempfile::tempdir().unwrap();
    authority.write_certs_dir(certs.path(), None).unwrap();
    let settings = registry::Settings {
        tls_verify: true,
        cert_dir: Some(certs.path().into()),
        retry: Retry { times: 0, delay: Some(Duration::ZERO) },
        ..crate::settings(Side::Destination)
    };
    let client = Client::open(settings).unwrap();
    let image: oci::ImageRef = format!("{address}/a:v1").parse().unwrap();
    let at = registry::Location::from(&image);
    let blob = registry::Blob { digest: oci::Digest::of(b"x"), size: 1 };
    client.head(&image).await.unwrap_err();
    assert_eq!(agreed.recv().await.unwrap(), b"h2");
    client.blob(&at, blob, 0).await.unwrap_err();
    assert_eq!(agreed.recv().await.unwrap(), b"http/1.1");
    let content = bytes::Bytes::from_static(b"x");
    crate::upload(&client, &at, &content, None).await.unwrap_err();
    assert_eq!(agreed.recv().await.unwrap(), b"http/1.1");
}
