//! Which packages, channels and bundles of a catalog a configuration selects.

use std::collections::{BTreeMap, BTreeSet};

use image_set::{EntryPosition, Operator, PackageChannel};

use crate::dependencies;
use crate::finding::{Finding, Problem};
use crate::model::{Bundle, Catalog, Channel, Package};
use crate::narrowing::{ChannelSelection, Kept, narrow, without};
use crate::nearest::nearest;
use crate::rules::{DefaultChannel, FlawList, flaws_of};
use crate::version::VersionRange;

/// What is selected of a catalog.
#[derive(Debug)]
pub struct Filtered<'c, 'a> {
    pub catalog: &'c Catalog<'a>,
    /// In the order of their names.
    pub packages: Vec<KeptPackage<'c, 'a>>,
    /// In the order of the configuration.
    pub findings: Vec<Finding>,
    /// Whether this is the unchanged catalog. Then it is not rebuilt, and keeps its digest.
    pub whole: bool,
}

/// A package with what is selected of it. Its default channel is one of `channels`.
#[derive(Debug, Clone)]
pub struct KeptPackage<'c, 'a> {
    pub package: &'c Package<'a>,
    pub default_channel: &'c str,
    /// In the order of their names, none without entries.
    pub channels: Vec<KeptChannel<'c, 'a>>,
    /// Whether the configuration names it, or another one needs it.
    pub asked_for: bool,
    /// Bundles that are in no channel: of a catalog that is mirrored unchanged.
    pub(crate) unlisted: Vec<&'c Bundle<'a>>,
}

/// A channel with the entries that are selected.
#[derive(Debug, Clone)]
pub struct KeptChannel<'c, 'a> {
    pub channel: &'c Channel<'a>,
    pub(crate) entries: BTreeSet<usize>,
}

/// A bundle of a package, by name.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct BundleName {
    pub package: String,
    pub bundle: String,
}

/// Selects from `catalog` what `operator` requests. What is unavailable is a finding; the rest is
/// selected nevertheless.
pub fn filter<'c, 'a>(catalog: &'c Catalog<'a>, operator: &'c Operator) -> Filtered<'c, 'a> {
    let mut filtered =
        Filtered { catalog, packages: vec![], findings: notices(catalog, operator), whole: false };
    if operator.full && operator.packages.is_empty() {
        filtered.packages = catalog.packages.values().filter_map(everything).collect();
        filtered.whole = true;
        return filtered;
    }
    for package in catalog.packages.values().filter(|_| operator.packages.is_empty()) {
        let want = Selection {
            at: operator.at,
            default: None,
            channels: &[],
            want: ChannelSelection::Head,
        };
        filtered.take(package, &want, false);
    }
    for requested in &operator.packages {
        let Some(package) = catalog.packages.get(&*requested.name) else {
            let nearest = nearest(&requested.name, catalog.packages.keys().map(|name| &**name));
            filtered.find(
                requested.at,
                Problem::UnknownPackage { package: requested.name.clone(), nearest },
            );
            continue;
        };
        let selection = Selection {
            at: requested.at,
            default: requested.default_channel.as_deref(),
            channels: &requested.channels,
            want: want(
                requested.min_version.as_ref(),
                requested.max_version.as_ref(),
                requested.previous_versions,
            ),
        };
        filtered.take(package, &selection, operator.full);
    }
    dependencies::resolve(&mut filtered, operator.include_dependencies, operator.at);
    filtered.packages.sort_by_key(|kept| &*kept.package.name);
    if filtered.packages.is_empty() {
        filtered.find(operator.at, Problem::Nothing);
    }
    filtered
}

