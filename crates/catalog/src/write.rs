//! A filtered catalog as files: the documents as they came, except where the selection changes one.

use std::collections::BTreeMap;
use std::io;

use serde_json::value::RawValue;

use crate::document::Deprecation;
use crate::filter::{Filtered, KeptChannel, KeptPackage};
use crate::model::{Blob, Deprecations};
use crate::text::Text;
use crate::yaml::quote;

/// A file of a catalog that is written: its path below the catalog's folder, and its parts, which
/// follow each other in the file.
#[derive(Debug)]
pub struct CatalogFile<'a> {
    pub path: String,
    parts: Vec<Part<'a>>,
}

#[derive(Debug)]
enum Part<'a> {
    AsItCame(&'a str),
    Changed(String),
}

impl CatalogFile<'_> {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.text().len() as u64 + 1).sum()
    }

    /// Writes the file: one JSON document after the other.
    pub fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.parts.iter().try_for_each(|part| {
            out.write_all(part.text().as_bytes())?;
            out.write_all(b"\n")
        })
    }
}

impl Part<'_> {
    fn text(&self) -> &str {
        match self {
            Self::AsItCame(text) => text,
            Self::Changed(text) => text,
        }
    }
}

impl<'a> Filtered<'_, 'a> {
    /// The files of the catalog, in the order of their paths: `catalog.json` for what belongs to no
    /// package, `<package>/catalog.json` for each package.
    pub fn files(&self) -> Vec<CatalogFile<'a>> {
        let mut files = Vec::new();
        if !self.catalog.loose.is_empty() {
            let parts = self.catalog.loose.iter().map(|blob| Part::AsItCame(blob.0)).collect();
            files.push(CatalogFile { path: "catalog.json".to_owned(), parts });
        }
        files.extend(self.packages.iter().map(package_file));
        files
    }
}

fn package_file<'a>(kept: &KeptPackage<'_, 'a>) -> CatalogFile<'a> {
    let package = kept.package;
    let mut parts: Vec<Part<'a>> = Vec::new();
    if let Some(definition) = &package.definition {
        parts.push(if *kept.default_channel == *definition.default_channel {
            Part::AsItCame(definition.blob.0)
        } else {
            let mut channel = String::new();
            quote(kept.default_channel, &mut channel);
            Part::Changed(with_field(definition.blob, "defaultChannel", &channel))
        });
    }
    parts.extend(kept.channels.iter().map(channel_part));
    parts.extend(kept.bundles().iter().map(|bundle| Part::AsItCame(bundle.blob.0)));
    parts.extend(package.others.iter().map(|blob| Part::AsItCame(blob.0)));
    parts.extend(package.deprecations.iter().filter_map(|list| deprecations_part(kept, list)));
    CatalogFile { path: format!("{}/catalog.json", package.name), parts }
}

fn channel_part<'a>(kept: &KeptChannel<'_, 'a>) -> Part<'a> {
    if kept.entries.len() == kept.channel.entries.len() {
        return Part::AsItCame(kept.channel.blob.0);
    }
    let entries: Vec<&str> = kept.entries().map(|entry| entry.json).collect();
    let entries = format!("[{}]", entries.join(","));
    Part::Changed(with_field(kept.channel.blob, "entries", &entries))
}

/// The deprecations of what is kept, if any.
fn deprecations_part<'a>(kept: &KeptPackage<'_, 'a>, list: &Deprecations<'a>) -> Option<Part<'a>> {
    let bundles = kept.bundles();
    let is_kept = |entry: &&Deprecation<'_>| match &*entry.schema {
        "olm.bundle" => bundles.iter().any(|bundle| bundle.name == entry.name),
        "olm.channel" => kept.channels.iter().any(|kept| kept.channel.name == entry.name),
        _ => true,
    };
    let left: Vec<&str> = list.entries.iter().filter(is_kept).map(|entry| entry.json).collect();
    if left.is_empty() {
        return None;
    }
    Some(if left.len() == list.entries.len() {
        Part::AsItCame(list.blob.0)
    } else {
        Part::Changed(with_field(list.blob, "entries", &format!("[{}]", left.join(","))))
    })
}

/// The document with one of its fields changed, or added; all else as it was.
fn with_field(document: Blob<'_>, field: &str, value: &str) -> String {
    // It was read as a map before.
    let fields: BTreeMap<Text<'_>, &RawValue> =
        serde_json::from_str(document.0).unwrap_or_default();
    let mut json = String::with_capacity(document.0.len() + value.len());
    json.push('{');
    let mut add = |key: &str, value: &str| {
        if json.len() > 1 {
            json.push(',');
        }
        quote(key, &mut json);
        json.push(':');
        json.push_str(value);
    };
    let mut found = false;
    for (key, held) in &fields {
        let is_field = key.eq_ignore_ascii_case(field);
        found |= is_field;
        add(key, if is_field { value } else { held.get() });
    }
    if !found {
        add(field, value);
    }
    json.push('}');
    json
}
