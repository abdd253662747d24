//! Operator catalogs: from the `operators` section of a configuration to the images it means, and
//! to the catalogs that list just those.
//!
//! ```text
//! section ──find──▶ image ──open──▶ files ──select──▶ wanted images, findings
//!                                              └──build──▶ the catalog of just those
//! ```
//!
//! The connected sides ask registries. Mirror to disk keeps each catalog as it is, too: the
//! disconnected side selects from it again, and goes the same way.

mod build;
mod carried;
mod content;
mod find;
mod laid_out;
mod lookup;
mod needs;
mod open;
mod resources;
mod selected;
mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use catalog::{BundleName, Weight};
use image_set::Operator;
use mirror_plan::{BlobRef, CatalogSourceTemplate, Destination, Exit, Found, Kind, Origin, Wanted};
use oci::{Digest, ImageRef};
use registry::Client;

use crate::collect::built_images::MadeImages;
use crate::collect::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::Gathered;
use crate::report::{Failure, Outcome, Report};
use crate::settings::{BrokenBundles, Mode};
use laid_out::Part;
use needs::CatalogNeeds;
use open::Instance;
use taken::Taken;

pub use content::ContentError;
pub use lookup::{CatalogLookup, CatalogLookupError, OpenedCatalog};
pub(crate) use needs::Needs;
pub use open::OpenError;

/// What the `operators` section of a configuration comes to.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    /// Bundles, what they need, and the catalogs as they are published.
    pub(crate) wanted: Vec<Wanted>,
    /// Catalogs of which nothing is mirrored, and why.
    pub(crate) lost: Vec<(Wanted, Destination, String)>,
    /// What was asked for and is not there.
    pub(crate) failures: Vec<Failure>,
    pub(crate) notes: Vec<String>,
    /// Catalogs as they are, for the other side to select from.
    pub(crate) stored: Vec<Found>,
    /// What an archive carries of the catalogs, whatever earlier ones held.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    /// What the catalogs were when they were read.
    pub(crate) digests: BTreeMap<ImageRef, Digest>,
    pub(crate) made: MadeImages,
    entries: Vec<Entry>,
    /// What images are called inside of operators.
    parts: BTreeMap<ImageRef, Vec<Part>>,
}

/// One catalog of the configuration, taken in.
#[derive(Debug)]
struct Entry {
    operator: Operator,
    /// As it is.
    original: Found,
    /// As it is published; none when nothing of it is.
    published: Option<Wanted>,
    /// Kept only where the catalog may have to be made again.
    instances: Vec<Instance>,
    template: Option<CatalogSourceTemplate>,
}

/// Turns the `operators` section of a run's configuration into images. What fails concerns one
/// catalog, or one package; the rest is there all the same.
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
    // One after the other: the largest of them alone takes hundreds of megabytes.
    for operator in operators {
        let wish = wish(operator);
        let name = match Destination::of(&wish) {
            Ok(name) => name,
            Err(error) => {
                catalogs.failures.push(Failure::new(Exit::OPERATOR, chain(&error)));
                continue;
            }
        };
        let taken = match find::find(context, source, client, (wish.clone(), name.clone())).await {
            Ok(original) => taken::take_in(context, source, client, operator, original).await,
            Err(why) => Err(why),
        };
        match taken {
            Ok(taken) => catalogs.take(context, operator, taken),
            Err(why) => catalogs.lost.push((wish, name, why)),
        }
    }
    catalogs
}

/// The catalog itself, under the name it is published by.
fn wish(operator: &Operator) -> Wanted {
    Wanted {
        kind: Kind::Catalog,
        origin: lookup::origin(&operator.catalog),
        target_repository: operator.target_catalog.clone(),
        target_tag: operator.target_tag.clone(),
        platforms: operator.platforms.clone(),
    }
}

