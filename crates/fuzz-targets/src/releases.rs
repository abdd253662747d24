//! Responses of update services and signature servers, and files of release payloads.

use std::sync::LazyLock;

use jiff::Timestamp;
use oci::Digest;
use release::graph::Graph;
use release::keyring::Keyring;
use release::payload::{BootImages, ImageReferences, PayloadFiles, ReleaseMetadata, Wanted};
use release::upgrade_path::{self, PathQuery};
use release::{graph_image, signature as signatures};

/// The response of an update service.
pub fn graph(data: &[u8]) {
    let Ok(graph) = Graph::parse(data) else { return };
    let versions: Vec<_> = graph.versions().cloned().collect();
    assert!(versions.is_sorted());
    let merged = Graph::merged([&graph, &graph]).expect("a graph does not contradict itself");
    assert_eq!(merged.nodes(), graph.nodes());
    for from in 0..versions.len() {
        for update in graph.updates(from) {
            assert!(update.to < versions.len());
            update.risks();
        }
    }
    let (Some(first), Some(head)) = (versions.first(), versions.last()) else { return };
    for query in [
        PathQuery::Between { from: first.clone(), to: head.clone() },
        PathQuery::From(first.clone()),
        PathQuery::To(head.clone()),
    ] {
        if let Ok(paths) = upgrade_path::find_paths(&graph, &query) {
            serde_json::to_string(&paths).expect("paths are plain data");
        }
    }
}

/// A release signature, checked with Red Hat's keys.
pub fn signature(data: &[u8]) {
    static RING: LazyLock<Keyring> =
        LazyLock::new(|| Keyring::red_hat().expect("the built-in keys are valid"));
    let verified = signatures::verify(data, &Digest::of(b"release"), &RING, Timestamp::UNIX_EPOCH);
    assert!(verified.is_err(), "a signature of another key was accepted");
}

/// A file of keys that release signatures are checked with.
pub fn keyring(data: &[u8]) {
    let mut ring = Keyring::empty();
    match ring.add(data) {
        Ok(count) => assert!(count > 0),
        Err(_) => assert!(ring.keys().is_empty()),
    }
}

/// The files of a release payload, and the layers they are in.
pub fn payload(data: &[u8]) {
    // Most inputs are errors here. Each reader takes its own kind of file.
    let _ = ReleaseMetadata::parse(data);
    let _ = BootImages::parse(data);
    if let Ok(references) = ImageReferences::parse(data) {
        assert!(references.component("no such component").is_none());
    }
    if let Ok(layer) = graph_image::layer(data) {
        drop(layer);
    }
    let mut files = PayloadFiles::new(Wanted::BootImages);
    let _ = files.read_layer(data);
}
