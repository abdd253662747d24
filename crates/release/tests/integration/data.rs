//! Data tier: real responses of the update service, real payloads and real signatures.

use std::collections::BTreeMap;
use std::fs::{self, File};

use image_set::{Architecture, Distribution, EntryPosition, PlatformSection, ReleaseChannel};
use jiff::Timestamp;
use lab::data_tier;
use oci::Digest;
use release::graph::Graph;
use release::graph_image;
use release::keyring::Keyring;
use release::payload::{BootImages, ImageReferences, PayloadFiles, ReleaseMetadata, Wanted};
use release::select::{GraphKey, Graphs, needed, select};
use release::signature::{SignatureError, verify};
use release::upgrade_path::{PathQuery, find_paths};

fn responses() -> Option<BTreeMap<String, Vec<u8>>> {
    let folder = data_tier("cincinnati-graphs/responses")?;
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
    });
    Some(named.collect())
}

#[test]
fn every_real_graph_is_read_whole() {
    let Some(responses) = responses() else { return };
    // Releases, listed updates and conditional ones as counted by another JSON reader.
    let expected: BTreeMap<&str, (usize, usize, usize)> = [
        ("134475077ed4eeaedf3c339f12915b9cdaf7d194_stable-4.7_amd64_v1.json", (102, 3244, 13)),
        ("134475077ed4eeaedf3c339f12915b9cdaf7d194_stable-4.8_s390x_v1.json", (101, 3168, 4)),
        ("134475077ed4eeaedf3c339f12915b9cdaf7d194_stable-4.9_amd64_v1.json", (90, 2544, 0)),
        ("421646a6e9592b179c26b3c77d406820c479a19c_stable-4.2_amd64_v1.json", (43, 279, 0)),
        ("421646a6e9592b179c26b3c77d406820c479a19c_stable-4.3_s390x_v1.json", (20, 139, 0)),
        ("a8d95e7095cc0b335cd3ea16abafcde62326fce1_stable-4.8_amd64_v1.json", (61, 982, 77)),
        ("a8d95e7095cc0b335cd3ea16abafcde62326fce1_stable-4.9_s390x_v1.json", (37, 456, 0)),
        ("api.openshift.com_amd64-stable-4.13.json", (98, 1171, 2394)),
        ("b87e7c2782837a3538b0aa3dceb9e8133765ec81_stable-4.3_amd64-production.json", (23, 80, 0)),
        ("d980578d2e9b1869b6b1e22711c68c03f0751974_stable-4.3_s390x-production.json", (0, 0, 0)),
    ]
    .into();
    assert_eq!(responses.len(), expected.len());
    for (name, bytes) in responses {
        let graph = Graph::parse(&bytes).unwrap();
        let places = 0..graph.nodes().len();
        let updates: Vec<_> = places.flat_map(|place| graph.updates(place)).collect();
        let listed = updates.iter().filter(|update| update.is_listed()).count();
        let conditional = updates.iter().filter(|update| update.is_conditional()).count();
        assert_eq!((graph.nodes().len(), listed, conditional), expected[name.as_str()], "{name}");
        for update in updates.iter().filter(|update| update.is_conditional()) {
            assert!(update.risks().iter().all(|risk| risk.url.starts_with("https://")));
            assert!(!update.risks().is_empty());
        }
    }
}

fn stable_4_13() -> Option<Graphs> {
    let bytes = responses()?.remove("api.openshift.com_amd64-stable-4.13.json").unwrap();
    let mut graphs = Graphs::new();
    let key = GraphKey::new(Distribution::Ocp, "stable-4.13", Architecture::Amd64);
    graphs.insert(key, Graph::parse(&bytes).unwrap());
    Some(graphs)
}

fn section(min: &str, max: &str, shortest_path: bool) -> PlatformSection {
    let version = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    let channel = ReleaseChannel {
        name: "stable-4.13".into(),
        distribution: Distribution::Ocp,
        min_version: version(min),
        max_version: version(max),
        shortest_path,
        full: false,
        at: EntryPosition::default(),
    };
    PlatformSection { channels: vec![channel], ..PlatformSection::default() }
}

