use oci::{Digest, Manifest};
use serde_json::json;

use super::*;
use crate::layer::hiding_layer;

fn config(command: &[&str], label: Option<&str>) -> Vec<u8> {
    let mut config = json!({
        "created": "2024-05-01T00:00:00Z",
        "architecture": "arm64",
        "variant": "v8",
        "os": "linux",
        "config": {"Cmd": command, "Entrypoint": ["/bin/opm"], "User": "1001", "Labels": {"a": "b"}},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:one"]},
        "history": [{"created_by": "base"}],
        "unknown": {"stays": 1},
    });
    if let Some(label) = label {
        config["config"]["Labels"][FOLDER_LABEL] = json!(label);
    }
    serde_json::to_vec(&config).unwrap()
}

fn manifest(media_type: &str, config: &[u8]) -> RawManifest {
    let document = json!({
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": Digest::of(config), "size": config.len()},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": Digest::of(b"layer"), "size": 5}],
        "annotations": {"kept": "yes"},
    });
    RawManifest::new(None, serde_json::to_vec(&document).unwrap()).unwrap()
}

fn layers() -> (Layer, Layer) {
    (hiding_layer(&["/configs"], &[]).unwrap(), hiding_layer(&["/other"], &[]).unwrap())
}

#[test]
fn the_image_serves_the_new_catalog_and_stays_the_same_otherwise() {
    for (media_type, layer_type) in [
        (MediaType::OCI_MANIFEST, "application/vnd.oci.image.layer.v1.tar+gzip"),
        (MediaType::DOCKER_MANIFEST, "application/vnd.docker.image.rootfs.diff.tar.gzip"),
    ] {
        let original = config(&["serve", "/cat", "--cache-dir=/tmp/cache"], Some("/cat/"));
        let base = manifest(media_type, &original);
        let (hiding, catalog) = layers();
        let base = BaseImage { manifest: &base, config: &original };
        let rebuilt = rebuild(base, &hiding, &catalog).unwrap();
        assert_eq!(rebuild(base, &hiding, &catalog).unwrap(), rebuilt, "twice the same");
        assert_eq!(rebuilt.platform.to_string(), "linux/arm64/v8");
        let after: Value = serde_json::from_slice(&rebuilt.config).unwrap();
        assert_eq!(after["config"]["Cmd"], json!(["serve", "/configs"]));
        assert_eq!(after["config"]["Labels"], json!({"a": "b", FOLDER_LABEL: "/configs"}));
        assert_eq!(after["config"]["User"], "1001");
        assert_eq!(after["unknown"], json!({"stays": 1}));
        assert_eq!(
            after["rootfs"]["diff_ids"],
            json!(["sha256:one", hiding.diff_id, catalog.diff_id])
        );
        assert_eq!(after["history"].as_array().unwrap().len(), 3);
        let Manifest::Image { config, layers, about } = rebuilt.manifest.parse().unwrap() else {
            panic!("an image")
        };
        assert_eq!(config.digest, Digest::of(&rebuilt.config));
        assert_eq!(config.size, rebuilt.config.len() as u64);
        let digests: Vec<Digest> = layers.iter().map(|layer| layer.digest).collect();
        assert_eq!(digests, [Digest::of(b"layer"), hiding.digest, catalog.digest]);
        assert_eq!(layers[2].media_type.as_str(), layer_type);
        assert_eq!(layers[2].size, catalog.bytes.len() as u64);
        assert_eq!(about.annotations["kept"], "yes");
    }
}

#[test]
fn the_old_catalog_and_what_was_made_from_it_are_hidden() {
    for (command, label, gone, emptied) in [
        (
            &["serve", "/configs", "--cache-dir=/tmp/cache"][..],
            Some("/configs"),
            &["/configs"][..],
            &["/tmp/cache"][..],
        ),
        (
            &["serve", "/cat", "--cache-dir", "/var/c/"],
            Some("/cat/"),
            &["/cat", "/configs"],
            &["/var/c"],
        ),
        (&["serve", "/configs"], None, &["/configs"], &[]),
        // A folder that is none is left alone.
        (&["serve", "/configs", "--cache-dir=/../etc"], None, &["/configs"], &[]),
    ] {
        let config = config(command, label);
        let manifest = manifest(MediaType::OCI_MANIFEST, &config);
        let hidden = BaseImage { manifest: &manifest, config: &config }.hidden().unwrap();
        assert_eq!(hidden.0, gone, "{command:?}");
        assert_eq!(hidden.1, emptied, "{command:?}");
    }
}

#[test]
fn a_folder_that_leads_out_is_refused() {
    for label in ["/", "../x", "/a/../b", "/a/.wh.b", ""] {
        let config = config(&[], Some(label));
        assert!(matches!(catalog_folder(&config), Err(RebuildError::Folder(_))), "{label}");
    }
    assert_eq!(catalog_folder(&config(&[], None)).unwrap(), None);
    assert!(matches!(catalog_folder(b"[]"), Err(RebuildError::OddConfig)));
    assert!(matches!(catalog_folder(b"{"), Err(RebuildError::Config(_))));
}

#[test]
fn even_one_image_becomes_a_list_of_its_kind() {
    let (hiding, catalog) = layers();
    let image = |media_type| {
        let config = config(&["serve"], None);
        let base = manifest(media_type, &config);
        rebuild(BaseImage { manifest: &base, config: &config }, &hiding, &catalog).unwrap()
    };
    let docker = rebuilt_index(&[image(MediaType::DOCKER_MANIFEST)]).unwrap();
    assert_eq!(docker.media_type.as_str(), MediaType::DOCKER_LIST);
    let mixed = [image(MediaType::DOCKER_MANIFEST), image(MediaType::OCI_MANIFEST)];
    let index = rebuilt_index(&mixed).unwrap();
    assert_eq!(index.media_type.as_str(), MediaType::OCI_INDEX);
    let Manifest::Index { manifests, .. } = index.parse().unwrap() else { panic!("a list") };
    assert_eq!(manifests[1].digest, mixed[1].manifest.digest);
    assert_eq!(manifests[1].platform.as_ref().unwrap().to_string(), "linux/arm64/v8");
}
