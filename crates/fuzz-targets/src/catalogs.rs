//! Operator catalogs: their documents, and the image layers that hold them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use catalog::{Catalog, Files, Filtered, Unpacked, upgrade};
use image_set::Operator;

/// What is selected of every catalog: everything, the newest versions, a range.
static SELECTIONS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    let text = "\
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
mirror:
  operators:
  - {catalog: 'registry.example.com/full:v1', full: true}
  - {catalog: 'registry.example.com/newest:v1', includeDependencies: true}
  - catalog: registry.example.com/range:v1
    packages:
    - {name: foo, minVersion: 1.0.0, maxVersion: 2.0.0}
";
    let configuration = image_set::parse_image_set("isc.yaml", text);
    configuration.expect("the configuration is valid").mirror.operators
});

/// A file of a catalog, in JSON or YAML.
pub fn catalog(data: &[u8]) {
    let Ok(files) = Files::read([("catalog.yaml", data)]) else { return };
    let Ok(catalog) = Catalog::load(&files) else { return };
    check_listings(&catalog);
    for operator in SELECTIONS.iter() {
        check_selection(&catalog::filter(&catalog, operator));
    }
}

fn check_listings(catalog: &Catalog<'_>) {
    catalog::packages(catalog);
    for package in catalog.packages.values() {
        catalog::flaws(package);
        catalog::channels(package);
        catalog::display_name(package);
        for (name, channel) in &package.channels {
            catalog::versions(package, channel);
            // An error where the channel has no head.
            let _ = upgrade::graph(package, name);
        }
    }
}

/// What is selected is written as a catalog that can be read, with the same packages.
fn check_selection(filtered: &Filtered<'_, '_>) {
    catalog::related_images(filtered);
    // A whole catalog is copied, not written.
    if filtered.whole {
        return;
    }
    let written: Vec<(String, Vec<u8>)> = filtered
        .files()
        .into_iter()
        .map(|file| {
            let mut bytes = Vec::new();
            file.write_to(&mut bytes).expect("memory can be written to");
            assert_eq!(file.size(), bytes.len() as u64);
            (file.path, bytes)
        })
        .collect();
    let files = Files::read(written.iter().map(|(path, bytes)| (path.as_str(), &bytes[..])));
    let files = files.expect("the files of a selection are the files of a catalog");
    let again = Catalog::load(&files).expect("a selection is a catalog");
    let selected: BTreeSet<&str> =
        filtered.packages.iter().map(|kept| &*kept.package.name).collect();
    let read: BTreeSet<&str> = again.packages.keys().map(|name| &**name).collect();
    assert_eq!(read, selected);
}

/// A layer of a catalog's image.
pub fn catalog_layer(data: &[u8]) {
    let mut unpacked = Unpacked::new("/configs");
    if unpacked.read_layer(data).is_err() {
        return;
    }
    let bytes: u64 = unpacked.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(bytes, unpacked.bytes());
    if let Ok(files) = unpacked.files() {
        // An error where the files are not a catalog.
        let _ = Catalog::load(&files);
    }
}
