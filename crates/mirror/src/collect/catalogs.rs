//! Operator catalogs: from the `operators` section of a configuration to the images it means, and
//! to the catalogs that list just those.
//!
//! ```text
//! section ──find──▶ image ──open──▶ files ──select──▶ wanted images, findings
//!                                              └──build──▶ the catalog of just those
//! ```
//!
//! The connected sides send requests to registries. Mirror to disk also keeps each original
//! catalog: the disconnected side selects from it again with the same steps.

mod build;
mod carried;
mod content;
mod find;
mod incomplete;
mod laid_out;
mod lookup;
mod needs;
mod of_oc_mirror_v2;
mod offered;
mod open;
mod resources;
mod selected;
mod taken;

use std::collections::{BTreeMap, BTreeSet};

use catalog::Severity;
use futures_util::stream::{self, StreamExt};
use image_set::Operator;
use mirror_plan::{
    BlobRef, CatalogContent, CatalogSourceTemplate, Destination, Exit, Found, ImageRecord, Kind,
    NameError, Origin, Wanted,
};
use oci::{Digest, ImageRef};
use registry::Client;
use serde::{Deserialize, Serialize};

use crate::collect::built_images::BuiltImages;
use crate::collect::documents::Documents;
use crate::collect::pairs;
use crate::collect::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::EngineError;
use crate::reason::Reason;
use crate::report::Failure;
use crate::results::Issues;
use crate::settings::Workflow;
use laid_out::Part;
use needs::CatalogNeeds;
use taken::{Fetched, Taken};

pub use content::ContentError;
pub(crate) use incomplete::Incomplete;
pub use lookup::{CatalogLookup, CatalogLookupError, OpenedCatalog};
pub(crate) use needs::Needs;
pub(crate) use of_oc_mirror_v2::ForV2;
pub use open::OpenError;

/// Catalogs that are found and fetched at the same time.
const AT_ONCE: usize = 4;

/// What the `operators` section of a configuration results in. A stored plan has what is not skipped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Catalogs {
    /// Bundles, what they need, and the catalogs as they are published.
    #[serde(skip)]
    pub(crate) wanted: Vec<Wanted>,
    /// Catalogs of which nothing is mirrored, and content that was requested and does not exist.
    #[serde(skip)]
    pub(crate) issues: Issues,
    /// Which bundles need which images.
    pub(crate) needs: Needs,
    /// Catalogs as they are, for the other side to select from.
    #[serde(skip)]
    pub(crate) stored: Vec<Found>,
    /// What an archive carries of the catalogs, whatever earlier ones held.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    /// What the catalogs were when they were read.
    pub(crate) digests: BTreeMap<ImageRef, Digest>,
    #[serde(skip)]
    pub(crate) made: BuiltImages,
    /// What published catalogs offer, by origin.
    #[serde(with = "pairs")]
    pub(crate) offered: BTreeMap<Origin, CatalogContent>,
    entries: Vec<Entry>,
    /// What images are called inside of operators.
    parts: BTreeMap<ImageRef, Vec<Part>>,
}

/// One catalog of the configuration, taken in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// Its place in the configuration.
    number: usize,
    /// As the configuration names it.
    name: String,
    /// As it is.
    original: Found,
    /// As it is published; none when nothing of it is.
    published: Option<Wanted>,
    template: Option<CatalogSourceTemplate>,
}

/// Turns the `operators` section of a run's configuration into images. What fails concerns one
/// catalog, or one package; the rest is collected nevertheless.
pub(crate) async fn collect(context: &Context, source: Source<'_>, client: &Client) -> Catalogs {
    let operators = &context.settings.configuration.set.mirror.operators;
    if operators.is_empty() {
        return Catalogs::default();
    }
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Catalogs::default(),
        catalogs = collect_section(context, operators, source, client) => catalogs,
    }
}

