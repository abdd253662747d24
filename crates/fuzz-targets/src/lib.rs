//! Fuzz targets: one function per parser of untrusted input.
//!
//! A target takes any bytes. It must return, soon and without a panic. Where a parsed value can be
//! printed, the target also checks that the text parses to the same value.
//!
//! `fuzz/` builds a program for libFuzzer from each target. The tests of this crate call the targets
//! with every committed input, so that what was found once is checked on every run.

#[cfg(feature = "archives")]
mod archives;
#[cfg(feature = "catalogs")]
mod catalogs;
#[cfg(feature = "charts")]
mod charts;
#[cfg(feature = "deletions")]
mod deletions;
mod image_sets;
mod images;
#[cfg(feature = "policies")]
mod policies;
#[cfg(feature = "registries")]
mod registries;
#[cfg(feature = "releases")]
mod releases;
mod templates;
mod timetables;

#[cfg(feature = "archives")]
pub use archives::{archive, archive_index};
#[cfg(feature = "catalogs")]
pub use catalogs::{catalog, catalog_layer};
#[cfg(feature = "charts")]
pub use charts::{chart, chart_archive, chart_index};
#[cfg(feature = "deletions")]
pub use deletions::delete_list;
pub use image_sets::image_set;
pub use images::{manifest, reference};
#[cfg(feature = "policies")]
pub use policies::policy;
#[cfg(feature = "registries")]
pub use registries::{challenge, registries_conf};
#[cfg(feature = "releases")]
pub use releases::{graph, keyring, payload, signature};
pub use templates::template;
pub use timetables::timetable;

/// A target, with the name of its program and of its folder of inputs.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "archives")]
    Target { name: "archive", run: archive },
    #[cfg(feature = "archives")]
    Target { name: "archive_index", run: archive_index },
    #[cfg(feature = "catalogs")]
    Target { name: "catalog", run: catalog },
    #[cfg(feature = "catalogs")]
    Target { name: "catalog_layer", run: catalog_layer },
    #[cfg(feature = "registries")]
    Target { name: "challenge", run: challenge },
    #[cfg(feature = "charts")]
    Target { name: "chart", run: chart },
    #[cfg(feature = "charts")]
    Target { name: "chart_archive", run: chart_archive },
    #[cfg(feature = "charts")]
    Target { name: "chart_index", run: chart_index },
    #[cfg(feature = "deletions")]
    Target { name: "delete_list", run: delete_list },
    #[cfg(feature = "releases")]
    Target { name: "graph", run: graph },
    Target { name: "image_set", run: image_set },
    #[cfg(feature = "releases")]
    Target { name: "keyring", run: keyring },
    Target { name: "manifest", run: manifest },
    #[cfg(feature = "releases")]
    Target { name: "payload", run: payload },
    #[cfg(feature = "policies")]
    Target { name: "policy", run: policy },
    Target { name: "reference", run: reference },
    #[cfg(feature = "registries")]
    Target { name: "registries_conf", run: registries_conf },
    #[cfg(feature = "releases")]
    Target { name: "signature", run: signature },
    Target { name: "template", run: template },
    Target { name: "timetable", run: timetable },
];

/// Limits of templates: small enough that an input which reaches them is still fast.
const TEMPLATE_LIMITS: go_template::Limits =
    go_template::Limits { steps: 20_000, depth: 100, output_bytes: 1 << 20, value_size: 1 << 16 };

/// The input as text, for parsers that take text only.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// The input up to its first zero byte, and what follows that: for targets that take two parts.
fn two_parts(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}