#[test]
fn the_real_stable_4_13_selects_what_was_computed_independently() {
    let Some(graphs) = stable_4_13() else { return };
    let versions = |section: &PlatformSection| -> Vec<String> {
        assert!(needed(section, &graphs).is_empty());
        let selection = select(section, &graphs);
        assert!(selection.failures.is_empty(), "{:?}", selection.failures);
        assert!(selection.releases.iter().all(|release| release.payload.digest.is_some()));
        selection.releases.iter().map(|release| release.version.to_string()).collect()
    };
    assert_eq!(versions(&section("4.13.0", "4.13.43", true)), ["4.13.0", "4.13.43"]);
    assert_eq!(versions(&section("4.12.0", "4.13.43", true)), ["4.12.0", "4.12.58", "4.13.43"]);
    assert_eq!(versions(&section("", "", false)).len(), 1);
    // The graph starts with the minor version before.
    assert_eq!(versions(&section("", "4.12.0", false)), ["4.12.0"]);
    assert_eq!(versions(&section("4.12.0", "", false)).len(), 98);
}

#[test]
fn a_real_payload_gives_up_its_components_from_its_layer() {
    let Some(folder) = data_tier("release-payload") else { return };
    let layer = folder.join("oci-layout_release/blobs/sha256/5b2ca04f694b70c8b41f1c2a40b7e95643181a1d037b115149ecc243324c513d");
    let mut files = PayloadFiles::new(Wanted::BootImages);
    files.read_layer(File::open(layer).unwrap()).unwrap();
    assert!(files.is_settled());
    let unpacked = folder.join("4.12.0-x86_64");
    assert_eq!(
        files.image_references().unwrap(),
        fs::read(unpacked.join("image-references")).unwrap()
    );
    let references = ImageReferences::parse(files.image_references().unwrap()).unwrap();
    assert_eq!((references.name.as_str(), references.components.len()), ("4.12.0", 183));
    let metadata = ReleaseMetadata::parse(files.release_metadata().unwrap()).unwrap();
    assert_eq!((metadata.version.to_string().as_str(), metadata.previous.len()), ("4.12.0", 21));
    assert_eq!(metadata.url.unwrap(), "https://access.redhat.com/errata/RHSA-2022:7399");
    let boot = BootImages::parse(files.boot_images().unwrap()).unwrap();
    // The KubeVirt disk came with a later release.
    assert!(boot.kube_virt(Architecture::Amd64, &[]).is_err());
}

#[test]
fn real_boot_images_name_the_kubevirt_disk() {
    let Some(folder) = data_tier("release-payload") else { return };
    let cut = folder.join(
        "bootimages-cut/4.14.1-x86_64_release-manifests_0000_50_installer_coreos-bootimages.yaml",
    );
    let boot = BootImages::parse(&fs::read(cut).unwrap()).unwrap();
    let disks = boot.kube_virt(Architecture::Amd64, &[]).unwrap();
    assert_eq!(disks.len(), 1);
    assert_eq!(
        disks[0].image.to_string(),
        "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:729265d5ef6ed6a45bcd55c46877e3acb9eae3f49c78cd795d5b53aa85e3775b"
    );
    // Its disk for s390x has a digest made of the letters s390x.
    assert!(boot.kube_virt(Architecture::S390x, &[]).is_err());
    let fixture =
        fs::read(folder.join("hypershift-fixtures/4.10-installer-coreos-bootimages.yaml")).unwrap();
    let boot = BootImages::parse(&fixture).unwrap();
    assert_eq!(
        boot.kube_virt(Architecture::Amd64, &[]).unwrap()[0].component,
        "kube-virt-container"
    );
}