async fn collect_section(
    context: &Context,
    operators: &[Operator],
    source: Source<'_>,
    client: &Client,
) -> Catalogs {
    let mut catalogs = Catalogs::default();
    // Found and fetched at the same time. Unpacked one after the other, in the order of the
    // configuration: the largest catalog alone takes hundreds of megabytes of memory.
    let mut fetched = stream::iter(operators.iter().enumerate())
        .map(|(number, operator)| async move {
            (number, operator, fetch(context, source, client, operator).await)
        })
        .buffered(AT_ONCE);
    // A fetch that waits may have been given the turn of a layer which the catalog before it needs
    // to be unpacked. So fetches continue meanwhile: neither side waits for the other.
    let (hand_over, mut ready) = tokio::sync::mpsc::unbounded_channel();
    let fetch_all = async move {
        while let Some(fetched) = fetched.next().await {
            // The receiver lives as long as this.
            let _ = hand_over.send(fetched);
        }
    };
    let take_all = async {
        while let Some(fetched) = ready.recv().await {
            take_fetched(context, source, client, fetched, &mut catalogs).await;
        }
    };
    tokio::join!(fetch_all, take_all);
    catalogs
}

/// Unpacks a catalog that was fetched and selects from it.
async fn take_fetched(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    (number, operator, fetched): (usize, &Operator, Result<FetchedCatalog, NameError>),
    catalogs: &mut Catalogs,
) {
    let (wanted_catalog, name, fetched) = match fetched {
        Ok(fetched) => fetched,
        Err(error) => {
            catalogs.issues.failures.push(Failure::new(Exit::OPERATOR, chain(&error)));
            return;
        }
    };
    let taken = match fetched {
        Ok((fetched, signatures)) => {
            let taken = taken::take_in(context, source, client, operator, fetched).await;
            taken.map(|taken| (taken, signatures)).map_err(|error| error.reason())
        }
        Err(reason) => Err(reason),
    };
    match taken {
        Ok((taken, signatures)) => {
            catalogs.take(context, (number, operator), taken);
            catalogs.keep(context, signatures);
        }
        Err(reason) => catalogs.issues.lost.push((wanted_catalog, name, reason)),
    }
}

/// A catalog under the name it is published by, ready to be unpacked, with the signatures that it was
/// judged by; or why it is not.
type FetchedCatalog = (Wanted, Destination, Result<(Fetched, Documents), Reason>);

/// Finds a catalog and fetches it.
async fn fetch(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    operator: &Operator,
) -> Result<FetchedCatalog, NameError> {
    let wanted_catalog = wanted_catalog(operator);
    let name = Destination::of(&wanted_catalog)?;
    let found = find::find(context, source, client, (wanted_catalog.clone(), name.clone())).await;
    let fetched = match found {
        Ok((original, signatures)) => {
            let fetched = taken::fetch(context, source, client, operator, original).await;
            fetched.map(|fetched| (fetched, signatures)).map_err(|error| error.reason())
        }
        Err(reason) => Err(reason),
    };
    Ok((wanted_catalog, name, fetched))
}

/// The catalog itself, under the name it is published by.
fn wanted_catalog(operator: &Operator) -> Wanted {
    Wanted {
        kind: Kind::Catalog,
        origin: lookup::origin(&operator.catalog),
        target_repository: operator.target_catalog.clone(),
        target_tag: operator.target_tag.clone(),
        platforms: operator.platforms.clone(),
    }
}

