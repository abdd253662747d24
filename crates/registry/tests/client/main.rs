//! The client against registries: one of our own that misbehaves on demand,
//! Debian's docker-registry, and single responses that no registry should send.

#![allow(clippy::unwrap_used, reason = "all of this crate is tests")]

mod auth;
mod deletion;
mod docker_registry;
mod documents;
mod downloads;
mod manifests;
mod mirrors;
mod odd_responses;
mod rate_limits;
mod retries;
mod secure_connections;
mod uploads;

use std::time::Duration;

use bytes::Bytes;
use lab::images::{Image, Layer};
use lab::registry::LabRegistry;
use registry::{
    Blob, Client, CredentialSource, Environment, Error, Location, Retry, Settings, Side, Timeouts,
};

/// An environment without any file of the machine the tests run on.
fn nowhere() -> Environment {
    Environment { system_root: "/nowhere".into(), ..Environment::default() }
}

/// Settings for registries on loopback: plain HTTP, impatient.
fn settings(side: Side) -> Settings {
    Settings {
        tls_verify: false,
        retry: Retry { times: 3, delay: Some(Duration::from_millis(5)) },
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            commit: Duration::from_secs(5),
        },
        ..Settings::new(nowhere(), side)
    }
}

fn source() -> Client {
    Client::open(settings(Side::Source)).unwrap()
}

fn destination() -> Client {
    Client::open(settings(Side::Destination)).unwrap()
}

fn with_user(side: Side, name: &str, password: &str) -> Client {
    let credentials = CredentialSource::User { name: name.into(), password: password.into() };
    Client::open(Settings { credentials, ..settings(side) }).unwrap()
}

fn lab(settings: lab::registry::Settings) -> LabRegistry {
    LabRegistry::start(settings).unwrap()
}

fn location(registry: &LabRegistry, repository: &str) -> Location {
    Location::new(registry.host().unwrap(), repository.parse().unwrap())
}

/// A blob in its own image, put into `repository`.
fn stored_blob(registry: &LabRegistry, repository: &str, size: u64) -> (Blob, Bytes) {
    let layer = Layer::generate(repository, size, lab::images::Compression::None).unwrap();
    let platform = oci::Platform::new("linux", "amd64");
    let image =
        Image::new(lab::images::Format::Oci, platform, std::slice::from_ref(&layer)).unwrap();
    registry.put_image(&image, repository, "v1").unwrap();
    (Blob { digest: layer.blob.digest, size: layer.blob.size }, layer.blob.bytes().unwrap())
}

async fn fetch(
    client: &Client,
    from: &Location,
    blob: Blob,
    offset: u64,
) -> Result<Vec<u8>, Error> {
    let mut stream = client.blob(from, blob, offset).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A body for uploads: `bytes` in pieces.
fn pieces(
    bytes: &Bytes,
) -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let pieces: Vec<_> =
        bytes.chunks(7000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    futures_util::stream::iter(pieces)
}

async fn upload(
    client: &Client,
    to: &Location,
    bytes: &Bytes,
    mount_from: Option<&str>,
) -> Result<registry::Uploaded, Error> {
    let blob = Blob { digest: oci::Digest::of(bytes), size: bytes.len() as u64 };
    let mount_from = mount_from.map(|from| from.parse().unwrap());
    client.upload(to, blob, mount_from.as_ref(), || async { Ok(pieces(bytes)) }).await
}

#[test]
fn what_the_client_does_may_move_between_threads() {
    fn movable<T: Send>(_: T) {}
    let client = source();
    let image: oci::ImageRef = "127.0.0.1:1/a:b".parse().unwrap();
    let at = Location::from(&image);
    let digest = oci::Digest::of(b"");
    let raw = oci::referrers_index(vec![]);
    movable(client.head(&image));
    movable(client.manifest(&image));
    movable(client.put_manifest(&image, &raw));
    movable(client.has_blob(&at, &digest));
    movable(client.blob(&at, Blob { digest, size: 0 }, 0));
    movable(client.tags(&at, std::num::NonZeroUsize::MIN));
    movable(client.referrers(&at, &digest));
    movable(upload(&client, &at, &Bytes::new(), None));
}
