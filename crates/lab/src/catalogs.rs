//! Operator catalogs whose bytes follow from a name: packages, channels, bundles and all that real
//! ones carry along.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use oci::Digest;

/// How large a catalog is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub packages: usize,
    /// Per package; each is in all channels of its package.
    pub bundles: usize,
    pub channels: usize,
    /// Per bundle.
    pub related_images: usize,
    /// Bytes of text that a bundle carries: descriptions, examples, annotations.
    pub text: usize,
}

impl Shape {
    /// As the whole index of Red Hat: 300 MB, 9,600 documents, 90,000 related images.
    pub const WHOLE_INDEX: Self =
        Self { packages: 150, bundles: 60, channels: 3, related_images: 10, text: 31_500 };

    /// The same with a hundredth of the packages.
    pub const SMALL: Self = Self { packages: 2, ..Self::WHOLE_INDEX };
}

/// Writes a catalog below `folder`, one file per package, as image builders do it:
/// `<package>/catalog.json`. Returns its length in bytes.
pub fn write(shape: Shape, folder: &Path) -> Result<u64> {
    let mut length = 0;
    for number in 0..shape.packages {
        let name = package_name(number);
        let parent = folder.join(&name);
        let path = parent.join("catalog.json");
        let making = || format!("generating {}", path.display());
        fs::create_dir_all(&parent).with_context(making)?;
        let mut out = BufWriter::new(fs::File::create(&path).with_context(making)?);
        for document in documents(shape, &name) {
            length += document.len() as u64 + 1;
            writeln!(out, "{document}").with_context(making)?;
        }
        out.flush().with_context(making)?;
    }
    Ok(length)
}

/// The name of a package of every generated catalog, counted from 0.
pub fn package_name(number: usize) -> String {
    format!("operator-{number:03}")
}

/// The version of a package's bundle, counted from 0.
pub fn version(number: usize) -> String {
    format!("{}.{}.{}", 1 + number / 20, number / 5 % 4, number % 5)
}

/// The documents of one package, indented as opm does it.
fn documents(shape: Shape, package: &str) -> impl Iterator<Item = String> {
    let definition = format!(
        "{{\n    \"schema\": \"olm.package\",\n    \"name\": \"{package}\",\n    \
         \"defaultChannel\": \"channel-0\"\n}}"
    );
    let channels = (0..shape.channels).map(move |number| channel(shape, package, number));
    let bundles = (0..shape.bundles).map(move |number| bundle(shape, package, number));
    std::iter::once(definition).chain(channels).chain(bundles)
}

fn channel(shape: Shape, package: &str, number: usize) -> String {
    let mut entries = String::new();
    for bundle in 0..shape.bundles {
        let comma = if bundle > 0 { "," } else { "" };
        let replaces = match bundle.checked_sub(1) {
            Some(before) => {
                format!(",\n            \"replaces\": \"{package}.v{}\"", version(before))
            }
            None => String::new(),
        };
        let _ = write!(
            entries,
            "{comma}\n        {{\n            \"name\": \"{package}.v{0}\"{replaces},\n            \
             \"skipRange\": \">=1.0.0 <{0}\"\n        }}",
            version(bundle)
        );
    }
    format!(
        "{{\n    \"schema\": \"olm.channel\",\n    \"package\": \"{package}\",\n    \
         \"name\": \"channel-{number}\",\n    \"entries\": [{entries}\n    ]\n}}"
    )
}

fn bundle(shape: Shape, package: &str, number: usize) -> String {
    let version = version(number);
    let name = format!("{package}.v{version}");
    let image = |part: &str| {
        let digest = Digest::of(format!("{name}/{part}").as_bytes());
        format!("registry.example.com/{package}/{part}@{digest}")
    };
    let mut related = String::new();
    for number in 0..shape.related_images {
        let part = format!("part-{number}");
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            related,
            "{comma}\n        {{\n            \"name\": \"{part}\",\n            \"image\": \"{}\"\n        }}",
            image(&part)
        );
    }
    let examples = text(&name, shape.text / 2, true);
    let description = text(package, shape.text / 2, false);
    format!(
        "{{\n    \"schema\": \"olm.bundle\",\n    \"name\": \"{name}\",\n    \"package\": \"{package}\",\n    \
         \"image\": \"{}\",\n    \"properties\": [\n        {{\n            \"type\": \"olm.gvk\",\n            \
         \"value\": {{\n                \"group\": \"{package}.example.com\",\n                \"kind\": \"Thing\",\n                \
         \"version\": \"v1\"\n            }}\n        }},\n        {{\n            \"type\": \"olm.package\",\n            \
         \"value\": {{\n                \"packageName\": \"{package}\",\n                \"version\": \"{version}\"\n            \
         }}\n        }},\n        {{\n            \"type\": \"olm.csv.metadata\",\n            \"value\": {{\n                \
         \"annotations\": {{\n                    \"alm-examples\": \"{examples}\"\n                }},\n                \
         \"description\": \"{description}\",\n                \"displayName\": \"Operator {package}\"\n            \
         }}\n        }}\n    ],\n    \"relatedImages\": [{related}\n    ]\n}}",
        image("bundle")
    )
}

/// Prose, or JSON inside of text with its many escapes, of about `length` bytes.
fn text(name: &str, length: usize, escaped: bool) -> String {
    let mut text = String::with_capacity(length + 160);
    let mut line = 0;
    while text.len() < length {
        let word = Digest::of(format!("{name}/{line}").as_bytes()).short();
        let _ = match escaped {
            true => write!(
                text,
                "{{\\n  \\\"kind\\\": \\\"Thing\\\",\\n  \\\"name\\\": \\\"{word}\\\"\\n}},\\n"
            ),
            false => write!(
                text,
                "The operator keeps {word} in order and says so where somebody looks at its status.\\n\\n"
            ),
        };
        line += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_is_json_and_the_same_every_time() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let shape = Shape { bundles: 3, ..Shape::SMALL };
        let length = write(shape, one.path()).unwrap();
        assert_eq!(write(shape, two.path()).unwrap(), length);
        let path = "operator-001/catalog.json";
        let bytes = fs::read(one.path().join(path)).unwrap();
        assert_eq!(bytes, fs::read(two.path().join(path)).unwrap());
        let documents = serde_json::Deserializer::from_slice(&bytes).into_iter();
        let documents: Vec<serde_json::Value> = documents.map(|one| one.unwrap()).collect();
        assert_eq!(documents.len(), 1 + 3 + 3);
        assert_eq!(documents[6]["relatedImages"].as_array().unwrap().len(), 10);
    }
}