/// What is wrong with the files of the catalog. A file that cannot be read is an error where
/// something that is selected may be in it.
fn notices(catalog: &Catalog<'_>, operator: &Operator) -> Vec<Finding> {
    let all = operator.packages.is_empty();
    let absent =
        operator.packages.iter().any(|requested| !catalog.packages.contains_key(&*requested.name));
    let of_wish = |path: &str| {
        let mut parts = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
        parts.any(|part| operator.packages.iter().any(|requested| requested.name == part))
    };
    let unreadable = catalog.left_out.iter().map(|file| Problem::Unreadable {
        why: file.why.clone(),
        selected: all || absent || of_wish(&file.path),
    });
    let repeated = catalog.repeated_keys.iter().cloned().map(Problem::RepeatedKey);
    let finding = |problem| Finding { at: EntryPosition::default(), problem };
    unreadable.chain(repeated).map(finding).collect()
}

/// What is wanted of one package.
struct Selection<'s> {
    at: EntryPosition,
    default: Option<&'s str>,
    channels: &'s [PackageChannel],
    /// For channels that request nothing else.
    want: ChannelSelection<'s>,
}

fn want<'s>(
    min: Option<&'s image_set::PackageVersion>,
    max: Option<&'s image_set::PackageVersion>,
    previous: Option<u32>,
) -> ChannelSelection<'s> {
    match (VersionRange::new(min, max), previous) {
        (Some(range), _) => ChannelSelection::Range(range),
        (None, Some(count)) => {
            ChannelSelection::Previous(usize::try_from(count).unwrap_or(usize::MAX))
        }
        (None, None) => ChannelSelection::Head,
    }
}

/// A whole package, valid or not.
fn everything<'c, 'a>(package: &'c Package<'a>) -> Option<KeptPackage<'c, 'a>> {
    let all = |channel: &'c Channel<'a>| KeptChannel {
        channel,
        entries: (0..channel.entries.len()).collect(),
    };
    let listed: BTreeSet<&str> = package
        .channels
        .values()
        .flat_map(|channel| &channel.entries)
        .map(|entry| &*entry.name)
        .collect();
    let unlisted =
        package.bundles.values().filter(|bundle| !listed.contains(&*bundle.name)).collect();
    Some(KeptPackage {
        package,
        default_channel: package.default_channel().unwrap_or_default(),
        channels: package.channels.values().map(all).collect(),
        asked_for: true,
        unlisted,
    })
}

impl<'c, 'a> Filtered<'c, 'a> {
    pub(crate) fn find(&mut self, at: EntryPosition, problem: Problem) {
        self.findings.push(Finding { at, problem });
    }

    /// The bundles that are selected, with their packages, in the order of their names.
    pub fn bundles(&self) -> impl Iterator<Item = (&'c Package<'a>, &'c Bundle<'a>)> {
        self.packages.iter().flat_map(|kept| {
            kept.bundles().into_iter().map(|bundle| (kept.package, bundle)).collect::<Vec<_>>()
        })
    }

    fn take(&mut self, package: &'c Package<'a>, selection: &Selection<'_>, full: bool) {
        let name = package.name.to_string();
        let channels: Vec<&str> =
            selection.channels.iter().map(|requested| &*requested.name).collect();
        let default = match selection.default {
            Some(_) => DefaultChannel::Chosen,
            None => DefaultChannel::OfPackage,
        };
        let flaws = flaws_of(package, &channels, default);
        if !flaws.is_empty() {
            let flaws = FlawList(flaws);
            return self.find(selection.at, Problem::Flawed { package: name, flaws });
        }
        let chosen = self.channels(package, selection);
        let mut channels = Vec::new();
        let mut empty: BTreeMap<&str, (EntryPosition, String, String)> = BTreeMap::new();
        for (channel, at, want) in chosen {
            let want = match (full, want) {
                (true, ChannelSelection::Head) => ChannelSelection::All,
                (true, ChannelSelection::Previous(_)) => {
                    let problem =
                        Problem::FullAndSelective { package: name, what: "previousVersions" };
                    return self.find(at, problem);
                }
                (true, _) => {
                    let what = "minVersion and maxVersion";
                    return self.find(at, Problem::FullAndSelective { package: name, what });
                }
                (false, want) => want,
            };
            match narrow(package, channel, want) {
                Ok(kept) => {
                    self.explain(package, channel, at, want, &kept);
                    if kept.entries.is_empty() {
                        let details = (at, describe(want), versions(package, channel));
                        empty.insert(&channel.name, details);
                    } else {
                        channels.push(KeptChannel { channel, entries: kept.entries });
                    }
                }
                Err(why) => {
                    let channel = channel.name.to_string();
                    let package = name.clone();
                    self.find(at, Problem::BrokenChannel { package, channel, why });
                }
            }
        }
        self.settle(package, selection, channels, empty);
    }

