//! Releases and graphs of the lab, read as a mirror run reads them, and signatures by GnuPG.

use image_set::{Architecture, Distribution, EntryPosition, PlatformSection, ReleaseChannel};
use jiff::Timestamp;
use lab::releases::{COMPONENTS, Recipe, Release, ReleaseKey};
use lab::update_service;
use oci::Digest;
use release::graph::Graph;
use release::keyring::Keyring;
use release::payload::{BootImages, ImageReferences, PayloadFiles, ReleaseMetadata, Wanted};
use release::select::{GraphKey, Graphs, needed, select};
use release::signature::{SignatureError, verify};
use release::upgrade_path::{PathQuery, find_paths};
use serde_json::Value;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn a_payload_gives_its_components_and_disks_from_its_topmost_layer() {
    let release = Release::generate(&Recipe { kubevirt: true, ..Recipe::default() }).unwrap();
    let manifest: Value = serde_json::from_slice(&release.payload.root().bytes).unwrap();
    let topmost = manifest["layers"].as_array().unwrap().last().unwrap();
    let digest: Digest = topmost["digest"].as_str().unwrap().parse().unwrap();
    let mut files = PayloadFiles::new(Wanted::BootImages);
    files.read_layer(&release.payload.blobs[&digest].bytes().unwrap()[..]).unwrap();
    assert!(files.is_settled());

    let references = ImageReferences::parse(files.image_references().unwrap()).unwrap();
    assert_eq!(references.name, release.version);
    let found: Vec<(String, String)> =
        references.components.iter().map(|it| (it.name.clone(), it.image.to_string())).collect();
    let wanted: Vec<(String, String)> = release
        .components
        .iter()
        .map(|(name, image)| (name.clone(), format!("{COMPONENTS}@{}", image.digest())))
        .collect();
    assert_eq!(found, wanted);
    let metadata = ReleaseMetadata::parse(files.release_metadata().unwrap()).unwrap();
    assert_eq!(metadata.version.to_string(), release.version);
    let boot = BootImages::parse(files.boot_images().unwrap()).unwrap();
    let disks = boot.kube_virt(Architecture::Amd64, &[]).unwrap();
    let [(_, disk)] = &release.kubevirt[..] else { panic!("one disk is expected") };
    assert_eq!(disks.len(), 1);
    assert_eq!(disks[0].image.to_string(), format!("{COMPONENTS}@{}", disk.digest()));
}

#[test]
fn a_signature_is_good_for_its_own_release_only() {
    let versions = ["4.16.3", "4.16.4"];
    let [one, other] = versions
        .map(|version| Release::generate(&Recipe { version, ..Recipe::default() }).unwrap());
    let (key, stranger) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
    let mut ring = Keyring::empty();
    ring.add(key.public().as_bytes()).unwrap();
    let signature = key.sign(&one.claim()).unwrap();
    let digest = one.payload.digest();
    let verified = verify(&signature, &digest, &ring, now()).unwrap();
    assert_eq!((verified.digest, verified.key), (digest, ring.keys()[0].id()));
    assert_eq!(verified.reference.to_string(), one.reference());

    let wanted = other.payload.digest();
    let error = verify(&signature, &wanted, &ring, now()).unwrap_err();
    assert_eq!(error, SignatureError::WrongDigest { signed: digest, wanted });
    let forged = stranger.sign(&one.claim()).unwrap();
    let error = verify(&forged, &digest, &ring, now()).unwrap_err();
    assert!(matches!(error, SignatureError::UnknownKey { .. }), "{error}");
}

const CHANNEL: &str = "stable-4.16";

/// 4.15.9 → 4.16.1 → 4.16.2 → 4.16.4; 4.16.1 → 4.16.4 has a risk; 4.16.3 leads nowhere.
fn graphs() -> Graphs {
    let mut graph = update_service::Graph::default();
    for version in ["4.15.9", "4.16.1", "4.16.2", "4.16.3", "4.16.4"] {
        let payload = format!("quay.io/org/release@{}", Digest::of(version.as_bytes()));
        graph = graph.node_in(version, &payload, &[CHANNEL]);
    }
    let risk = ("Slow", "Nodes start slowly.", "https://example.com/risk");
    let graph = graph
        .edge("4.15.9", "4.16.1")
        .edge("4.16.1", "4.16.2")
        .edge("4.16.2", "4.16.4")
        .conditional("4.16.1", "4.16.4", risk);
    let graph = Graph::parse(graph.to_json().to_string().as_bytes()).unwrap();
    let mut graphs = Graphs::new();
    graphs.insert(GraphKey::new(Distribution::Ocp, CHANNEL, Architecture::Amd64), graph);
    graphs
}

#[test]
fn a_published_graph_is_read_whole() {
    let graphs = graphs();
    let (_, graph) = graphs.iter().next().unwrap();
    let updates: Vec<_> = (0..graph.nodes().len()).flat_map(|place| graph.updates(place)).collect();
    let listed = updates.iter().filter(|update| update.is_listed()).count();
    let conditional: Vec<_> = updates.iter().filter(|update| update.is_conditional()).collect();
    assert_eq!((graph.nodes().len(), listed, conditional.len()), (5, 3, 1));
    assert_eq!(conditional[0].risks()[0].url, "https://example.com/risk");
}

#[test]
fn releases_are_selected_and_updates_found_as_computed_independently() {
    let graphs = graphs();
    let versions = |min: &str, max: &str, shortest_path: bool| -> Vec<String> {
        let version = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        let channel = ReleaseChannel {
            name: CHANNEL.into(),
            distribution: Distribution::Ocp,
            min_version: version(min),
            max_version: version(max),
            shortest_path,
            full: false,
            at: EntryPosition::default(),
        };
        let section = PlatformSection { channels: vec![channel], ..PlatformSection::default() };
        assert!(needed(&section, &graphs).is_empty());
        let selection = select(&section, &graphs);
        assert!(selection.failures.is_empty(), "{:?}", selection.failures);
        selection.releases.iter().map(|release| release.version.to_string()).collect()
    };
    assert_eq!(versions("", "", false), ["4.16.4"]);
    assert_eq!(versions("4.16.2", "4.16.4", false), ["4.16.2", "4.16.3", "4.16.4"]);
    let path = ["4.16.1", "4.16.2", "4.16.4"];
    assert_eq!(versions("4.16.1", "4.16.4", true), path);

    let (_, graph) = graphs.iter().next().unwrap();
    let [from, to] = ["4.16.1", "4.16.4"].map(|text| text.parse().unwrap());
    let paths = find_paths(graph, &PathQuery::Between { from, to }).unwrap();
    let stops: Vec<String> = paths.routes[0].hops.iter().map(|hop| hop.to.to_string()).collect();
    assert_eq!(stops, path[1..]);
    assert!(paths.routes[0].without_risks);
    let paths = find_paths(graph, &PathQuery::To("4.16.4".parse().unwrap())).unwrap();
    assert_eq!(paths.releases.len(), 3);
}
