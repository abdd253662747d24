//! The images of a workspace or of archives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mirror_plan::{ImageRecord, Kind, Origin};
use oci::Digest;
use workspace::archive::{Archives, OpenError};
use workspace::{Holdings, Workspace};

use super::Fault;
use super::paging::{Page, matches};

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageRow {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    pub(crate) digest: Digest,
    /// Of all it consists of, shared content included.
    pub(crate) bytes: u64,
    pub(crate) blobs_held: bool,
}

/// All images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageIndex {
    pub(crate) rows: Vec<ImageRow>,
    /// Bytes of all images together, shared content once.
    pub(crate) unique_bytes: u64,
}

/// One image in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageDetail {
    pub(crate) row: ImageRow,
    pub(crate) manifests: Vec<ManifestRow>,
    pub(crate) attachments: Vec<AttachmentRow>,
    /// Names under which it is pushed, below any registry.
    pub(crate) names: Vec<String>,
    /// Manifests that the platforms filter leaves out.
    pub(crate) left_out: usize,
    pub(crate) attachments_unknown: bool,
    /// Its image layout, where the workspace has one.
    pub(crate) layout: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestRow {
    pub(crate) digest: Digest,
    pub(crate) media_type: String,
    pub(crate) platform: Option<String>,
    pub(crate) layers: usize,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachmentRow {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) subject: Digest,
}

/// What is searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageQuery {
    pub(crate) words: String,
    pub(crate) kind: Option<Kind>,
    pub(crate) page: usize,
}

/// Every kind, with its name for people, in the order of the filter.
pub(crate) const KINDS: [(Kind, &str, &str); 10] = [
    (Kind::ReleasePayload, "releasePayload", "Release"),
    (Kind::ReleaseComponent, "releaseComponent", "Release component"),
    (Kind::KubeVirt, "kubeVirt", "KubeVirt disk"),
    (Kind::Graph, "graph", "Update graph"),
    (Kind::Catalog, "catalog", "Operator catalog"),
    (Kind::Bundle, "bundle", "Operator bundle"),
    (Kind::RelatedImage, "relatedImage", "Operator image"),
    (Kind::Additional, "additional", "Additional image"),
    (Kind::Helm, "helm", "Helm image"),
    (Kind::Chart, "chart", "Helm chart"),
];

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or("", |(.., name)| name)
}

/// Reads what is held: the images of the workspace or, where it has none, of the archives beside it.
pub(crate) fn read(workspace: &Workspace) -> Result<ImageIndex, Fault> {
    Ok(index(&records(workspace)?))
}

fn records(workspace: &Workspace) -> Result<Vec<ImageRecord>, Fault> {
    holdings(workspace)?.records().map_err(|error| Fault::failed("reading the images", &error))
}

fn holdings(workspace: &Workspace) -> Result<Holdings, Fault> {
    let doing = "reading the images";
    let held = workspace.records().map_err(|error| Fault::failed(doing, &error))?;
    let archives = match held.remaining() {
        0 => match Archives::open(workspace.root()) {
            Ok(archives) => Some(archives),
            Err(OpenError::None(_)) => None,
            Err(error) => return Err(Fault::failed(doing, &error)),
        },
        // What archives hold, their workspace holds too.
        _ => None,
    };
    Ok(Holdings::new(Some(workspace.clone()), archives).with_manifests_alone())
}

fn index(records: &[ImageRecord]) -> ImageIndex {
    let mut blobs: BTreeMap<Digest, u64> = BTreeMap::new();
    for record in records {
        blobs.extend(record.tree.blobs());
        blobs.extend(record.tree.all_manifests().map(|manifest| (manifest.digest, manifest.size)));
    }
    ImageIndex { rows: records.iter().map(row).collect(), unique_bytes: blobs.values().sum() }
}

fn row(record: &ImageRecord) -> ImageRow {
    let manifests: BTreeMap<Digest, u64> =
        record.tree.all_manifests().map(|manifest| (manifest.digest, manifest.size)).collect();
    ImageRow {
        origin: record.origin.clone(),
        kind: record.kind,
        digest: record.tree.root().digest,
        bytes: record.tree.blobs().values().chain(manifests.values()).sum(),
        blobs_held: record.blobs_held,
    }
}

impl ImageIndex {
    /// The rows that a query finds, by words of the name or the digest.
    pub(crate) fn find(&self, query: &ImageQuery) -> Page<ImageRow> {
        let found = self.rows.iter().filter(|row| {
            query.kind.is_none_or(|kind| kind == row.kind)
                && matches(&format!("{} {}", row.origin, row.digest), &query.words)
        });
        Page::of(found.cloned().collect(), query.page)
    }

