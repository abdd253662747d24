//! Reads a catalog's documents, one after the other, each once.

use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::constraint::{self, ApiProperty, PackageRequired};
use crate::document::{self, Document, Head, Map, Property};
use crate::files::{File, Files, LeftOut};
use crate::load_error::LoadError;
use crate::model::{Blob, Bundle, Catalog, Channel, Definition, Deprecations, Package};
use crate::rules::Flaw;
use crate::text::Text;

/// The catalogs of Red Hat have 10,000.
const MAX_DOCUMENTS: usize = 1_000_000;
/// Entries, properties and related images, all together. Each costs less than 100 bytes.
const MAX_ITEMS: usize = 5_000_000;

const PACKAGE: &str = "olm.package";
const CHANNEL: &str = "olm.channel";
const BUNDLE: &str = "olm.bundle";
const DEPRECATIONS: &str = "olm.deprecations";

/// Files and documents that are named one by one when they cannot be read.
const MAX_LEFT_OUT: usize = 100;

impl<'a> Catalog<'a> {
    /// Reads every document of every file. Documents of one package may be spread over files, and
    /// come in any order. One that cannot be read is a flaw of its package; where the package is
    /// not known, it is left out.
    pub fn load(files: &'a Files<'_>) -> Result<Self, LoadError> {
        let mut loader = Loader::default();
        loader.catalog.left_out.clone_from(&files.left_out);
        loader.catalog.repeated_keys.clone_from(&files.repeated_keys);
        for file in &files.list {
            loader.file(file)?;
        }
        let catalog = loader.catalog;
        if !catalog.packages.is_empty() {
            return Ok(catalog);
        }
        if let Some(template) = loader.template {
            return Err(template);
        }
        match &catalog.left_out[..] {
            [] => Ok(catalog),
            [first, others @ ..] => {
                let (first, more) = (first.why.clone(), others.len());
                Err(LoadError::NothingLeft { first, more })
            }
        }
    }
}

#[derive(Default)]
struct Loader<'a> {
    catalog: Catalog<'a>,
    documents: usize,
    items: usize,
    /// The first template among the documents.
    template: Option<LoadError>,
}

