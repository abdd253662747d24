//! A small operator catalog in an image, with real images for all that it lists.
//!
//! | package | channels (default first) | bundles |
//! |---|---|---|
//! | `foo` | `beta`: 0.1.0 ← 0.2.0 ← 0.3.1, which skips 0.3.0; `old`: 0.1.0 | 0.1.0, 0.2.0, 0.3.0, 0.3.1 |
//! | `bar` | `stable`: 0.1.0 ← 1.0.0; `alpha`: 0.1.0 ← 0.2.0 ← 1.0.0 | 0.1.0, 0.2.0, 1.0.0, which needs `foo` |
//! | `baz` | `stable`: 1.0.0 ← 1.1.0 | 1.0.0, 1.1.0 |

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use oci::{Digest, Platform};
use serde_json::{Value, json};

use crate::images::{Compression, Format, Image, Layer};
use crate::registry::LabRegistry;

/// The registry that the catalog and its operators name.
pub const HOST: &str = "quay.io";
/// The repository of the catalog.
pub const CATALOG: &str = "lab/operator-index";
/// The tag of the catalog.
pub const TAG: &str = "v4.16";

/// Channels: name, and entries with what each replaces and skips.
type Channel = (&'static str, &'static [(&'static str, &'static str, &'static [&'static str])]);

const PACKAGES: &[(&str, &[&str], &[Channel])] = &[
    (
        "bar",
        &["0.1.0", "0.2.0", "1.0.0"],
        &[
            ("stable", &[("0.1.0", "", &[]), ("1.0.0", "0.1.0", &[])]),
            ("alpha", &[("0.1.0", "", &[]), ("0.2.0", "0.1.0", &[]), ("1.0.0", "0.2.0", &[])]),
        ],
    ),
    ("baz", &["1.0.0", "1.1.0"], &[("stable", &[("1.0.0", "", &[]), ("1.1.0", "1.0.0", &[])])]),
    (
        "foo",
        &["0.1.0", "0.2.0", "0.3.0", "0.3.1"],
        &[
            (
                "beta",
                &[
                    ("0.1.0", "", &[]),
                    ("0.2.0", "0.1.0", &[]),
                    ("0.3.0", "0.2.0", &[]),
                    ("0.3.1", "0.2.0", &["0.3.0"]),
                ],
            ),
            ("old", &[("0.1.0", "", &[])]),
        ],
    ),
];

/// A catalog, and the images of its operators.
#[derive(Debug, Clone)]
pub struct Operators {
    /// For amd64 and arm64, with an index that was made from the catalog.
    pub catalog: Image,
    /// By repository and tag, below any registry.
    pub images: BTreeMap<(String, String), Image>,
    /// The files of the catalog, by their paths in its folder.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Operators {
    /// The catalog of the table above.
    pub fn generate() -> Result<Self> {
        Self::with(&[])
    }

    /// The same, where the bundle `foo.v0.2.0` lists `odd` images, too.
    pub fn with(odd: &[&str]) -> Result<Self> {
        let mut images = BTreeMap::new();
        let mut files = BTreeMap::new();
        for (package, versions, channels) in PACKAGES {
            let mut text = String::new();
            let mut add = |document: Value| -> Result<()> {
                text.push_str(&serde_json::to_string_pretty(&document)?);
                text.push('\n');
                Ok(())
            };
            add(json!({
                "schema": "olm.package", "name": package, "defaultChannel": channels[0].0,
            }))?;
            for (channel, entries) in *channels {
                add(document_of_channel(package, channel, entries))?;
            }
            for version in *versions {
                let odd = if (*package, *version) == ("foo", "0.2.0") { odd } else { &[] };
                add(bundle(package, version, odd, &mut images)?)?;
            }
            files.insert(format!("{package}/catalog.json"), text.into_bytes());
        }
        let catalog = catalog_image(&files)?;
        Ok(Self { catalog, images, files })
    }

    /// Stores catalog and operators where clients request them.
    pub fn put(&self, registry: &LabRegistry) -> Result<()> {
        registry.put_image(&self.catalog, CATALOG, TAG)?;
        for ((repository, tag), image) in &self.images {
            registry.put_image(image, repository, tag)?;
        }
        Ok(())
    }

    /// Writes the files of the catalog below a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        for (path, bytes) in &self.files {
            let path = folder.join(path);
            let writing = || format!("writing {}", path.display());
            std::fs::create_dir_all(path.parent().unwrap_or(folder)).with_context(writing)?;
            std::fs::write(&path, bytes).with_context(writing)?;
        }
        Ok(())
    }

    /// The image in a repository, by its tag.
    pub fn image(&self, repository: &str, tag: &str) -> Result<&Image> {
        let key = (repository.to_owned(), tag.to_owned());
        self.images.get(&key).with_context(|| format!("there is no {repository}:{tag}"))
    }
}

