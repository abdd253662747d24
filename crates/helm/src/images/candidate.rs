//! Values that look like images, of which no rendered object is known to use.
//!
//! A guess: mirrored only if the user requests it.

use std::collections::BTreeMap;

use oci::ImageRef;
use serde_json::{Map, Value};

use crate::chart::Chart;
use crate::values::{Table, Tree};

/// Something that looks like an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub image: ImageRef,
    /// Where in the values of the root chart: `db.image`.
    pub paths: Vec<String>,
}

/// The candidates in the values that a chart's templates see, in the order of their names.
pub fn candidates(chart: &Chart, values: &Table) -> Vec<Candidate> {
    let mut found: BTreeMap<ImageRef, Vec<String>> = BTreeMap::new();
    let mut search = Search { found: &mut found };
    search.table(chart, values, "", true);
    let candidate = |(image, mut paths): (ImageRef, Vec<String>)| {
        paths.sort();
        paths.dedup();
        Candidate { image, paths }
    };
    found.into_iter().map(candidate).collect()
}

struct Search<'f> {
    found: &'f mut BTreeMap<ImageRef, Vec<String>>,
}

impl Search<'_> {
    /// `is_root` of a chart's values: there a key may be a sub-chart.
    fn table(&mut self, chart: &Chart, table: &Table, path: &str, is_root: bool) {
        let table = table.borrow();
        let leaf = |key: &str| match table.get(key) {
            Some(Tree::Leaf(value)) => Some(value.clone()),
            _ => None,
        };
        if let Some(image) = assembled(leaf, &chart.metadata.app_version) {
            self.found.entry(image).or_default().push(path.to_owned());
        }
        for (key, value) in table.iter() {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let child = chart.charts.iter().find(|child| is_root && child.name() == key);
            match value {
                Tree::Table(table) => {
                    self.table(child.unwrap_or(chart), table, &below, child.is_some());
                }
                Tree::Leaf(value) => self.leaf(chart, key, value, &below),
            }
        }
    }

    fn leaf(&mut self, chart: &Chart, key: &str, value: &Value, path: &str) {
        match value {
            Value::String(text) if is_image_key(key) => {
                if let Some(image) = complete(text) {
                    self.found.entry(image).or_default().push(path.to_owned());
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.item(chart, key, item, &path);
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, chart: &Chart, key: &str, value: &Value, path: &str) {
        match value {
            Value::Object(entries) => self.object(chart, entries, path),
            value => self.leaf(chart, key, value, path),
        }
    }

    fn object(&mut self, chart: &Chart, entries: &Map<String, Value>, path: &str) {
        let leaf = |key: &str| entries.get(key).cloned();
        if let Some(image) = assembled(leaf, &chart.metadata.app_version) {
            self.found.entry(image).or_default().push(path.to_owned());
        }
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            self.item(chart, key, value, &path);
        }
    }
}

/// `image`, `sidecarImage`, `proxy_image`.
fn is_image_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key == "image" || key.ends_with("image") || key.ends_with("images")
}

/// A reference that is specific enough to be one: it has a tag or a digest.
fn complete(text: &str) -> Option<ImageRef> {
    if text.contains(char::is_whitespace) || text.contains("{{") {
        return None;
    }
    let image: ImageRef = text.parse().ok()?;
    image.pointer().is_some().then_some(image)
}

/// An image from a map with `repository` (or `image`, `name`), `registry`, `tag` and `digest`. By
/// convention the tag is the version of the application when it is empty.
fn assembled(leaf: impl Fn(&str) -> Option<Value>, app_version: &str) -> Option<ImageRef> {
    let text = |key: &str| match leaf(key)? {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let filled = |key: &str| text(key).filter(|text| !text.is_empty());
    let has_version = leaf("tag").is_some() || leaf("digest").is_some() || leaf("sha").is_some();
    let repository = filled("repository")
        .or_else(|| filled("image").filter(|_| has_version))
        .or_else(|| filled("name").filter(|_| has_version && filled("registry").is_some()))?;
    if !has_version && leaf("pullPolicy").is_none() && leaf("registry").is_none() {
        return None;
    }
    let mut name = match filled("registry") {
        Some(registry) => format!("{}/{repository}", registry.trim_end_matches('/')),
        None => repository,
    };
    let digest = filled("digest").or_else(|| filled("sha"));
    match digest {
        Some(digest) if digest.contains(':') => name = format!("{name}@{digest}"),
        Some(digest) => name = format!("{name}@sha256:{digest}"),
        None => {
            let tag = filled("tag").or_else(|| Some(app_version.to_owned()));
            let has_tag = complete(&name).is_some();
            if let Some(tag) = tag.filter(|tag| !tag.is_empty() && !has_tag) {
                name = format!("{name}:{tag}");
            }
        }
    }
    complete(&name)
}
