//! Catalogs of operators, as images that a registry has.

use lab::images::{Blob, Format, Image, Layer};
use oci::{Platform, RawManifest};
use serde_json::{Value, json};

/// Specifies in which folder of an image its catalog is.
const FOLDER_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// A catalog that is an image: its files, with their paths from the catalog's folder.
pub(crate) fn catalog_image(files: &[(&str, &[u8])]) -> Image {
    let paths: Vec<String> = files.iter().map(|(path, _)| format!("configs/{path}")).collect();
    let files: Vec<(&str, &[u8])> =
        paths.iter().zip(files).map(|(path, (_, bytes))| (path.as_str(), *bytes)).collect();
    let layer = Layer::from_files(&files).unwrap();
    let platform = Platform::new("linux", "amd64");
    let mut image = Image::new(Format::Oci, platform, &[layer]).unwrap();
    let mut manifest: Value = serde_json::from_slice(&image.root().bytes).unwrap();
    let plain = manifest["config"]["digest"].as_str().unwrap().parse().unwrap();
    let plain = image.blobs.remove(&plain).unwrap();
    let mut config: Value = serde_json::from_slice(&plain.bytes().unwrap()).unwrap();
    config["config"]["Labels"] = json!({ FOLDER_LABEL: "/configs" });
    let config = Blob::from_bytes(serde_json::to_vec(&config).unwrap());
    let kind = manifest["config"]["mediaType"].as_str().unwrap().to_owned();
    manifest["config"] = serde_json::to_value(config.descriptor(&kind)).unwrap();
    image.blobs.insert(config.digest, config);
    let bytes = serde_json::to_vec(&manifest).unwrap();
    image.manifests = vec![RawManifest::new(manifest["mediaType"].as_str(), bytes).unwrap()];
    image
}

/// The documents of a package with one channel: versions, and what else is in their entries.
pub(crate) fn package(name: &str, channel: &str, entries: &[(&str, Value)]) -> String {
    let bundle = |version: &str| format!("{name}.v{version}");
    let mut documents = vec![json!({
        "schema": "olm.package", "name": name, "defaultChannel": channel,
    })];
    let entries_of_channel: Vec<Value> = entries
        .iter()
        .map(|(version, rest)| {
            let mut entry = json!({ "name": bundle(version) });
            for (key, value) in rest.as_object().into_iter().flatten() {
                entry[key] = value.clone();
            }
            entry
        })
        .collect();
    documents.push(json!({
        "schema": "olm.channel", "package": name, "name": channel, "entries": entries_of_channel,
    }));
    for (version, _) in entries {
        documents.push(json!({
            "schema": "olm.bundle",
            "package": name,
            "name": bundle(version),
            "image": format!("quay.io/org/{name}:{version}"),
            "properties": [
                { "type": "olm.package", "value": { "packageName": name, "version": version } },
                { "type": "olm.csv.metadata", "value": { "displayName": format!("The {name}\noperator") } },
            ],
        }));
    }
    documents.iter().map(|document| format!("{document}\n")).collect()
}