fn document_of_channel(package: &str, channel: &str, entries: &[(&str, &str, &[&str])]) -> Value {
    let name = |version: &str| format!("{package}.v{version}");
    let entries = entries.iter().map(|(version, replaces, skips)| {
        let mut entry = json!({"name": name(version)});
        if !replaces.is_empty() {
            entry["replaces"] = json!(name(replaces));
        }
        if !skips.is_empty() {
            entry["skips"] = skips.iter().map(|skipped| json!(name(skipped))).collect();
        }
        entry
    });
    let entries: Vec<Value> = entries.collect();
    json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries})
}

/// A bundle: its own image by digest, one of its own by tag, one that all share and that has no name.
fn bundle(
    package: &str,
    version: &str,
    odd: &[&str],
    images: &mut BTreeMap<(String, String), Image>,
) -> Result<Value> {
    let mut made = |repository: String, tag: &str| -> Result<Digest> {
        let image = Image::tiny(&format!("{repository}:{tag}"))?;
        let digest = image.digest();
        images.insert((repository, tag.to_owned()), image);
        Ok(digest)
    };
    let tag = format!("v{version}");
    let own = made(format!("lab/{package}-bundle"), &tag)?;
    made(format!("lab/{package}"), &tag)?;
    let shared = made("lab/shared".to_owned(), "v1")?;
    let mut related = vec![
        json!({"name": "operator", "image": format!("{HOST}/lab/{package}:{tag}")}),
        json!({"name": "", "image": format!("{HOST}/lab/shared@{shared}")}),
    ];
    related.extend(odd.iter().map(|image| json!({"name": "odd", "image": image})));
    let mut properties = vec![json!({
        "type": "olm.package", "value": {"packageName": package, "version": version},
    })];
    if (package, version) == ("bar", "1.0.0") {
        properties.push(json!({
            "type": "olm.package.required",
            "value": {"packageName": "foo", "versionRange": ">=0.1.0"},
        }));
    }
    Ok(json!({
        "schema": "olm.bundle",
        "name": format!("{package}.{tag}"),
        "package": package,
        "image": format!("{HOST}/lab/{package}-bundle@{own}"),
        "properties": properties,
        "relatedImages": related,
    }))
}

fn catalog_image(files: &BTreeMap<String, Vec<u8>>) -> Result<Image> {
    let placed: Vec<(String, &[u8])> =
        files.iter().map(|(path, bytes)| (format!("configs/{path}"), &**bytes)).collect();
    let placed: Vec<(&str, &[u8])> = placed.iter().map(|(path, bytes)| (&**path, *bytes)).collect();
    let configs = Layer::from_files(&placed)?;
    let cache = Layer::from_files(&[("tmp/cache/pogreb.v1/db", b"stale".as_slice())])?;
    let settings = json!({
        "Entrypoint": ["/bin/opm"],
        "Cmd": ["serve", "/configs", "--cache-dir=/tmp/cache"],
        "Labels": {"operators.operatorframework.io.index.configs.v1": "/configs"},
    });
    let on = |architecture: &str| {
        let base = Layer::generate(&format!("opm/{architecture}"), 4_000, Compression::Gzip)?;
        let layers = [base, configs.clone(), cache.clone()];
        let platform = Platform::new("linux", architecture);
        Image::configured(Format::Docker, platform, &layers, &settings)
    };
    Image::list(Format::Docker, [on("amd64")?, on("arm64")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_that_bundles_list_is_there() {
        let operators = Operators::generate().unwrap();
        let mut listed = 0;
        for bytes in operators.files.values() {
            let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
            for document in documents.map(Result::unwrap) {
                let related = document["relatedImages"].as_array().cloned().unwrap_or_default();
                let images =
                    related.iter().map(|image| &image["image"]).chain([&document["image"]]);
                for image in images.filter_map(Value::as_str) {
                    let name = image.strip_prefix("quay.io/").unwrap();
                    let found = operators.images.iter().any(|((repository, tag), held)| {
                        name == format!("{repository}:{tag}")
                            || name == format!("{repository}@{}", held.digest())
                    });
                    assert!(found, "{image}");
                    listed += 1;
                }
            }
        }
        assert_eq!(listed, 9 * 3);
    }
}