impl Catalogs {
    fn take(&mut self, context: &Context, (number, operator): (usize, &Operator), taken: Taken) {
        let Taken { original, selection, instances, published } = taken;
        if let Origin::Registry(image) = &original.wanted.origin {
            self.digests.insert(image.clone(), original.tree.root().digest);
        }
        self.tell(context, &selection.findings);
        for unusable in &selection.images.unusable {
            self.issues.failures.push(Failure::new(Exit::OPERATOR, unusable.to_string()));
        }
        for image in &selection.images.images {
            self.wanted.push(Wanted {
                kind: if image.is_bundle { Kind::Bundle } else { Kind::RelatedImage },
                origin: Origin::Registry(image.image.clone()),
                target_repository: None,
                target_tag: None,
                platforms: operator.platforms.clone(),
            });
        }
        self.note_parts(&selection.images);
        self.needs.insert(operator.catalog.to_string(), CatalogNeeds::of(&selection.images));
        laid_out::keep_index(context, &original, &instances);
        let to_disk = matches!(context.settings.workflow, Workflow::MirrorToDisk { .. });
        if selection.whole {
            self.made.insert_read(&original.wanted, original.tree.clone());
        } else if to_disk {
            self.store(&original);
        }
        let from_registries = !matches!(context.settings.workflow, Workflow::DiskToMirror { .. });
        if from_registries && context.keeps_content() {
            if !to_disk && context.run().is_some() {
                remember(context, &original);
            }
            match carried::carry(context, &operator.catalog, &original.tree, &instances) {
                Ok(carried) => self.documents.extend(carried),
                Err(error) => {
                    let message =
                        format!("keeping what {} has: {}", operator.catalog, chain(&error));
                    self.issues.failures.push(Failure::new(Exit::GENERIC, message));
                }
            }
        }
        let published = published.map(|(wanted, made)| {
            if let Some(made) = made {
                self.made.insert(wanted.origin.clone(), made);
            }
            self.wanted.push(wanted.clone());
            self.offered.insert(wanted.origin.clone(), selection.content);
            wanted
        });
        let template = self.template(context, operator);
        let name = operator.catalog.to_string();
        self.entries.push(Entry { number, name, original, published, template });
    }

    /// Keeps the signatures that a catalog was judged by: the disconnected side judges it again.
    fn keep(&mut self, context: &Context, signatures: Documents) {
        match signatures.save(context) {
            Ok(saved) => self.documents.extend(saved),
            Err(error) => {
                let message = format!("keeping signatures of a catalog: {}", chain(&error));
                self.issues.failures.push(Failure::new(Exit::GENERIC, message));
            }
        }
    }

    /// Stores the original catalog under a name that no published one has.
    fn store(&mut self, original: &Found) {
        let mut stored = original.clone();
        let tag = oci::Tag::of_digest(&original.tree.root().digest);
        stored.wanted.target_tag = Some(tag.clone());
        stored.destination.tag = tag;
        if !self.stored.contains(&stored) {
            self.stored.push(stored);
        }
    }

    fn tell(&mut self, context: &Context, findings: &[catalog::Finding]) {
        let file = context.settings.configuration.path.display();
        for finding in findings {
            let text = match finding.at.line {
                0 => finding.to_string(),
                _ => format!("{file}:{finding}"),
            };
            match finding.severity() {
                Severity::Info => self.issues.notes.push(text),
                Severity::Warning => context.warn(text),
                Severity::Error => self.issues.failures.push(Failure::new(Exit::OPERATOR, text)),
            }
        }
    }
}

/// Records a catalog of which only the part with its files is in the workspace: a later deletion
/// selects from it again, without its registry.
fn remember(context: &Context, original: &Found) {
    let origin = original.wanted.origin.clone();
    let root = original.tree.root().digest;
    let is_held = |record: &ImageRecord| record.blobs_held && record.tree.root().digest == root;
    if context.workspace.record(&origin).is_ok_and(|known| known.as_ref().is_some_and(is_held)) {
        return;
    }
    let record = ImageRecord {
        origin,
        kind: Kind::Catalog,
        tree: original.tree.clone(),
        blobs_held: false,
        attachments_unknown: true,
        names: BTreeSet::new(),
    };
    if let Err(error) = context.workspace.save_record(&record) {
        context.warn(format!("{} could not be recorded: {}", record.origin, chain(&error)));
    }
}
