//! The two documents: what to mirror, and what to delete.

use located_yaml::{Keys, Loaded, Meaning, Value};
use serde::Serialize;
use timetable::Timetable;

use crate::finding::{EntryPosition, Finding, Findings, Problem};
use crate::helm::Helm;
use crate::image::{AdditionalImage, BlockedImage};
use crate::operator::Operator;
use crate::platform::PlatformSection;
use crate::section::{LocatedValue, Section, Sink, Unique};
use crate::{API_VERSION, API_VERSION_ALIAS, OLDER_API_VERSION};

/// The largest archive size whose bytes can be counted.
const MAX_ARCHIVE_GIB: u64 = u64::MAX >> 30;

const IMAGE_SET: &str = "ImageSetConfiguration";
const DELETE: &str = "DeleteImageSetConfiguration";

/// A configuration of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    ImageSet(ImageSetConfiguration),
    Delete(DeleteImageSetConfiguration),
}

/// What to mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSetConfiguration {
    /// The most that one file of an archive holds, in GiB. `None` where the
    /// configuration leaves it to the program.
    pub archive_size: Option<u64>,
    pub transfer_times: Option<TransferTimes>,
    pub mirror: Mirror,
    /// What `oc-mirror prune` deletes. Mirroring ignores it.
    pub prune: Option<Box<Delete>>,
}

/// When content is transferred, and how fast: the keys `timetable` and `timezone`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransferTimes {
    pub timetable: Option<Timetable>,
    /// As it is written.
    pub timetable_text: Option<String>,
    /// A name of the IANA database. Without one, the machine's own zone.
    pub timezone: Option<String>,
    pub at: EntryPosition,
}

/// What to delete from a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteImageSetConfiguration {
    pub delete: Delete,
}

/// The `mirror` section. All empty is fine here: there is nothing to mirror then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<PlatformSection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Operator>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_images: Vec<AdditionalImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<Helm>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_images: Vec<BlockedImage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// The `delete` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delete {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<PlatformSection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Operator>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_images: Vec<AdditionalImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<Helm>,
    /// What stays although it is selected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_images: Vec<BlockedImage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// A sample, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub name: String,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A document, and what deserves a warning about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<T> {
    pub document: T,
    /// In the order of the file.
    pub warnings: Vec<Finding>,
}

/// Reads a configuration of either kind. All that is wrong with it is found,
/// not only the first thing. `file_name` is for messages; nothing is opened.
pub fn parse(file_name: &str, text: &str) -> Result<Document, Findings> {
    read(file_name, text, |root, kind| match kind {
        Kind::ImageSet => Document::ImageSet(ImageSetConfiguration::read(root)),
        Kind::Delete => Document::Delete(DeleteImageSetConfiguration::read(root)),
    })
    .map(|parsed| parsed.document)
}

/// Reads a configuration of what to mirror; the other kind is rejected.
pub fn parse_image_set(file_name: &str, text: &str) -> Result<ImageSetConfiguration, Findings> {
    parse_image_set_with_warnings(file_name, text).map(|parsed| parsed.document)
}

/// The same, with what deserves a warning.
pub fn parse_image_set_with_warnings(
    file_name: &str,
    text: &str,
) -> Result<Parsed<ImageSetConfiguration>, Findings> {
    read(file_name, text, |root, kind| match kind {
        Kind::ImageSet => ImageSetConfiguration::read(root),
        Kind::Delete => {
            let hint = "list what to mirror below `mirror:` in a file of that kind";
            root.report_key(
                "kind",
                Problem::OtherKind { found: DELETE, expected: IMAGE_SET, hint },
            );
            DeleteImageSetConfiguration::read(root);
            ImageSetConfiguration::default()
        }
    })
}

/// Reads a configuration of what to delete; the other kind is rejected.
pub fn parse_delete(file_name: &str, text: &str) -> Result<DeleteImageSetConfiguration, Findings> {
    read(file_name, text, |root, kind| match kind {
        Kind::Delete => DeleteImageSetConfiguration::read(root),
        Kind::ImageSet => {
            let hint = "list what to delete below `delete:` in a file of that kind";
            root.report_key(
                "kind",
                Problem::OtherKind { found: IMAGE_SET, expected: DELETE, hint },
            );
            ImageSetConfiguration::read(root);
            DeleteImageSetConfiguration::default()
        }
    })
    .map(|parsed| parsed.document)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ImageSet,
    Delete,
}

