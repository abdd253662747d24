//! What is deleted of what was requested, by names: configurations, channels and bundles that still
//! need an image keep it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mirror_plan::{
    BundleUse, CatalogContent, Destination, ImageDetails, Kind, Origin, Target, TargetRecord,
};
use oci::Digest;
use serde::Serialize;

use crate::catalogs::{Channels, lost_heads};

/// What shall be deleted, and what shall not.
#[derive(Debug)]
pub struct Request<'a> {
    pub target: &'a Target,
    pub images: BTreeMap<Destination, Requested>,
    /// What is requested of catalogs, channel by channel. None where images were not selected by
    /// channels: then a channel keeps nothing.
    pub channels: Option<Vec<CatalogContent>>,
    /// Configurations whose images stay.
    pub keep: Vec<Keep>,
    /// Configurations on record that do not count any more.
    pub superseded: BTreeSet<String>,
    /// Whether everything on record may go.
    pub all: bool,
}

/// An image that shall be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    pub kind: Kind,
    pub origin: Option<Origin>,
    /// What it is known to be, where the record of the target does not contain it.
    pub digest: Option<Digest>,
    /// What requested it.
    pub reason: String,
}

/// A configuration whose images stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    pub name: String,
    pub images: BTreeSet<Destination>,
}

/// What is deleted, and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub items: Vec<Item>,
    pub kept: Vec<Kept>,
    pub warnings: Vec<String>,
    /// Bundles that are deleted.
    pub bundles: BTreeSet<BundleUse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub place: Destination,
    pub kind: Kind,
    pub origin: Option<Origin>,
    /// The manifest that its tag is expected to name.
    pub digest: Option<Digest>,
    pub reason: String,
    /// Other images on record, in the same repository, that have the same manifest.
    pub shared_with: Vec<Destination>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub place: Destination,
    pub because: KeptBecause,
}

/// Why an image stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeptBecause {
    /// The record of the target does not have it, so others may have pushed it.
    NotOnRecord,
    SelectedBy(Vec<String>),
    Channel {
        bundle: String,
        channel: String,
        catalog: String,
    },
    Bundles(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("the selection is empty: nothing of it was mirrored to {target}")]
    Empty { target: String },
    #[error("everything that was mirrored to {target} is selected ({})", images(*.count))]
    Everything { target: String, count: usize },
}

fn images(count: usize) -> String {
    if count == 1 { "1 image".to_owned() } else { format!("{count} images") }
}

/// Decides what is deleted.
///
/// A configuration on record keeps what it selects, with one exception: if exactly one
/// configuration selects everything that is requested, the request is about that configuration's
/// own content. What other configurations select as well stays even then.
pub fn choose(record: &TargetRecord, request: Request<'_>) -> Result<Choice, ChoiceError> {
    let target = request.target.to_string();
    let mut choice = Choice::default();
    let mut going: BTreeMap<Destination, Requested> = BTreeMap::new();
    let mut kept_by_option: Vec<Kept> = Vec::new();
    for (place, requested) in request.images {
        let keepers: Vec<String> = request
            .keep
            .iter()
            .filter(|keep| keep.images.contains(&place))
            .map(|keep| keep.name.clone())
            .collect();
        if !keepers.is_empty() {
            let because = KeptBecause::SelectedBy(keepers);
            kept_by_option.push(Kept { place, because });
        } else if !record.images.contains_key(&place) && requested.digest.is_none() {
            choice.kept.push(Kept { place, because: KeptBecause::NotOnRecord });
        } else {
            going.insert(place, requested);
        }
    }
    if going.is_empty() && kept_by_option.is_empty() {
        return Err(ChoiceError::Empty { target });
    }
    let mine = |(place, _): &(&Destination, &_)| is_in(place, request.target);
    let on_record = || record.images.iter().filter(mine);
    let kind_of = |details: &Option<ImageDetails>| details.as_ref().map(|known| known.kind);
    let all_going = on_record()
        .filter(|(_, image)| kind_of(&image.details) != Some(Kind::Catalog))
        .all(|(place, _)| going.contains_key(place));
    if all_going && !request.all && on_record().next().is_some() && kept_by_option.is_empty() {
        return Err(ChoiceError::Everything { target, count: going.len() });
    }
    choice.kept.append(&mut kept_by_option);
    keep_selected(record, &request.superseded, &mut going, &mut choice);
    if let Some(channels) = &request.channels {
        keep_in_channels(record, request.target, channels, &mut going, &mut choice);
    }
    keep_related(record, request.target, &mut going, &mut choice);
    choice.bundles = bundles(record, &going);
    choice.warnings.extend(lost_heads(record, request.target, &choice.bundles));
    for (place, requested) in &going {
        let details = record.images.get(place).and_then(|image| image.details.as_ref());
        choice.items.push(Item {
            place: place.clone(),
            kind: details.map_or(requested.kind, |known| known.kind),
            origin: details.map(|known| known.origin.clone()).or(requested.origin.clone()),
            digest: details.map(|known| known.root).or(requested.digest),
            reason: requested.reason.clone(),
            shared_with: shared_with(record, place, &going),
        });
    }
    choice.warnings.extend(shared_manifests(&choice.items));
    choice.kept.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(choice)
}

