//! What a part of a configuration consists of, and what parts come to together. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mirror::{ChartEntry, StoredPlan};
use mirror_plan::{BlobRef, Kind, Origin, PlannedImage};
use oci::Digest;
use serde::{Deserialize, Serialize};

use super::parts::PartKind;
use crate::selection::ItemPlace;

/// Raised when a reader of the old form would misread the new.
const VERSION: u32 = 2;
/// Reasons that are kept.
const MAX_PROBLEMS: usize = 10;

/// The content of a part, each blob and manifest once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MeasuredPart {
    version: u32,
    pub(crate) at: Timestamp,
    pub(crate) images: usize,
    content: Vec<BlobRef>,
    /// What has a size of its own, with the places of its content: packages of a catalog, releases,
    /// charts, images.
    rows: BTreeMap<String, Vec<u32>>,
    /// The same for what selects several of them: channels of releases, repositories of charts.
    groups: BTreeMap<String, Vec<u32>>,
    /// What could not be read, and is not part of the sizes.
    pub(crate) problems: Vec<String>,
    pub(crate) more_problems: usize,
}

impl MeasuredPart {
    /// What a plan consists of.
    pub(crate) fn of(plan: &StoredPlan, kind: PartKind, at: Timestamp) -> Self {
        let mut table = Table::default();
        let mut rows: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        let mut groups: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        let images = &plan.plan().images;
        for image in images {
            let places = table.places(plan, image);
            let labels = Labels::of(plan, kind, image);
            for label in labels.rows {
                rows.entry(label).or_default().extend(&places);
            }
            for label in labels.groups {
                groups.entry(label).or_default().extend(&places);
            }
        }
        let mut problems: Vec<String> = plan.unplanned().collect();
        let more_problems = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        let listed = |labels: BTreeMap<String, BTreeSet<u32>>| {
            labels
                .into_iter()
                .map(|(label, places)| (label, places.into_iter().collect()))
                .collect()
        };
        Self {
            version: VERSION,
            at,
            images: images.len(),
            content: table.content,
            rows: listed(rows),
            groups: listed(groups),
            problems,
            more_problems,
        }
    }

    /// Reads what was kept; `None` if it is not of this version, or damaged.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let part: Self = serde_json::from_slice(text).ok()?;
        let count = part.content.len();
        let mut places = part.rows.values().chain(part.groups.values()).flatten();
        let is_sound = places.all(|place| (*place as usize) < count);
        (part.version == VERSION && is_sound).then_some(part)
    }
}

#[derive(Default)]
struct Table {
    content: Vec<BlobRef>,
    places: BTreeMap<Digest, u32>,
}

impl Table {
    fn places(&mut self, plan: &StoredPlan, image: &PlannedImage) -> BTreeSet<u32> {
        let blobs = &plan.plan().blobs;
        let manifests = image.tree.all_manifests();
        let content = manifests.flat_map(|manifest| {
            let own = BlobRef { digest: manifest.digest, size: manifest.size };
            let listed = manifest.blobs.iter();
            listed
                .filter_map(move |at| blobs.get(at.get()).map(|planned| planned.blob))
                .chain([own])
        });
        content.map(|blob| self.place(blob)).collect()
    }