    /// The channels that are selected, each with what is wanted of it.
    fn channels<'s>(
        &mut self,
        package: &'c Package<'a>,
        selection: &Selection<'s>,
    ) -> Vec<(&'c Channel<'a>, EntryPosition, ChannelSelection<'s>)> {
        if selection.channels.is_empty() {
            let all = package.channels.values();
            return all.map(|channel| (channel, selection.at, selection.want)).collect();
        }
        let mut chosen = Vec::new();
        for requested in selection.channels {
            let Some(channel) = package.channels.get(&*requested.name) else {
                let known = || package.channels.keys().map(|name| &**name);
                let nearest = nearest(&requested.name, known());
                let channels = known().map(str::to_owned).collect();
                let (package, channel) = (package.name.to_string(), requested.name.clone());
                let problem = Problem::UnknownChannel { package, channel, nearest, channels };
                self.find(requested.at, problem);
                continue;
            };
            let own = want(
                requested.min_version.as_ref(),
                requested.max_version.as_ref(),
                requested.previous_versions,
            );
            let want = if own == ChannelSelection::Head { selection.want } else { own };
            chosen.push((channel, requested.at, want));
        }
        chosen.sort_by_key(|(channel, ..)| &*channel.name);
        chosen
    }

    fn explain(
        &mut self,
        package: &Package<'_>,
        channel: &Channel<'_>,
        at: EntryPosition,
        want: ChannelSelection<'_>,
        kept: &Kept,
    ) {
        let ChannelSelection::Range(range) = want else { return };
        let names = || (package.name.to_string(), channel.name.to_string());
        if !kept.pre_releases.is_empty() {
            let (package, channel) = names();
            let versions = kept.pre_releases.iter().map(ToString::to_string).collect();
            let suggestion = match (range.min, range.max) {
                (Some(min), _) => format!("minVersion: {min}-0"),
                (None, Some(max)) => format!("maxVersion: {max}-0 or a minVersion: 0.0.0-0"),
                (None, None) => return,
            };
            self.find(at, Problem::PreReleases { package, channel, versions, suggestion });
        }
        if let (Some(version), [taken, others @ ..]) = (range.pinned(), &kept.same_version[..]) {
            let (package, channel) = names();
            let (version, taken) = (version.to_string(), taken.clone());
            let others = others.to_vec();
            self.find(at, Problem::SameVersion { package, channel, version, taken, others });
        }
    }

    /// Decides the default channel, or leaves the package out.
    fn settle(
        &mut self,
        package: &'c Package<'a>,
        selection: &Selection<'_>,
        channels: Vec<KeptChannel<'c, 'a>>,
        mut empty: BTreeMap<&str, (EntryPosition, String, String)>,
    ) {
        let name = || package.name.to_string();
        let kept: Vec<String> = channels.iter().map(|kept| kept.channel.name.to_string()).collect();
        let own = package.default_channel().unwrap_or_default();
        let default = selection.default.unwrap_or(own);
        let held = channels.iter().find(|kept| &*kept.channel.name == default);
        let Some(held) = held else {
            let (package, channel) = (name(), default.to_owned());
            let problem = match (empty.remove(default), selection.default) {
                (Some((_, wanted, versions)), _) => {
                    Problem::DefaultEmpty { package, channel, wanted, versions, others: kept }
                }
                (None, Some(_)) => Problem::NoSuchDefault { package, channel, channels: kept },
                (None, None) => Problem::DefaultLeftOut { package, channel, channels: kept },
            };
            return self.find(selection.at, problem);
        };
        let default_channel = &*held.channel.name;
        for (channel, (at, wanted, versions)) in empty {
            let (package, channel) = (name(), channel.to_owned());
            self.find(at, Problem::EmptyChannel { package, channel, wanted, versions });
        }
        let unlisted = Vec::new();
        let kept = KeptPackage { package, default_channel, channels, asked_for: true, unlisted };
        self.packages.push(kept);
    }

    /// Leaves out the bundles in `lost`, and what OLM cannot get to without them. A package of
    /// which nothing is left in its default channel goes altogether.
    pub fn leave_out(&mut self, lost: &BTreeSet<BundleName>, why: &str) {
        let before: BTreeSet<BundleName> = self.names();
        for kept in &mut self.packages {
            // The catalog is rebuilt now, and OLM rejects one with bundles in no channel.
            kept.unlisted.clear();
            let package = &*kept.package.name;
            let lost: BTreeSet<&str> = lost
                .iter()
                .filter(|lost| lost.package == package)
                .map(|lost| lost.bundle.as_str())
                .collect();
            if lost.is_empty() {
                continue;
            }
            for channel in &mut kept.channels {
                channel.entries = without(channel.channel, &channel.entries, &lost);
            }
            kept.channels.retain(|channel| !channel.entries.is_empty());
        }
        self.packages.retain(|kept| {
            kept.channels.iter().any(|channel| &*channel.channel.name == kept.default_channel)
        });
        let after = self.names();
        let gone: Vec<String> = before.difference(&after).map(|name| name.bundle.clone()).collect();
        if !gone.is_empty() {
            self.whole = false;
            let problem = Problem::LeftOut { bundles: gone, why: why.to_owned() };
            self.find(EntryPosition::default(), problem);
        }
    }

    fn names(&self) -> BTreeSet<BundleName> {
        let name = |(package, bundle): (&Package<'_>, &Bundle<'_>)| BundleName {
            package: package.name.to_string(),
            bundle: bundle.name.to_string(),
        };
        self.bundles().map(name).collect()
    }
}