/// One warning for all items whose manifests stay: releases share most of their components.
fn shared_manifests(items: &[Item]) -> Option<String> {
    let shared: Vec<&Item> = items.iter().filter(|item| !item.shared_with.is_empty()).collect();
    let first = shared.first()?;
    let (more, share) = match shared.len() {
        1 => (String::new(), "shares its manifest with"),
        count => (
            format!(" and {} more", count - 1),
            "share their manifests with images that stay, such as",
        ),
    };
    Some(format!(
        "{}{more} {share} {}: only the tag is deleted, where the registry supports that",
        first.place, first.shared_with[0]
    ))
}

/// Whether an image is below the target's namespace.
pub(crate) fn is_in(place: &Destination, target: &Target) -> bool {
    let Some(namespace) = &target.namespace else { return true };
    let rest = place.repository.as_str().strip_prefix(namespace.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

fn details<'r>(record: &'r TargetRecord, place: &Destination) -> Option<&'r ImageDetails> {
    record.images.get(place)?.details.as_ref()
}

/// Keeps what configurations on record select.
fn keep_selected(
    record: &TargetRecord,
    superseded: &BTreeSet<String>,
    going: &mut BTreeMap<Destination, Requested>,
    choice: &mut Choice,
) {
    let counts = |name: &&String| !superseded.contains(*name);
    let known: Vec<&ImageDetails> =
        going.keys().filter_map(|place| details(record, place)).collect();
    let covers = |name: &&String| known.iter().all(|image| image.users.contains_key(*name));
    let covering: Vec<&String> =
        record.configurations.keys().filter(counts).filter(covers).collect();
    let yields = match &covering[..] {
        [only] if !known.is_empty() => Some(*only),
        _ => None,
    };
    going.retain(|place, _| {
        let Some(known) = details(record, place) else { return true };
        let users = known.users.keys().filter(counts).filter(|name| Some(*name) != yields);
        let users: Vec<String> = users.cloned().collect();
        if users.is_empty() {
            return true;
        }
        let because = KeptBecause::SelectedBy(users);
        choice.kept.push(Kept { place: place.clone(), because });
        false
    });
    if let Some(name) = yields.filter(|_| !going.is_empty()) {
        choice.warnings.push(format!(
            "the configuration {name} still selects what is deleted: the next run with it mirrors that again"
        ));
    }
}

/// Keeps bundles that are also in a channel of which they are not deleted.
fn keep_in_channels(
    record: &TargetRecord,
    target: &Target,
    requested: &[CatalogContent],
    going: &mut BTreeMap<Destination, Requested>,
    choice: &mut Choice,
) {
    let channels = Channels::new(record, target);
    going.retain(|place, wanted| {
        if wanted.kind != Kind::Bundle {
            return true;
        }
        let Some(known) = details(record, place) else { return true };
        let stays = known.users.values().flatten().find_map(|of| channels.stays_in(of, requested));
        let Some((bundle, channel, catalog)) = stays else { return true };
        let because = KeptBecause::Channel { bundle, channel, catalog };
        choice.kept.push(Kept { place: place.clone(), because });
        false
    });
}

/// Keeps images that a bundle needs which stays.
fn keep_related(
    record: &TargetRecord,
    target: &Target,
    going: &mut BTreeMap<Destination, Requested>,
    choice: &mut Choice,
) {
    let mut staying: BTreeSet<&BundleUse> = BTreeSet::new();
    for (place, image) in record.images.iter().filter(|(place, _)| is_in(place, target)) {
        let Some(known) = &image.details else { continue };
        if known.kind == Kind::Bundle && !going.contains_key(place) {
            staying.extend(known.users.values().flatten());
        }
    }
    going.retain(|place, _| {
        let Some(known) = details(record, place) else { return true };
        if known.kind == Kind::Bundle {
            return true;
        }
        let users: BTreeSet<&BundleUse> = known.users.values().flatten().collect();
        let bundles: Vec<String> = users
            .into_iter()
            .filter(|of| staying.contains(of))
            .map(|of| of.bundle.clone())
            .collect();
        if bundles.is_empty() {
            return true;
        }
        let because = KeptBecause::Bundles(bundles);
        choice.kept.push(Kept { place: place.clone(), because });
        false
    });
}

/// The bundles whose own images go.
fn bundles(record: &TargetRecord, going: &BTreeMap<Destination, Requested>) -> BTreeSet<BundleUse> {
    let known = going.keys().filter_map(|place| details(record, place));
    let own = known.filter(|image| image.kind == Kind::Bundle);
    own.flat_map(|image| image.users.values().flatten().cloned()).collect()
}

fn shared_with(
    record: &TargetRecord,
    place: &Destination,
    going: &BTreeMap<Destination, Requested>,
) -> Vec<Destination> {
    let Some(root) = details(record, place).map(|known| known.root) else { return Vec::new() };
    // Only one repository: elsewhere the same manifest is another copy.
    let first =
        Destination { repository: place.repository.clone(), tag: "0".parse().expect("a tag") };
    let same = record
        .images
        .range(first..)
        .take_while(|(other, _)| other.repository == place.repository)
        .filter(|(other, _)| !going.contains_key(other));
    let same = same.filter(|(_, image)| image.details.as_ref().is_some_and(|d| d.root == root));
    same.map(|(other, _)| other.clone()).collect()
}

impl fmt::Display for KeptBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnRecord => f.write_str("it was not mirrored there from this workspace"),
            Self::SelectedBy(names) => write!(f, "selected by {}", names.join(", ")),
            Self::Channel { bundle, channel, catalog } => write!(
                f,
                "the bundle {bundle} is also in the channel {channel} of {catalog}, which stays"
            ),
            Self::Bundles(bundles) => write!(f, "needed by {}", bundles.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests;