#[test]
fn real_signatures_are_good_for_their_own_image_only() {
    let Some(folder) = data_tier("release-signatures") else { return };
    let ring = Keyring::red_hat().unwrap();
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut checked = 0;
    for folder in fs::read_dir(folder.join("signatures")).unwrap() {
        let folder = folder.unwrap().path();
        let hex = folder.file_name().unwrap().to_str().unwrap().strip_prefix("sha256=").unwrap();
        let digest = Digest::from_hex(hex).unwrap();
        for file in fs::read_dir(&folder).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            let verified = verify(&bytes, &digest, &ring, now).unwrap();
            // As gpg reports for every one of them.
            assert_eq!(verified.key, "199E2F91FD431D51");
            let other = Digest::of(b"another");
            let error = verify(&bytes, &other, &ring, now).unwrap_err();
            assert_eq!(error, SignatureError::WrongDigest { signed: digest, wanted: other });
            let mut forged = bytes.clone();
            // Every 29th bit: all of them take minutes.
            for bit in (0..bytes.len() * 8).step_by(29) {
                forged[bit / 8] ^= 1 << (bit % 8);
                if let Ok(believed) = verify(&forged, &digest, &ring, now) {
                    assert_eq!(believed, verified, "bit {bit}");
                }
                forged[bit / 8] ^= 1 << (bit % 8);
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 7);
}

#[test]
fn real_keys_are_read_and_a_damaged_one_is_refused() {
    let Some(folder) = data_tier("release-signatures") else { return };
    let key = |name: &str| fs::read(folder.join(name)).unwrap();
    let mut ring = Keyring::empty();
    for (name, id, expires) in [
        ("verifier-public-key-openshift-ci", "28B76E05B923888E", Some("2021-04-21")),
        ("verifier-public-key-openshift-ci-2", "65C28371F55D29A9", Some("2023-04-27")),
        ("verifier-public-key-openshift-ci-3", "CF4B45E2071F0337", Some("2025-03-29")),
        ("verifier-public-key-openshift-ci-4", "193E53CCD2E2F7A4", Some("2027-03-31")),
        ("verifier-public-key-redhat-beta-2", "938A80CAF21541EB", None),
        ("verifier-public-key-redhat-release", "199E2F91FD431D51", None),
    ] {
        assert_eq!(ring.add(&key(&format!("keys/keys/{name}"))).unwrap(), 1, "{name}");
        let added = ring.keys().last().unwrap();
        let day = added.expires().map(|time| time.strftime("%Y-%m-%d").to_string());
        assert_eq!((added.id().as_str(), day.as_deref()), (id, expires), "{name}");
    }
    assert_eq!(Keyring::empty().add(&key("custom-keys/custom-ocp-sig-key.asc")).unwrap(), 2);
    assert!(Keyring::empty().add(&key("custom-keys/buggy-ocp-sig-key.asc")).is_err());
    assert!(Keyring::empty().add(&key("custom-keys/cosign.pub")).is_err());
}

#[test]
fn a_signature_by_a_real_key_of_another_issuer_is_accepted_with_that_key() {
    let Some(folder) = data_tier("release-signatures/cincinnati-scraper") else { return };
    let signature = fs::read(folder.join("signatures/signature-3")).unwrap();
    let digest: Digest =
        "sha256:d33abd703ea76813f8dbd9518ff46d3f95ac23f364f5b6417d9fa2593aa72a1a".parse().unwrap();
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let error = verify(&signature, &digest, &Keyring::red_hat().unwrap(), now).unwrap_err();
    assert!(matches!(error, SignatureError::UnknownKey { .. }), "{error}");
    let mut ring = Keyring::empty();
    ring.add(&fs::read(folder.join("public_keys/hongkliu.asc")).unwrap()).unwrap();
    assert_eq!(verify(&signature, &digest, &ring, now).unwrap().key, "C21DE04A3350BF4D");
}

#[test]
fn the_paths_of_the_real_stable_4_13_are_those_that_were_computed_independently() {
    let Some(graphs) = stable_4_13() else { return };
    let (_, graph) = graphs.iter().next().unwrap();
    let [from, to] = ["4.12.0", "4.13.43"].map(|text| text.parse().unwrap());
    let paths = find_paths(graph, &PathQuery::Between { from, to }).unwrap();
    let stops: Vec<String> = paths.routes[0].hops.iter().map(|hop| hop.to.to_string()).collect();
    assert_eq!(stops, ["4.12.58", "4.13.43"]);
    assert!(paths.routes[0].without_risks);
    // All but the newest release lead to it.
    let paths = find_paths(graph, &PathQuery::To("4.13.43".parse().unwrap())).unwrap();
    assert_eq!(paths.releases.len(), 97);
}

#[test]
fn real_graph_data_becomes_the_layer_of_the_graph_image() {
    let Some(folder) = data_tier("cincinnati-graphs/graph-data") else { return };
    // Files in each archive, as tar counts them.
    for (name, files) in [
        ("graph-data.tar.gz", 635),
        ("cincinnati-graph-data_134475077ed4.tar.gz", 272),
        ("cincinnati-graph-data_HEAD.tar.gz", 1824),
    ] {
        let layer = graph_image::layer(&fs::read(folder.join(name)).unwrap()).unwrap();
        let tar = flate2::read::GzDecoder::new(&layer.packed[..]);
        let mut archive = tar::Archive::new(tar);
        let kinds = archive.entries().unwrap().map(|entry| entry.unwrap().header().entry_type());
        assert_eq!(kinds.filter(|kind| kind.is_file()).count(), files, "{name}");
    }
}