/// Reads what every document has, and leaves the rest to `body`.
fn read<T>(
    file_name: &str,
    text: &str,
    body: impl FnOnce(&mut Section<'_>, Kind) -> T,
) -> Result<Parsed<T>, Findings> {
    // Others who read these files take `Mirror` for `mirror`.
    let Loaded { root, problems, .. } = located_yaml::load(text, Keys::IgnoreCase);
    let sink = Sink::default();
    for problem in problems {
        sink.report(problem.at, problem.value.into());
    }
    let document = root.as_ref().and_then(|node| {
        let root = LocatedValue { node, path: String::new(), sink: &sink };
        if node.is_null() {
            root.report(Problem::Empty);
            return None;
        }
        let mut root = Section::open(root, |_| "write `kind: ImageSetConfiguration`".to_owned())?;
        let kind = read_kind(&mut root);
        read_api_version(&mut root);
        let document = body(&mut root, kind);
        root.finish();
        Some(document)
    });
    let (found, mut warnings) = sink.into_findings();
    warnings.sort_by_key(|warning| (warning.at.line, warning.at.column));
    match document {
        Some(document) if found.is_empty() => Ok(Parsed { document, warnings }),
        _ => Err(Findings::new(file_name, found)),
    }
}

/// The kind that is written or, so that the rest can be checked as well,
/// the one that must be meant.
fn read_kind(root: &mut Section<'_>) -> Kind {
    let guess = if root.has("delete") { Kind::Delete } else { Kind::ImageSet };
    let Some(text) = root.required("kind", IMAGE_SET) else { return guess };
    let kind = text.parse(|_, found| match found {
        IMAGE_SET => Ok(Kind::ImageSet),
        DELETE => Ok(Kind::Delete),
        found => Err(Problem::UnknownKind { found: found.to_owned() }),
    });
    kind.unwrap_or(guess)
}

fn read_api_version(root: &mut Section<'_>) {
    if let Some(text) = root.text("apiVersion") {
        text.parse(|_, version| match version {
            API_VERSION | OLDER_API_VERSION => Ok(()),
            API_VERSION_ALIAS => {
                root.warn_key("apiVersion", Problem::ApiVersionAlias { found: version.to_owned() });
                Ok(())
            }
            other => Err(Problem::ApiVersion(other.to_owned())),
        });
    }
    root.refuse("storageConfig", "the workspace holds the state now; remove the section");
}

impl ImageSetConfiguration {
    fn read(root: &mut Section<'_>) -> Self {
        let archive_size = read_archive_size(root);
        let transfer_times = TransferTimes::read(root);
        // A file may be for pruning alone.
        if !root.has("prune") {
            root.require_key("mirror", "{additionalImages: []}");
        }
        let prune = root.place("prune").and_then(Delete::read).map(Box::new);
        let mirror = root.place("mirror").and_then(Mirror::read).unwrap_or_default();
        root.refuse("delete", "it belongs to kind DeleteImageSetConfiguration");
        Self { archive_size, transfer_times, mirror, prune }
    }
}

impl DeleteImageSetConfiguration {
    fn read(root: &mut Section<'_>) -> Self {
        root.require_key("delete", "{additionalImages: []}");
        let delete = root.place("delete").and_then(Delete::read).unwrap_or_default();
        root.refuse("mirror", "it belongs to kind ImageSetConfiguration");
        root.refuse("prune", "it belongs to kind ImageSetConfiguration");
        root.refuse("archiveSize", "deleting makes no archive; remove it");
        root.refuse("timetable", "deleting transfers no content; remove it");
        root.refuse("timezone", "deleting transfers no content; remove it");
        Self { delete }
    }
}

impl TransferTimes {
    fn read(root: &mut Section<'_>) -> Option<Self> {
        let (table, zone) = (root.text("timetable"), root.text("timezone"));
        let at = table.as_ref().or(zone.as_ref()).map(|text| text.at)?;
        let timezone = zone.and_then(|text| {
            text.parse(|key, name| match timetable::zone(Some(name)) {
                Ok(_) => Ok(name.to_owned()),
                Err(error) => Err(Problem::Timezone { key, why: error.to_string() }),
            })
        });
        let parsed = table.and_then(|text| {
            text.parse(|key, table| match table.parse::<Timetable>() {
                Ok(parsed) => Ok((parsed, table.to_owned())),
                Err(error) => Err(Problem::Timetable { key, why: error }),
            })
        });
        let (timetable, timetable_text) = parsed.unzip();
        Some(Self { timetable, timetable_text, timezone, at })
    }
}

/// Zero counts as not given, as it does for the other readers of these files.
fn read_archive_size(root: &mut Section<'_>) -> Option<u64> {
    let place = root.place("archiveSize")?;
    let size = match &place.node.value {
        Value::Scalar { meaning: Meaning::Integer(size), .. } => {
            u64::try_from(*size).ok().filter(|size| *size <= MAX_ARCHIVE_GIB)
        }
        _ => None,
    };
    if size.is_none() {
        let text = match &place.node.value {
            Value::Scalar { text, meaning: Meaning::Text } => format!("the text {text:?}"),
            Value::Scalar { text, .. } => text.clone(),
            _ => place.node.shape().to_owned(),
        };
        place.report(Problem::ArchiveSize { text, max: MAX_ARCHIVE_GIB });
    }
    size.filter(|size| *size > 0)
}

impl Mirror {
    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section =
            Section::open(place, |_| "write `additionalImages:` below it".to_owned())?;
        let Delete { platform, operators, additional_images, helm, blocked_images, samples } =
            read_selection(&mut section);
        section.refuse("ocp", "it is called platform now");
        section.finish();
        Some(Self { platform, operators, additional_images, helm, blocked_images, samples })
    }
}

impl Delete {
    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section =
            Section::open(place, |_| "write `additionalImages:` below it".to_owned())?;
        let delete = read_selection(&mut section);
        section.finish();
        Some(delete)
    }
}

/// What the two kinds have in common.
fn read_selection(section: &mut Section<'_>) -> Delete {
    let mut catalogs = Unique::new("catalog");
    Delete {
        platform: section.place("platform").and_then(PlatformSection::read),
        operators: section.list("operators", |place| Operator::read(place, &mut catalogs)),
        additional_images: section.list("additionalImages", AdditionalImage::read),
        helm: section.place("helm").and_then(Helm::read),
        samples: section.list("samples", Sample::read),
        blocked_images: section.list("blockedImages", BlockedImage::read),
    }
}

impl Sample {
    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "ruby");
        section.finish();
        Some(Self { name: name?.owned(), at })
    }
}