    fn place(&mut self, blob: BlobRef) -> u32 {
        let Self { content, places } = self;
        *places.entry(blob.digest).or_insert_with(|| {
            content.push(blob);
            u32::try_from(content.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// The rows and groups that an image belongs to.
#[derive(Debug, Default)]
struct Labels {
    rows: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Labels {
    fn of(plan: &StoredPlan, kind: PartKind, image: &PlannedImage) -> Self {
        let mut labels = Self::default();
        match (kind, &image.origin) {
            (PartKind::Images, origin) => drop(labels.rows.insert(origin.to_string())),
            (PartKind::Catalog(_), Origin::Registry(name)) if image.kind != Kind::Catalog => {
                labels.rows = plan.uses(name).into_iter().map(|bundle| bundle.package).collect();
            }
            (PartKind::Catalog(_), _) => {}
            (PartKind::Releases, _) => {
                if let Some(of) = plan.release_of(image) {
                    labels.rows.insert(of.release.to_owned());
                    labels.groups = of.channels.cloned().unwrap_or_default();
                }
            }
            (PartKind::Charts, origin) => {
                for user in plan.chart_uses(origin) {
                    let (group, row) = match user.entry {
                        ChartEntry::Repository(at) => (Some(at), None),
                        ChartEntry::Chart(at, chart) => {
                            (Some(at), Some(ItemPlace::Chart(at, chart)))
                        }
                        ChartEntry::Local(at) => (None, Some(ItemPlace::LocalChart(at))),
                    };
                    let group = group.map(|at| ItemPlace::Repository(at).to_string());
                    labels.groups.extend(group);
                    labels.rows.extend(row.map(|place| place.to_string()));
                }
            }
        }
        labels
    }
}

/// A size, and the part of it that nothing else selected shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    /// What is saved without it.
    pub(crate) alone: u64,
}

/// How far the size of a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartSize {
    Unknown,
    Waiting,
    Failed(String),
    Known {
        size: Size,
        /// By package, release, chart or image.
        rows: BTreeMap<String, Size>,
        /// By channel of releases or repository of charts.
        groups: BTreeMap<String, Size>,
        at: Timestamp,
        problems: Vec<String>,
        more_problems: usize,
    },
}

/// What all parts come to; shared content counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) parts: BTreeMap<PartKind, PartSize>,
    pub(crate) bytes: u64,
    /// What the workspace does not have.
    pub(crate) missing: u64,
    pub(crate) images: usize,
}

impl Estimate {
    /// Whether everything was read; the sums are a lower bound otherwise.
    pub(crate) fn is_complete(&self) -> bool {
        let is_whole = |part: &PartSize| matches!(part, PartSize::Known { problems, .. } if problems.is_empty());
        self.parts.values().all(is_whole)
    }

    /// Whether any size is known.
    pub(crate) fn is_known(&self) -> bool {
        self.parts.values().any(|part| matches!(part, PartSize::Known { .. }))
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.parts.values().any(|part| *part == PartSize::Waiting)
    }
}

/// The state of a part as far as sums are concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    Unknown,
    Waiting,
    Failed(&'a str),
    Measured(&'a MeasuredPart),
}

/// Adds up parts. `has` tells whether the workspace has a blob of this size.
pub(crate) fn estimate(
    parts: &[(PartKind, Found<'_>)],
    has: impl Fn(&BlobRef) -> bool,
) -> Estimate {
    let measured = || {
        parts.iter().filter_map(|(kind, found)| match found {
            Found::Measured(part) => Some((*kind, *part)),
            _ => None,
        })
    };
    let mut content: BTreeMap<Digest, Shared> = BTreeMap::new();
    for (_, part) in measured() {
        let users = |labels: &BTreeMap<String, Vec<u32>>| {
            let mut users = vec![0_u32; part.content.len()];
            labels.values().flatten().for_each(|place| users[*place as usize] += 1);
            users
        };
        let (rows, groups) = (users(&part.rows), users(&part.groups));
        for (blob, (rows, groups)) in part.content.iter().zip(rows.into_iter().zip(groups)) {
            let shared = content.entry(blob.digest).or_default();
            shared.size = blob.size;
            shared.parts += 1;
            // What belongs to no row is used by the part itself.
            shared.rows += rows.max(1);
            shared.groups += groups.max(1);
        }
    }
    let size = |blobs: &mut dyn Iterator<Item = &BlobRef>, is_alone: &dyn Fn(&Shared) -> bool| {
        let mut size = Size::default();
        for blob in blobs {
            size.bytes = size.bytes.saturating_add(blob.size);
            if content.get(&blob.digest).is_some_and(is_alone) {
                size.alone = size.alone.saturating_add(blob.size);
            }
        }
        size
    };
    let labeled = |part: &MeasuredPart,
                   labels: &BTreeMap<String, Vec<u32>>,
                   is_alone: &dyn Fn(&Shared) -> bool| {
        let sized = |(label, places): (&String, &Vec<u32>)| {
            let mut blobs = places.iter().map(|place| &part.content[*place as usize]);
            (label.clone(), size(&mut blobs, is_alone))
        };
        labels.iter().map(sized).collect()
    };
    let known = |part: &MeasuredPart| PartSize::Known {
        size: size(&mut part.content.iter(), &|shared: &Shared| shared.parts == 1),
        rows: labeled(part, &part.rows, &|shared: &Shared| shared.rows == 1),
        groups: labeled(part, &part.groups, &|shared: &Shared| shared.groups == 1),
        at: part.at,
        problems: part.problems.clone(),
        more_problems: part.more_problems,
    };
    let sizes = parts.iter().map(|(kind, found)| {
        let size = match found {
            Found::Unknown => PartSize::Unknown,
            Found::Waiting => PartSize::Waiting,
            Found::Failed(why) => PartSize::Failed((*why).to_owned()),
            Found::Measured(part) => known(part),
        };
        (*kind, size)
    });
    let absent = content
        .iter()
        .filter(|(digest, shared)| !has(&BlobRef { digest: **digest, size: shared.size }));
    Estimate {
        parts: sizes.collect(),
        bytes: sum(content.values().map(|shared| shared.size)),
        missing: sum(absent.map(|(_, shared)| shared.size)),
        images: measured().map(|(_, part)| part.images).sum(),
    }
}

/// How often a blob is used.
#[derive(Debug, Clone, Copy, Default)]
struct Shared {
    size: u64,
    parts: u32,
    rows: u32,
    groups: u32,
}

/// Sizes come from registries: their sum may be anything.
fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rows: &[(&str, &[(&str, u64)])]) -> MeasuredPart {
        let mut table = Table::default();
        let mut places = BTreeMap::new();
        for (label, blobs) in rows {
            let of_row = blobs.iter().map(|(name, size)| {
                table.place(BlobRef { digest: Digest::of(name.as_bytes()), size: *size })
            });
            let of_row: Vec<u32> = of_row.collect();
            places.insert((*label).to_owned(), of_row);
        }
        MeasuredPart {
            version: VERSION,
            at: Timestamp::UNIX_EPOCH,
            images: rows.len(),
            content: table.content,
            rows: places,
            groups: BTreeMap::new(),
            problems: Vec::new(),
            more_problems: 0,
        }
    }

    fn rows_of(estimate: &Estimate, kind: PartKind) -> (Size, BTreeMap<String, Size>) {
        match &estimate.parts[&kind] {
            PartSize::Known { size, rows, .. } => (*size, rows.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shared_content_counts_once_and_is_not_saved_without_one_of_its_users() {
        let catalog = part(&[("foo", &[("base", 100), ("foo", 1)]), ("bar", &[("base", 100)])]);
        let images = part(&[("q.io/a:1", &[("base", 100), ("a", 20)])]);
        let parts = [
            (PartKind::Catalog(0), Found::Measured(&catalog)),
            (PartKind::Images, Found::Measured(&images)),
        ];
        let here = Digest::of(b"a");
        let estimate = estimate(&parts, |blob| blob.digest == here);
        assert_eq!((estimate.bytes, estimate.missing), (121, 101));
        assert!(estimate.is_complete() && estimate.is_known() && !estimate.is_waiting());
        let (size, of_catalog) = rows_of(&estimate, PartKind::Catalog(0));
        assert_eq!(size, Size { bytes: 101, alone: 1 });
        assert_eq!(of_catalog["foo"], Size { bytes: 101, alone: 1 });
        assert_eq!(of_catalog["bar"], Size { bytes: 100, alone: 0 });
        let (_, of_images) = rows_of(&estimate, PartKind::Images);
        assert_eq!(of_images["q.io/a:1"], Size { bytes: 120, alone: 20 });
    }

    #[test]
    fn a_channel_shares_with_channels_and_a_release_with_releases() {
        let rows: [(&str, &[(&str, u64)]); 2] =
            [("4.16.1", &[("base", 100), ("one", 1)]), ("4.16.2", &[("base", 100), ("two", 2)])];
        let mut releases = part(&rows);
        // Both are in one channel, and the second is in another, too.
        let all = vec![0, 1, 2];
        let second = releases.rows["4.16.2"].clone();
        releases.groups = [("stable-4.16".into(), all), ("fast-4.16".into(), second)].into();
        let estimate = estimate(&[(PartKind::Releases, Found::Measured(&releases))], |_| false);
        let (_, of_releases) = rows_of(&estimate, PartKind::Releases);
        assert_eq!(of_releases["4.16.1"], Size { bytes: 101, alone: 1 });
        assert_eq!(of_releases["4.16.2"], Size { bytes: 102, alone: 2 });
        let PartSize::Known { groups, .. } = &estimate.parts[&PartKind::Releases] else { panic!() };
        assert_eq!(groups["stable-4.16"], Size { bytes: 103, alone: 1 });
        assert_eq!(groups["fast-4.16"], Size { bytes: 102, alone: 0 });
    }

    #[test]
    fn sums_are_a_lower_bound_until_every_part_was_read() {
        let images = part(&[("q.io/a:1", &[("a", u64::MAX), ("b", 2)])]);
        for (other, is_waiting) in
            [(Found::Waiting, true), (Found::Failed("no route"), false), (Found::Unknown, false)]
        {
            let parts = [(PartKind::Releases, other), (PartKind::Images, Found::Measured(&images))];
            let estimate = estimate(&parts, |_| false);
            assert_eq!((estimate.is_complete(), estimate.is_waiting()), (false, is_waiting));
            assert_eq!(estimate.bytes, u64::MAX, "sizes of others do not overflow");
        }
        let lost = MeasuredPart { problems: vec!["q.io/b:1: absent".into()], ..images };
        assert!(!estimate(&[(PartKind::Images, Found::Measured(&lost))], |_| true).is_complete());
    }

    #[test]
    fn damaged_files_are_not_used() {
        let images = part(&[("q.io/a:1", &[("a", 1)])]);
        let text = serde_json::to_string(&images).unwrap();
        assert_eq!(MeasuredPart::parse(text.as_bytes()), Some(images));
        for (from, to) in [("[0]", "[1]"), ("\"version\":2", "\"version\":1"), ("{", "")] {
            assert_eq!(MeasuredPart::parse(text.replace(from, to).as_bytes()), None, "{from}");
        }
    }
}
