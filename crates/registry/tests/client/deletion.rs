//! Deletes tags and manifests at registries that differ in what they allow.

use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::Image;
use lab::registry::{Auth, Bearer, Effect, Fault, LabRegistry};
use oci::Pointer;
use registry::{Deletion, Product, Side};

#[tokio::test]
async fn docker_registry_deletes_by_digest_and_not_by_tag() {
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let image = Image::tiny("a").unwrap();
    registry.put_image(&image, "a/b", "v1").unwrap();
    registry.put_image(&image, "a/b", "v2").unwrap();
    let (client, tag) = (crate::destination(), registry.image("a/b", "v1").unwrap());
    assert_eq!(client.product(&registry.host().unwrap()).await.unwrap(), Product::Distribution);
    let refused = client.delete(&tag).await.unwrap();
    assert!(matches!(refused, Deletion::Unsupported { status: 400, .. }), "{refused:?}");
    assert!(client.head(&tag).await.unwrap().is_some());
    let digest = tag.with_pointer(Pointer::Digest(image.digest()));
    assert_eq!(client.delete(&digest).await.unwrap(), Deletion::Done { status: 202 });
    for tag in ["v1", "v2"] {
        let tag = registry.image("a/b", tag).unwrap();
        assert!(client.head(&tag).await.unwrap().is_none(), "{tag}");
    }
    assert_eq!(client.delete(&digest).await.unwrap(), Deletion::Absent);
}

#[tokio::test]
async fn a_registry_with_deletion_disabled_reports_it() {
    let registry =
        DockerRegistry::start(&Settings { deletion_disabled: true, ..Settings::default() })
            .unwrap();
    let image = Image::tiny("a").unwrap();
    registry.put_image(&image, "a/b", "v1").unwrap();
    let tag = registry.image("a/b", "v1").unwrap();
    let refused = crate::destination()
        .delete(&tag.with_pointer(Pointer::Digest(image.digest())))
        .await
        .unwrap();
    assert!(matches!(refused, Deletion::Unsupported { status: 405, .. }), "{refused:?}");
}

#[tokio::test]
async fn distribution_3_deletes_one_tag_and_leaves_the_other() {
    let registry = DockerRegistry::start(&Settings::distribution_3().unwrap()).unwrap();
    let image = Image::tiny("a").unwrap();
    registry.put_image(&image, "a/b", "v1").unwrap();
    registry.put_image(&image, "a/b", "v2").unwrap();
    let client = crate::destination();
    let [one, two] = ["v1", "v2"].map(|tag| registry.image("a/b", tag).unwrap());
    assert_eq!(client.delete(&one).await.unwrap(), Deletion::Done { status: 202 });
    assert!(client.head(&one).await.unwrap().is_none());
    assert_eq!(client.head(&two).await.unwrap().unwrap().digest, image.digest());
}

#[tokio::test]
async fn a_deletion_requests_the_right_to_delete_and_is_repeated_after_a_fault() {
    let credentials = lab::registry::Credentials::new("me", "secret");
    let registry = LabRegistry::start(lab::registry::Settings {
        auth: Auth::Bearer(Bearer::new(credentials)),
        ..Default::default()
    })
    .unwrap();
    let image = Image::tiny("a").unwrap();
    registry.put_image(&image, "a/b", "v1").unwrap();
    registry.fault(Fault::on(http::Method::DELETE, "/manifests/").times(1).does(Effect::Status(
        503,
        Vec::new(),
        String::new(),
    )));
    let client = crate::with_user(Side::Destination, "me", "secret");
    let tag = registry.image("a/b", "v1").unwrap();
    assert_eq!(client.delete(&tag).await.unwrap(), Deletion::Done { status: 202 });
    assert!(client.head(&tag).await.unwrap().is_none());
}