impl<'c, 'a> KeptPackage<'c, 'a> {
    /// The bundles of all kept channels, and of a whole catalog also those in none, in the order
    /// of their names.
    pub fn bundles(&self) -> Vec<&'c Bundle<'a>> {
        let names: BTreeSet<&str> =
            self.channels.iter().flat_map(KeptChannel::entry_names).collect();
        let listed = names.into_iter().filter_map(|name| self.package.bundles.get(name));
        let mut bundles: Vec<_> = listed.chain(self.unlisted.iter().copied()).collect();
        bundles.sort_by_key(|bundle| &*bundle.name);
        bundles
    }
}

impl<'c, 'a> KeptChannel<'c, 'a> {
    /// The entries that stay, in the order of the catalog.
    pub fn entries(&self) -> impl Iterator<Item = &'c crate::Entry<'a>> {
        self.entries.iter().map(|index| &self.channel.entries[*index])
    }

    fn entry_names(&self) -> impl Iterator<Item = &'c str> {
        self.entries().map(|entry| &*entry.name)
    }
}

fn describe(want: ChannelSelection<'_>) -> String {
    match want {
        ChannelSelection::Range(VersionRange { min: Some(min), max: Some(max) }) => {
            format!("minVersion {min} with maxVersion {max}")
        }
        ChannelSelection::Range(VersionRange { min: Some(min), max: None }) => {
            format!("minVersion {min}")
        }
        ChannelSelection::Range(VersionRange { max: Some(max), .. }) => format!("maxVersion {max}"),
        _ => "the selection".to_owned(),
    }
}

/// The versions of a channel in a few words.
fn versions(package: &Package<'_>, channel: &Channel<'_>) -> String {
    let mut versions: Vec<_> =
        channel.entries.iter().filter_map(|entry| package.version_of(&entry.name)).collect();
    versions.sort();
    match versions[..] {
        [] => "which has no versions".to_owned(),
        [only] => format!("which has {only}"),
        [lowest, .., highest] => format!("which has {lowest} to {highest}"),
    }
}
