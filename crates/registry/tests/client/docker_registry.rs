//! Against Debian's docker-registry.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use lab::certificates::Authority;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::{Format, Image};
use lab::registry::Credentials;
use oci::{Digest, Platform, Pointer};
use registry::{Client, CredentialSource, Error, Location, Side, Uploaded};

use crate::{fetch, upload};

fn list() -> Image {
    let layer = lab::images::Layer::generate("a", 150_000, lab::images::Compression::Gzip).unwrap();
    let one = |architecture| {
        let platform = Platform::new("linux", architecture);
        Image::new(Format::Oci, platform, std::slice::from_ref(&layer)).unwrap()
    };
    Image::list(Format::Oci, [one("amd64"), one("arm64")]).unwrap()
}

/// Pushes an image with all that belongs to it, children before the list.
async fn push(client: &Client, image: &Image, to: &oci::ImageRef) -> Result<(), Error> {
    let at = Location::from(to);
    for blob in image.blobs.values() {
        upload(client, &at, &blob.bytes().unwrap(), None).await?;
    }
    for manifest in image.manifests.iter().skip(1) {
        client.put_manifest(&to.with_pointer(Pointer::Digest(manifest.digest)), manifest).await?;
    }
    client.put_manifest(to, image.root()).await.map(drop)
}

#[tokio::test]
async fn an_image_makes_the_round_trip_with_tls_and_a_password() {
    let authority = Arc::new(Authority::generate().unwrap());
    let registry = DockerRegistry::start(&Settings {
        tls: Some(Arc::clone(&authority)),
        credentials: Some(Credentials::new("me", "secret")),
        ..Settings::default()
    })
    .unwrap();
    let certs = tempfile::tempdir().unwrap();
    authority.write_certs_dir(certs.path(), None).unwrap();
    let open = |pair: &str| {
        Client::open(registry::Settings {
            tls_verify: true,
            cert_dir: Some(certs.path().into()),
            credentials: CredentialSource::from_pair(pair).unwrap(),
            ..crate::settings(Side::Destination)
        })
        .unwrap()
    };
    let image = list();
    let to = registry.image("ocp/release", "4.16").unwrap();
    let error = push(&open("me:wrong"), &image, &to).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
    let client = open("me:secret");
    push(&client, &image, &to).await.unwrap();
    assert_eq!(client.head(&to).await.unwrap().unwrap().digest, image.digest());
    for manifest in &image.manifests {
        let by_digest = to.with_pointer(Pointer::Digest(manifest.digest));
        assert_eq!(client.manifest(&by_digest).await.unwrap().as_ref(), Some(manifest));
    }
    let at = Location::from(&to);
    for blob in image.blobs.values() {
        let blob_ref = registry::Blob { digest: blob.digest, size: blob.size };
        let bytes = fetch(&client, &at, blob_ref, blob.size / 2).await.unwrap();
        let expected = blob.bytes().unwrap();
        assert_eq!(bytes, expected[expected.len() / 2..]);
    }
}

#[tokio::test]
async fn its_behavior_is_supported() {
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let client = crate::destination();
    let image = list();
    let to = registry.image("a", "v1").unwrap();
    let at = Location::from(&to);
    assert_eq!(client.head(&to).await.unwrap(), None);
    assert!(!client.has_blob(&at, &Digest::of(b"x")).await.unwrap());
    let pages = NonZeroUsize::MIN;
    assert_eq!(client.tags(&at, pages).await.unwrap().tags, []);
    push(&client, &image, &to).await.unwrap();
    let tags: Vec<_> = client.tags(&at, pages).await.unwrap().tags;
    assert_eq!(tags, ["v1".parse().unwrap()]);
    assert_eq!(client.referrers(&at, &image.digest()).await.unwrap(), None);

    // Another repository: mounted, then sparse and refused.
    let other = registry.image("b", "v1").unwrap();
    let other_at = Location::from(&other);
    let layer = image.blobs.values().next().unwrap().bytes().unwrap();
    let mounted = upload(&client, &other_at, &layer, Some("a")).await.unwrap();
    assert_eq!(mounted, Uploaded::Mounted);
    let new = Bytes::from_static(b"new content");
    assert_eq!(upload(&client, &other_at, &new, Some("a")).await.unwrap(), Uploaded::Sent);
    assert!(client.has_blob(&other_at, &Digest::of(&new)).await.unwrap());
    let error = client.put_manifest(&other, image.root()).await.unwrap_err();
    assert!(matches!(error, Error::SparseList { .. }), "{error}");
    assert_eq!(client.traffic().retries, 0);
}