impl Catalogs {
    fn take(&mut self, context: &Context, operator: &Operator, taken: Taken) {
        let Taken { original, selection, instances, published } = taken;
        if let Origin::Registry(image) = &original.wanted.origin {
            self.digests.insert(image.clone(), original.tree.root().digest);
        }
        self.tell(context, &selection.findings);
        for unusable in &selection.images.unusable {
            self.failures.push(Failure::new(Exit::OPERATOR, unusable.to_string()));
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
        let needs = CatalogNeeds::of(&selection.images);
        let mut all = context.needs.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(operator.catalog.to_string(), needs);
        drop(all);
        laid_out::keep_index(context, &original, &instances);
        let to_disk = matches!(context.settings.mode, Mode::MirrorToDisk { .. });
        if selection.whole {
            self.made.insert_read(&original.wanted, original.tree.clone());
        } else if to_disk {
            self.store(&original);
        }
        if to_disk && context.run().is_some() {
            match carried::carry(context, &operator.catalog, &original.tree, &instances) {
                Ok(carried) => self.documents.extend(carried),
                Err(why) => {
                    let message = format!("keeping what {} has: {why}", operator.catalog);
                    self.failures.push(Failure::new(Exit::GENERIC, message));
                }
            }
        }
        let published = published.map(|(wanted, made)| {
            if let Some(made) = made {
                self.made.insert(wanted.origin.clone(), made);
            }
            self.wanted.push(wanted.clone());
            wanted
        });
        let template = self.template(context, operator);
        let again = context.settings.broken_bundles == BrokenBundles::LeaveOut;
        self.entries.push(Entry {
            operator: operator.clone(),
            original,
            published,
            instances: if again { instances } else { Vec::new() },
            template,
        });
    }

    /// Keeps a catalog as it is, under a name that no published one has.
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
            match finding.weight() {
                Weight::Note => self.notes.push(text),
                Weight::Warning => context.warn(text),
                Weight::Error => self.failures.push(Failure::new(Exit::OPERATOR, text)),
            }
        }
    }

    /// Where that is asked for: makes catalogs anew without the bundles that lack an image, and
    /// puts them in the place of those that were found.
    pub(crate) fn leave_out(
        &mut self,
        context: &Context,
        report: &Report,
        gathered: &mut Gathered,
    ) {
        if context.settings.broken_bundles == BrokenBundles::Keep {
            return;
        }
        let missing = missing(report, gathered);
        for mut entry in std::mem::take(&mut self.entries) {
            let catalog = entry.operator.catalog.to_string();
            let broken = {
                let needs = context.needs.lock().unwrap_or_else(PoisonError::into_inner);
                needs.broken(&catalog, &missing)
            };
            if !broken.is_empty() && entry.published.is_some() {
                match self.made_without(context, &mut entry, &broken, gathered) {
                    Ok(()) => {
                        let mut needs =
                            context.needs.lock().unwrap_or_else(PoisonError::into_inner);
                        needs.leave_out(&catalog, &broken);
                    }
                    Err(why) => {
                        let message = format!("making the catalog {catalog} anew: {why}");
                        self.failures.push(Failure::new(Exit::OPERATOR, message));
                    }
                }
            }
            self.entries.push(entry);
        }
    }

    fn made_without(
        &mut self,
        context: &Context,
        entry: &mut Entry,
        broken: &BTreeSet<BundleName>,
        gathered: &mut Gathered,
    ) -> Result<(), String> {
        let Entry { operator, original, instances, published, .. } = entry;
        let (selection, again) = taken::select(context, operator, original, instances, broken)?;
        let left_out: Vec<_> = selection.findings.into_iter().filter(is_left_out).collect();
        self.tell(context, &left_out);
        let before = published.take();
        let at = gathered.found.iter().position(|found| Some(&found.wanted) == before.as_ref());
        let Some((wanted, made)) = again else {
            // Nothing of it is left.
            at.map(|at| gathered.found.remove(at));
            return Ok(());
        };
        if let (Some(at), Some(made)) = (at, made) {
            let found = &mut gathered.found[at];
            found.tree = made.tree.clone();
            if let Some(tag) = &wanted.target_tag {
                found.destination.tag = tag.clone();
            }
            found.wanted = wanted.clone();
            self.made.insert(wanted.origin.clone(), made);
            if matches!(context.settings.mode, Mode::MirrorToDisk { .. }) {
                self.store(original);
            }
        }
        *published = Some(wanted);
        Ok(())
    }
}

fn is_left_out(finding: &catalog::Finding) -> bool {
    matches!(finding.problem, catalog::Problem::LeftOut { .. })
}

/// The images that cannot be had, as far as that shows before anything is copied.
fn missing(report: &Report, gathered: &Gathered) -> BTreeSet<ImageRef> {
    let told = report.images.iter().filter_map(|line| match line.outcome {
        Outcome::Failed { .. } => Some(&line.origin),
        _ => None,
    });
    let lost = gathered.lost.iter().map(|(wanted, ..)| &wanted.origin);
    let images = told.chain(lost).filter_map(|origin| match origin {
        Origin::Registry(image) => Some(image.clone()),
        Origin::Layout(_) | Origin::Made(_) => None,
    });
    images.collect()
}
