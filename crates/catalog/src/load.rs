//! Reads a catalog's documents, one after the other, each once.

use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::document::{self, Document, Head, Map, Property};
use crate::files::{File, Files};
use crate::load_error::LoadError;
use crate::model::{
    Api, Blob, Bundle, Catalog, Channel, Definition, Deprecations, Package, Requirement,
};
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

impl<'a> Catalog<'a> {
    /// Reads every document of every file. Documents of one package may be spread over files, and
    /// come in any order.
    pub fn load(files: &'a Files<'_>) -> Result<Self, LoadError> {
        let mut loader = Loader::default();
        for file in &files.list {
            loader.file(file)?;
        }
        Ok(loader.catalog)
    }
}

#[derive(Default)]
struct Loader<'a> {
    catalog: Catalog<'a>,
    documents: usize,
    items: usize,
}

/// A document, and how long its text is.
enum Read<'a> {
    Known(Document<'a>),
    /// Some fields are none that we know by these names.
    Other(Head<'a>),
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
            let (read, length) = next(&text[at..]).map_err(|error| wrong(file, at, &error))?;
            let blob = Blob(text[at..at + length].trim_end());
            self.document(read, blob).map_err(|error| wrong(file, at, &error))?;
            if self.items > MAX_ITEMS {
                return Err(LoadError::TooManyItems { limit: MAX_ITEMS });
            }
            at += length;
        }
    }

    fn document(&mut self, read: Read<'a>, blob: Blob<'a>) -> Result<(), serde_json::Error> {
        let document = match read {
            Read::Known(document) => document,
            Read::Other(Head { package, .. }) => {
                self.other(package, blob);
                return Ok(());
            }
        };
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
        _ => Err(error),
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

#[derive(Deserialize)]
struct PackageRequired<'a> {
    #[serde(borrow, rename = "packageName", default)]
    package: Text<'a>,
    #[serde(borrow, rename = "versionRange", default)]
    range: Text<'a>,
}

#[derive(Deserialize)]
struct ApiProperty<'a> {
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
}

impl<'a> From<ApiProperty<'a>> for Api<'a> {
    fn from(ApiProperty { group, version, kind }: ApiProperty<'a>) -> Self {
        Self { group, version, kind }
    }
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
                bundle.provides.push(serde_json::from_str::<ApiProperty<'a>>(value)?.into());
            }
            "olm.gvk.required" => {
                let api = serde_json::from_str::<ApiProperty<'a>>(value)?.into();
                bundle.requires.push(Requirement::Api(api));
            }
            "olm.package.required" => {
                let PackageRequired { package, range } = serde_json::from_str(value)?;
                bundle.requires.push(Requirement::Package { name: package, range });
            }
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
