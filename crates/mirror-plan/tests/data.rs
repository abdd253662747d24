//! What this crate writes, compared with the resources of real mirrors (data tier) and with the
//! schemas of OpenShift.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lab::data_tier;
use lab_cluster::kube::published_crd;
use mirror_plan::{
    Kind, MirroredImage, Naming, Origin, ResourceOptions, Scope, Wanted, cluster_resources,
};
use oci::{Digest, ImageRef};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: BTreeMap<String, Vec<Entry>>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    mirrors: Vec<String>,
    source: String,
}

/// All that a cluster goes by: kind, name, the list's key, and its entries.
type Facts = BTreeSet<(String, String, String, String, BTreeSet<Entry>)>;

fn facts(yaml: &str) -> Facts {
    let documents: Vec<Document> = serde_saphyr::from_multiple(yaml).unwrap();
    documents
        .into_iter()
        .flat_map(|document| {
            let Document { api_version, kind, metadata, spec } = document;
            spec.into_iter().map(move |(key, entries)| {
                let (api_version, kind) = (api_version.clone(), kind.clone());
                (api_version, kind, metadata.name.clone(), key, entries.into_iter().collect())
            })
        })
        .collect()
}

/// An image whose mirroring needs `source` to be redirected to `mirror`.
fn behind(source: &str, mirror: &str, scope: Scope) -> MirroredImage {
    let digest = Digest::of(source.as_bytes());
    let releases = [
        ("/openshift/release-images", Kind::ReleasePayload),
        ("/openshift/release", Kind::ReleaseComponent),
    ];
    let release =
        releases.into_iter().find_map(|(suffix, kind)| Some((mirror.strip_suffix(suffix)?, kind)));
    let path = source.split_once('/').unwrap().1;
    let (target, kind) =
        release.unwrap_or_else(|| (mirror.strip_suffix(path).unwrap(), Kind::RelatedImage));
    let image = match (scope, kind) {
        (Scope::Namespace, Kind::RelatedImage) => format!("{source}/image@{digest}"),
        _ => format!("{source}@{digest}"),
    };
    let expected = Wanted {
        kind,
        origin: Origin::Registry(image.parse().unwrap()),
        target_repository: None,
        target_tag: (kind == Kind::ReleaseComponent).then(|| "4.18.1-x86_64-x".parse().unwrap()),
        platforms: vec![],
    };
    let destination = Naming::new(target.parse().unwrap()).destination(&expected).unwrap();
    MirroredImage { kind, origin: expected.origin, destination }
}

/// Our resource for the images behind every entry of a real one.
fn remade(real: &Facts, scope: Scope, name: &str) -> Facts {
    let images: Vec<MirroredImage> = real
        .iter()
        .flat_map(|(.., entries)| entries)
        .flat_map(|entry| entry.mirrors.iter().map(|mirror| behind(&entry.source, mirror, scope)))
        .collect();
    let options = ResourceOptions {
        created_at: jiff::Timestamp::UNIX_EPOCH,
        tool_version: "v0".into(),
        scope,
        content_source_policy: true,
    };
    let files = cluster_resources(&images, &options).unwrap();
    facts(&files.iter().find(|file| file.name == name).unwrap().yaml)
}

fn read(folder: &Path, name: &str) -> Facts {
    let real = facts(&std::fs::read_to_string(folder.join(name)).unwrap());
    assert!(real.iter().any(|(.., entries)| !entries.is_empty()), "{name} has no entries");
    real
}

#[test]
fn a_real_digest_mirror_set_is_made_again_from_the_images_behind_it() {
    let Some(folder) = data_tier("oc-mirror-outputs/cluster-resources") else { return };
    let real = read(&folder, "midu16__l1-cp__workingdir_openshift_idms-oc-mirror.yaml");
    assert_eq!(remade(&real, Scope::Repository, "idms-oc-mirror.yaml"), real);
}

#[test]
fn real_content_source_policies_have_the_entries_that_ours_would() {
    let Some(folder) = data_tier("oc-mirror-outputs/cluster-resources") else { return };
    // Their names were chosen by people; all else must agree.
    let nameless = |facts: Facts| -> BTreeSet<_> {
        facts
            .into_iter()
            .map(|(version, kind, _, key, entries)| (version, kind, key, entries))
            .collect()
    };
    for name in [
        "Patthecat249__openshift-image-set-configuration__imageContentSourcePolicy.yaml",
        "galaxyspaces77__ocp__imageContentSourcePolicy.yaml",
        "kcalliga__disconnected_registry__imagecontentsourcepolicy.yaml",
        "mlorenzofr__ocp-labs__labs_pinned-image-set_manifest_icsp-generic-0.yaml",
        "mlorenzofr__ocp-labs__labs_pinned-image-set_manifest_icsp-release-0.yaml",
    ] {
        let real = read(&folder, name);
        let ours = remade(&real, Scope::Namespace, "icsp-oc-mirror.yaml");
        assert_eq!(nameless(ours), nameless(real), "{name}");
    }
}

#[test]
fn sources_and_mirrors_match_the_patterns_of_the_real_schemas() {
    let images: Vec<MirroredImage> = [
        ("quay.io/a__b/c.d/e---f@DIGEST", "reg/n/a__b/c.d/e---f:1"),
        ("busybox:1@DIGEST", "10.0.0.1:5000/library/busybox:1"),
        ("Quay.Example.COM:8443/x:1@DIGEST", "r-1.example:443/x:1"),
        ("quay.io/org/moved:1@DIGEST", "r.io/else/where:1"),
    ]
    .map(|(origin, destination)| {
        let digest = format!("@{}", Digest::of(b"image"));
        // The mirror's host may be one word, which a reference cannot express.
        let (host, path) = destination.split_once('/').unwrap();
        let path: mirror_plan::Destination = path.parse().unwrap();
        MirroredImage {
            kind: Kind::Additional,
            origin: Origin::Registry(
                origin.replace("@DIGEST", &digest).parse::<ImageRef>().unwrap(),
            ),
            destination: path.at(&host.parse().unwrap()),
        }
    })
    .into();
    let options = ResourceOptions {
        created_at: jiff::Timestamp::UNIX_EPOCH,
        tool_version: "v0".into(),
        scope: Scope::Namespace,
        content_source_policy: false,
    };
    let files = cluster_resources(&images, &options).unwrap();
    let mut checked = 0;
    for (crd, file, key) in [
        ("imagedigestmirrorsets.config.openshift.io", "idms-oc-mirror.yaml", "imageDigestMirrors"),
        ("imagetagmirrorsets.config.openshift.io", "itms-oc-mirror.yaml", "imageTagMirrors"),
    ] {
        let crd: Value = serde_saphyr::from_str(&published_crd(crd).unwrap()).unwrap();
        let item = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            [key]["items"]["properties"];
        let pattern = |value: &Value| Regex::new(value["pattern"].as_str().unwrap()).unwrap();
        let (source, mirror) = (pattern(&item["source"]), pattern(&item["mirrors"]["items"]));
        let ours = facts(&files.iter().find(|found| found.name == file).unwrap().yaml);
        for entry in ours.into_iter().flat_map(|(.., entries)| entries) {
            assert!(source.is_match(&entry.source), "{}", entry.source);
            for found in entry.mirrors {
                assert!(mirror.is_match(&found), "{found}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 4 + 3);
}