    pub(crate) fn kinds(&self) -> BTreeSet<Kind> {
        self.rows.iter().map(|row| row.kind).collect()
    }
}

/// The image with this origin.
pub(crate) fn detail(
    workspace: &Workspace,
    index: &ImageIndex,
    origin: &str,
) -> Result<ImageDetail, Fault> {
    // Only what the list has: text of a request never becomes a path.
    let known = index.rows.iter().find(|row| row.origin.to_string() == origin);
    let absent = || Fault::Absent(format!("{origin} is not among the images here"));
    let known = known.ok_or_else(absent)?;
    let record = holdings(workspace)?.record(&known.origin);
    let record =
        record.map_err(|error| Fault::failed("reading the image", &error))?.ok_or_else(absent)?;
    let layout = workspace.layout_of(&record.origin);
    Ok(ImageDetail { layout: layout.is_dir().then_some(layout), ..described(&record) })
}

fn described(record: &ImageRecord) -> ImageDetail {
    let manifest = |node: &mirror_plan::ManifestNode| ManifestRow {
        digest: node.digest,
        media_type: node.media_type.to_string(),
        platform: node.platform.as_ref().map(ToString::to_string),
        layers: node.blobs.len().saturating_sub(1),
        bytes: node.blobs.iter().map(|blob| blob.size).sum::<u64>() + node.size,
    };
    let attachment = |attached: &mirror_plan::Attachment| {
        Some(AttachmentRow {
            name: attached.tag.as_ref().map_or_else(|| "referrer".to_owned(), ToString::to_string),
            digest: attached.manifests.first()?.digest,
            subject: attached.subject,
        })
    };
    ImageDetail {
        row: row(record),
        manifests: record.tree.manifests.iter().map(manifest).collect(),
        attachments: record.tree.attachments.iter().filter_map(attachment).collect(),
        names: record.names.iter().map(ToString::to_string).collect(),
        left_out: record.tree.left_out.len(),
        attachments_unknown: record.attachments_unknown,
        layout: None,
    }
}

#[cfg(test)]
mod tests {
    use mirror_plan::{BlobRef, ImageTree, ManifestNode};
    use oci::MediaType;

    use super::*;
    use crate::view::users::Users;

    fn record(name: &str, layer: &str, kind: Kind) -> ImageRecord {
        let blob = |text: &str, size| BlobRef { digest: Digest::of(text.as_bytes()), size };
        let node = ManifestNode {
            media_type: MediaType::new("application/vnd.oci.image.manifest.v1+json"),
            digest: Digest::of(name.as_bytes()),
            size: 10,
            platform: None,
            blobs: vec![blob(name, 1), blob(layer, 100)],
        };
        ImageRecord {
            origin: Origin::Registry(name.parse().unwrap()),
            kind,
            tree: ImageTree {
                manifests: vec![node],
                left_out: BTreeSet::new(),
                attachments: Vec::new(),
            },
            blobs_held: true,
            attachments_unknown: false,
            names: BTreeSet::new(),
        }
    }

    #[test]
    fn shared_layers_count_once_in_the_total_and_in_each_image() {
        let records = [
            record("q.io/a:1", "shared", Kind::Additional),
            record("q.io/b:1", "shared", Kind::Bundle),
        ];
        let index = index(&records);
        assert_eq!(index.rows[0].bytes, 111);
        // Configs have the digests of their manifests in this test: 10 wins over 1.
        assert_eq!(index.unique_bytes, 100 + 2 * 10);
    }

    #[test]
    fn five_thousand_images_are_shown_in_small_pages() {
        let long = "n".repeat(150);
        let records: Vec<ImageRecord> = (0..5000)
            .map(|number| record(&format!("q.io/{long}/{number}:1"), "x", Kind::RelatedImage))
            .collect();
        let index = index(&records);
        for page in [1, 100] {
            let query = ImageQuery { page, ..ImageQuery::default() };
            let html =
                crate::pages::images::list(&index, &index.find(&query), &query, &Users::default());
            assert!(html.into_string().len() < 200 << 10);
        }
    }

    #[test]
    fn images_are_found_by_words_of_name_and_digest_and_by_kind() {
        let records =
            [record("q.io/a:1", "x", Kind::Additional), record("q.io/b:1", "y", Kind::Bundle)];
        let index = index(&records);
        let found = |words: &str, kind| {
            let query = ImageQuery { words: words.to_owned(), kind, page: 1 };
            index.find(&query).rows.iter().map(|row| row.origin.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("Q.IO", None).len(), 2);
        assert_eq!(found("", Some(Kind::Bundle)), ["q.io/b:1"]);
        assert_eq!(found(&Digest::of(b"q.io/a:1").to_string()[..20], None), ["q.io/a:1"]);
        assert!(found("nothing", None).is_empty());
    }
}
