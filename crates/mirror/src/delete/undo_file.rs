//! Writes the undo file: an image set configuration that mirrors back what a deletion removes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use delete_plan::{Deleted, undo};
use image_set::{Helm, ImageSetConfiguration, Operator, WriteError};
use mirror_plan::{Destination, ImageDetails, ImageTree, Kind, Origin, TargetRecord};
use oci::Platform;
use workspace::archive::Archives;
use workspace::atomic_file::{self, Durability};
use workspace::{DiskError, Holdings, Workspace};

use super::execute::{Deletion, place, tag_of};
use crate::collect::charts;

const HEAD: &str = "# Mirrors again what this deletion removed: oc-mirror -c THIS_FILE ...\n";

/// What was written.
pub(crate) struct UndoFile {
    pub(crate) path: PathBuf,
    /// Images that the file cannot mirror back.
    pub(crate) lost: Vec<Destination>,
}

/// Why the undo file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UndoError {
    #[error(transparent)]
    Configuration(#[from] WriteError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Writes the undo file of the deletion with this number; none if nothing of the list is on record.
pub(crate) fn write(
    workspace: &Workspace,
    number: u64,
    deletion: &Deletion,
    record: &TargetRecord,
) -> Result<Option<UndoFile>, UndoError> {
    let mut deleted = Vec::new();
    for image in &deletion.list.images {
        let Some(tag) = tag_of(image) else { continue };
        let place = place(&image.reference.repository, &tag);
        let Some(known) = details(record, &place) else { continue };
        deleted.push(Deleted {
            platforms: record.tree(&place).map(platforms).unwrap_or_default(),
            place,
            kind: known.kind,
            origin: known.origin.clone(),
            digest: known.root,
        });
    }
    if deleted.is_empty() {
        return Ok(None);
    }
    // Charts and rebuilt catalogs exist in no registry to mirror from: they are selected again, as
    // the configuration selected them that mirrored them.
    let mut selected = SelectedAgain::default();
    if deleted.iter().any(|image| matches!(image.origin, Origin::Made(_))) {
        let archives = Archives::open(workspace.root()).ok();
        let holdings = Holdings::new(Some(workspace.clone()), archives);
        for image in deleted.iter().filter(|image| matches!(image.origin, Origin::Made(_))) {
            selected.add(record, &image.place, &holdings);
        }
    }
    deleted.retain(|image| !selected.covers(record, image));
    let (mut set, lost) = undo(&deletion.target, &deleted);
    set.mirror.operators = selected.operators;
    set.mirror.helm = selected.helm;
    let path = workspace.working_dir().join(format!("delete/undo-{number:06}.yaml"));
    let text = format!("{HEAD}{}", set.to_yaml()?);
    atomic_file::write(&path, text.as_bytes(), Durability::Now)?;
    Ok(Some(UndoFile { path, lost }))
}

/// Sections of configurations that select images which runs made, with all that belongs to them.
#[derive(Default)]
struct SelectedAgain {
    operators: Vec<Operator>,
    helm: Option<Helm>,
    /// What the sections select: the same images must not be listed by digest, too.
    origins: BTreeSet<Origin>,
    /// Configurations whose operators are selected.
    configurations: BTreeSet<String>,
}

impl SelectedAgain {
    /// Adds the entry that selects an image which a run made, if there is one.
    fn add(&mut self, record: &TargetRecord, place: &Destination, holdings: &Holdings) {
        let Some(known) = details(record, place) else { return };
        for (name, _, user) in configurations(record, known) {
            match known.kind {
                Kind::Chart => {
                    let section = user.mirror.helm.as_ref();
                    let entry = section.and_then(|s| charts::entry_of(holdings, s, &known.origin));
                    let Some((entry, images)) = entry else { continue };
                    merge(self.helm.get_or_insert_default(), entry);
                    self.origins.extend(images.into_iter().map(Origin::Registry));
                    self.origins.insert(known.origin.clone());
                    return;
                }
                Kind::Catalog => {
                    let source = known.catalog.as_ref().map(|content| &content.source);
                    let mut operators = user.mirror.operators.into_iter();
                    let operator = operators.find(|o| Some(&o.catalog.to_string()) == source);
                    let Some(operator) = operator else { continue };
                    if !self.operators.contains(&operator) {
                        self.operators.push(operator);
                    }
                    self.configurations.insert(name.to_owned());
                    self.origins.insert(known.origin.clone());
                    return;
                }
                _ => return,
            }
        }
    }

    /// Whether an image comes back with what is selected.
    fn covers(&self, record: &TargetRecord, image: &Deleted) -> bool {
        if self.origins.contains(&image.origin) {
            return true;
        }
        let users = details(record, &image.place).map(|known| &known.users);
        matches!(image.kind, Kind::Bundle | Kind::RelatedImage)
            && users.is_some_and(|users| self.configurations.iter().any(|c| users.contains_key(c)))
    }
}

/// The configurations on record that use an image, with name and text, the last that ran first.
pub(crate) fn configurations<'r>(
    record: &'r TargetRecord,
    image: &'r ImageDetails,
) -> impl Iterator<Item = (&'r str, &'r str, ImageSetConfiguration)> {
    let users = image.users.keys();
    let mut users: Vec<_> = users
        .filter_map(|name| {
            let known = record.configurations.get(name)?;
            Some((known.run, name, record.texts.get(&known.text)?))
        })
        .collect();
    users.sort_by(|a, b| b.cmp(a));
    let parse = |(_, name, text): (u64, &'r String, &'r String)| {
        Some((name.as_str(), text.as_str(), image_set::parse_image_set(name, text).ok()?))
    };
    users.into_iter().filter_map(parse)
}

/// Adds an entry; charts of one repository are listed together.
fn merge(section: &mut Helm, entry: Helm) {
    for repository in entry.repositories {
        let same = section.repositories.iter_mut().find(|known| known.url == repository.url);
        match same {
            Some(known) => known.charts.extend(repository.charts),
            None => section.repositories.push(repository),
        }
    }
    section.local.extend(entry.local);
}

fn details<'r>(record: &'r TargetRecord, place: &Destination) -> Option<&'r ImageDetails> {
    record.images.get(place)?.details.as_ref()
}

/// The platforms of an image that was mirrored with some only.
fn platforms(tree: &ImageTree) -> Vec<Platform> {
    match tree.left_out.is_empty() {
        true => Vec::new(),
        false => tree.manifests.iter().filter_map(|node| node.platform.clone()).collect(),
    }
}