/// A document, as far as it could be read.
enum Read<'a> {
    Known(Document<'a>),
    /// Some fields are none that we know by these names.
    Other(Head<'a>),
    /// It is JSON, and no document of a catalog.
    Bad(Head<'a>, serde_json::Error),
}

impl<'a> Loader<'a> {
    fn file(&mut self, file: &'a File<'_>) -> Result<(), LoadError> {
        let text: &'a str = &file.json;
        let mut at = 0;
        loop {
            at += text[at..].len() - text[at..].trim_start().len();
            if at == text.len() {
                return Ok(());
            }
            self.documents += 1;
            if self.documents > MAX_DOCUMENTS {
                return Err(LoadError::TooManyDocuments { limit: MAX_DOCUMENTS });
            }
            let (read, length) = match next(&text[at..]) {
                Ok(next) => next,
                // Where the next document starts is not known.
                Err(error) => {
                    self.leave_out(file, wrong(file, at, &error).to_string());
                    return Ok(());
                }
            };
            let blob = Blob(text[at..at + length].trim_end());
            self.document(file, at, read, blob);
            if self.items > MAX_ITEMS {
                return Err(LoadError::TooManyItems { limit: MAX_ITEMS });
            }
            at += length;
        }
    }

    fn document(&mut self, file: &File<'_>, at: usize, read: Read<'a>, blob: Blob<'a>) {
        let (head, result) = match read {
            Read::Known(document) => {
                let Document { schema, package, name, .. } = &document;
                let head =
                    Head { schema: schema.clone(), package: package.clone(), name: name.clone() };
                self.note_template(file, &head);
                (head, self.known(document, blob))
            }
            Read::Other(head) => {
                self.note_template(file, &head);
                return self.other(head.package, blob);
            }
            Read::Bad(head, error) => (head, Err(error)),
        };
        let Err(error) = result else { return };
        let why = wrong(file, at, &error).to_string();
        let owner = if &*head.schema == PACKAGE { &head.name } else { &head.package };
        if head.schema.is_empty() || owner.is_empty() {
            return self.leave_out(file, why);
        }
        let flaw =
            Flaw::Document { schema: head.schema.to_string(), name: head.name.to_string(), why };
        self.package(owner.clone()).flaws.push(flaw);
    }

    fn leave_out(&mut self, file: &File<'_>, why: String) {
        if self.catalog.left_out.len() < MAX_LEFT_OUT {
            self.catalog.left_out.push(LeftOut { path: file.path.clone(), why });
        }
    }

    fn note_template(&mut self, file: &File<'_>, head: &Head<'_>) {
        let kind = match &*head.schema {
            "olm.semver" => "semver",
            "olm.template.basic" => "basic",
            "olm.composite" => "composite",
            _ => return,
        };
        let (path, schema) = (file.path.clone(), head.schema.to_string());
        self.template.get_or_insert(LoadError::Template { path, schema, kind });
    }

    fn known(&mut self, document: Document<'a>, blob: Blob<'a>) -> Result<(), serde_json::Error> {
        self.items += document.properties.0.len() + document.related_images.0.len();
        match &*document.schema {
            "" => Err(serde::de::Error::missing_field("schema")),
            PACKAGE => {
                let package = self.package(document.name);
                let definition = Definition { default_channel: document.default_channel, blob };
                if package.definition.replace(definition).is_some() {
                    package.flaws.push(Flaw::TwoDefinitions);
                }
                Ok(())
            }
            CHANNEL => {
                let entries = document::entries(document.entries)?;
                self.items += entries.iter().map(|entry| 1 + entry.skips.len()).sum::<usize>();
                let package = self.package(document.package);
                let name = document.name;
                if package.channels.contains_key(&*name) {
                    package.flaws.push(Flaw::TwoChannels { channel: name.to_string() });
                } else {
                    package.channels.insert(name.clone(), Channel { name, entries, blob });
                }
                Ok(())
            }
            BUNDLE => {
                let package = self.package(document.package.clone());
                if package.bundles.contains_key(&*document.name) {
                    package.flaws.push(Flaw::TwoBundles { bundle: document.name.to_string() });
                    return Ok(());
                }
                let bundle = bundle(document, blob, &mut package.flaws)?;
                package.bundles.insert(bundle.name.clone(), bundle);
                Ok(())
            }
            DEPRECATIONS => {
                let entries = document::deprecations(document.entries)?;
                self.items += entries.len();
                let package = self.package(document.package);
                if package.deprecations.replace(Deprecations { entries, blob }).is_some() {
                    package.flaws.push(Flaw::TwoDeprecations);
                }
                Ok(())
            }
            _ => {
                self.other(document.package, blob);
                Ok(())
            }
        }
    }

    fn package(&mut self, name: Text<'a>) -> &mut Package<'a> {
        self.catalog.packages.entry(name.clone()).or_insert_with(|| Package::new(name))
    }

    fn other(&mut self, package: Text<'a>, blob: Blob<'a>) {
        if package.is_empty() {
            self.catalog.loose.push(blob);
        } else {
            self.package(package).others.push(blob);
        }
    }
}

/// Reads the document at the start of `text`; also returns how long it is.
fn next(text: &str) -> Result<(Read<'_>, usize), serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter();
    let error = match stream.next() {
        Some(Ok(Map(document))) => return Ok((Read::Known(document), stream.byte_offset())),
        Some(Err(error)) => error,
        None => serde::de::Error::custom("the text ends before the document does"),
    };
    if !error.is_data() {
        return Err(error);
    }
    // A schema of others may use our names for what it likes.
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let Some(Ok(raw)) = stream.next() else { return Err(error) };
    match serde_json::from_str(raw.get()) {
        Ok(Map(head @ Head { .. })) if is_other(&head) => {
            Ok((Read::Other(head), stream.byte_offset()))
        }
        Ok(Map(head)) => Ok((Read::Bad(head, error), stream.byte_offset())),
        Err(_) => Ok((Read::Bad(Head::default(), error), stream.byte_offset())),
    }
}

fn is_other(head: &Head<'_>) -> bool {
    !matches!(&*head.schema, "" | PACKAGE | CHANNEL | BUNDLE | DEPRECATIONS)
}

/// The error with its place in the file. What is wrong with a part of a document is placed where the
/// document starts.
fn wrong(file: &File<'_>, at: usize, error: &serde_json::Error) -> LoadError {
    let (mut line, mut column) = file.place(at);
    if file.yaml_lines.is_none() && error.line() > 0 {
        let within = error.column().max(1);
        column = if error.line() == 1 { column - 1 + within } else { within };
        line += error.line() - 1;
    }
    // The library's own place counts from the start of the document.
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default().to_owned();
    LoadError::Document { path: file.path.clone(), line, column, why }
}

#[derive(Deserialize)]
struct PackageProperty<'a> {
    #[serde(borrow, rename = "packageName", default)]
    package: Text<'a>,
    #[serde(borrow, default)]
    version: Text<'a>,
}

fn bundle<'a>(
    document: Document<'a>,
    blob: Blob<'a>,
    flaws: &mut Vec<Flaw>,
) -> Result<Bundle<'a>, serde_json::Error> {
    let mut bundle = Bundle {
        name: document.name,
        image: document.image.filled(),
        version: None,
        related_images: document.related_images.0,
        provides: Vec::new(),
        requires: Vec::new(),
        blob,
    };
    let mut versions: Vec<Text<'a>> = Vec::new();
    let mut has_objects = false;
    for Property { kind, value } in document.properties.0 {
        let Some(value) = value.map(RawValue::get) else { continue };
        match &*kind {
            "olm.package" => {
                let property: PackageProperty<'a> = serde_json::from_str(value)?;
                if property.package != document.package {
                    let (bundle, says) = (bundle.name.to_string(), property.package.to_string());
                    flaws.push(Flaw::OtherPackage { bundle, says });
                }
                versions.push(property.version);
            }
            "olm.gvk" => {
                bundle.provides.push(serde_json::from_str::<ApiProperty<'a>>(value)?.api());
            }
            "olm.gvk.required" => {
                bundle.requires.push(serde_json::from_str::<ApiProperty<'a>>(value)?.into());
            }
            "olm.package.required" => {
                bundle.requires.push(serde_json::from_str::<PackageRequired<'a>>(value)?.into());
            }
            "olm.constraint" => bundle.requires.push(constraint::parse(value)?),
            "olm.bundle.object" => has_objects = true,
            _ => {}
        }
    }
    let name = || bundle.name.to_string();
    if bundle.image.is_none() && !has_objects {
        flaws.push(Flaw::NoImage { bundle: name() });
    }
    match &versions[..] {
        [version] => match Version::parse(version) {
            Ok(version) => bundle.version = Some(version),
            Err(_) => {
                flaws.push(Flaw::Version { bundle: name(), version: version.to_string() });
            }
        },
        versions => flaws.push(Flaw::Versions { bundle: name(), count: versions.len() }),
    }
    Ok(bundle)
}

#[cfg(test)]
mod tests;
