//! One channel made smaller: which of its entries stay.
//!
//! What stays must be a channel by OLM's rules again: one head, and no entry that does not lead to
//! it. So entries outside of what was requested stay where they connect others.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use crate::document::Entry;
use crate::model::{Channel, Package};
use crate::rules::{ChannelFlaw, chain};
use crate::version::{Membership, VersionRange};

/// After so many, the whole channel stays. Real channels need none or one.
const MAX_HEADS_TRIED: usize = 64;

/// What is wanted of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelSelection<'s> {
    /// The newest entry.
    Head,
    /// The newest entry and as many before it.
    Previous(usize),
    /// What is in the range.
    Range(VersionRange<'s>),
    /// Everything.
    All,
}

/// The entries that stay, by their place in the channel; and the notes about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) entries: BTreeSet<usize>,
    /// In range by their numbers, and left out as pre-releases.
    pub(crate) pre_releases: Vec<Version>,
    /// Bundles of the one version that was requested, when there are several: the one that was taken
    /// first.
    pub(crate) same_version: Vec<String>,
}

/// Chooses the entries of `channel` that `want` requests. No entries when nothing fits.
pub(crate) fn narrow(
    package: &Package<'_>,
    channel: &Channel<'_>,
    want: ChannelSelection<'_>,
) -> Result<Kept, ChannelFlaw> {
    let view = View::new(package, channel)?;
    match want {
        ChannelSelection::All => {
            Ok(Kept { entries: (0..channel.entries.len()).collect(), ..Kept::default() })
        }
        ChannelSelection::Head => {
            Ok(Kept { entries: BTreeSet::from([view.head]), ..Kept::default() })
        }
        ChannelSelection::Previous(count) => {
            let wanted = view.newest(count);
            let entries = view.connected(|name| wanted.contains(name))?;
            Ok(Kept { entries, ..Kept::default() })
        }
        ChannelSelection::Range(range) => match range.pinned() {
            Some(version) => Ok(view.pinned(version)),
            None => view.range(range),
        },
    }
}

/// What is left of the entries in `kept` when `lost` cannot be used: those that OLM can still get to
/// from the newest of them. No edges are invented, so what is older than a lost entry is lost with
/// it, unless it is on another path.
pub(crate) fn without(
    channel: &Channel<'_>,
    kept: &BTreeSet<usize>,
    lost: &BTreeSet<&str>,
) -> BTreeSet<usize> {
    let is_lost = |index: &usize| lost.contains(&*channel.entries[*index].name);
    let usable: BTreeMap<&str, usize> =
        kept.iter().filter(|index| !is_lost(index)).map(|index| named(channel, *index)).collect();
    let index_of = |name: &str| usable.get(name).copied();
    // From the top of what was kept, down to the first that is usable, and on to the first that is not.
    let Ok(before) = chain(&picked(channel, kept)) else { return BTreeSet::new() };
    let chain: Vec<usize> = before
        .iter()
        .map(|entry| index_of(&entry.name))
        .skip_while(Option::is_none)
        .map_while(|index| index)
        .collect();
    let mut left: BTreeSet<usize> = chain.iter().copied().collect();
    for index in &chain {
        left.extend(channel.entries[*index].skips.iter().filter_map(|name| index_of(name)));
    }
    if is_channel(channel, &left) { left } else { chain.into_iter().take(1).collect() }
}

/// A channel with its chain worked out.
struct View<'v, 'a> {
    package: &'v Package<'a>,
    channel: &'v Channel<'a>,
    index: BTreeMap<&'v str, usize>,
    head: usize,
    /// From the head along `replaces`, whatever is skipped; the last may not be in the channel.
    chain: Vec<Link<'v>>,
}

/// A place on the chain.
struct Link<'v> {
    name: &'v str,
    /// `None` for what is replaced and not there.
    index: Option<usize>,
}

impl<'v, 'a> View<'v, 'a> {
    fn new(package: &'v Package<'a>, channel: &'v Channel<'a>) -> Result<Self, ChannelFlaw> {
        let entries: Vec<&Entry<'_>> = channel.entries.iter().collect();
        let head = &chain(&entries)?[0].name;
        let index = (0..channel.entries.len()).map(|index| named(channel, index)).collect();
        let mut view = Self { package, channel, index, head: 0, chain: Vec::new() };
        let mut next = Some(&**head);
        let mut passed = BTreeSet::new();
        while let Some(name) = next.filter(|name| passed.insert(*name)) {
            let index = view.index.get(name).copied();
            view.chain.push(Link { name, index });
            next = index.and_then(|index| channel.entries[index].replaces.as_deref());
        }
        view.head = view.chain.first().and_then(|link| link.index).unwrap_or_default();
        Ok(view)
    }

    fn skips(&self, link: &Link<'_>) -> impl Iterator<Item = &'v str> {
        let entry = link.index.map(|index| &self.channel.entries[index]);
        entry.into_iter().flat_map(|entry| &entry.skips).map(|name| &**name)
    }

    /// The names of the head and of the `count` newest entries below it.
    fn newest(&self, count: usize) -> BTreeSet<&'v str> {
        let head = &*self.channel.entries[self.head].name;
        let head_version = self.package.version_of(head);
        let mut below: Vec<(&Version, &str)> = self
            .channel
            .entries
            .iter()
            .filter_map(|entry| Some((self.package.version_of(&entry.name)?, &*entry.name)))
            .filter(|(version, name)| {
                *name != head && head_version.is_none_or(|head| version < &head)
            })
            .collect();
        below.sort();
        let newest = below.into_iter().rev().take(count).map(|(_, name)| name);
        newest.chain([head]).collect()
    }

    /// The entry with just this version. Several may have it: build metadata makes no difference
    /// in order, but it makes another bundle.
    fn pinned(&self, wanted: &image_set::PackageVersion) -> Kept {
        let mut found: Vec<(bool, &Version, usize)> = self
            .channel
            .entries
            .iter()
            .enumerate()
            // An entry that skips itself cannot stand alone.
            .filter(|(_, entry)| chain(&[*entry]).is_ok())
            .filter_map(|(index, entry)| Some((self.package.version_of(&entry.name)?, index)))
            .filter(|(version, _)| version.cmp_precedence(wanted.version()).is_eq())
            .map(|(version, index)| (version == wanted.version(), version, index))
            .collect();
        // What is written exactly so, else the latest rebuild.
        found.sort();
        found.reverse();
        let names = found.iter().map(|(.., index)| self.channel.entries[*index].name.to_string());
        let same_version = if found.len() > 1 { names.collect() } else { Vec::new() };
        let entries = found.first().map(|(.., index)| *index).into_iter().collect();
        Kept { entries, same_version, ..Kept::default() }
    }

    fn range(&self, range: VersionRange<'_>) -> Result<Kept, ChannelFlaw> {
        let membership = |name: &str| {
            self.package
                .version_of(name)
                .map_or(Membership::Out, |version| range.membership(version))
        };
        let entries = self.connected(|name| membership(name) == Membership::In)?;
        let mut pre_releases: Vec<Version> = self
            .channel
            .entries
            .iter()
            .enumerate()
            .filter(|(index, _)| !entries.contains(index))
            .filter(|(_, entry)| membership(&entry.name) == Membership::PreRelease)
            .filter_map(|(_, entry)| self.package.version_of(&entry.name).cloned())
            .collect();
        pre_releases.sort();
        Ok(Kept { entries, pre_releases, ..Kept::default() })
    }

    /// The smallest part of the chain below which all `wanted` bundles are, and those of them that
    /// are skipped there.
    fn connected(&self, wanted: impl Fn(&str) -> bool) -> Result<BTreeSet<usize>, ChannelFlaw> {
        // How many wanted bundles are at or below each link, each counted once.
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut counts = vec![0; self.chain.len()];
        let mut count = 0;
        for (place, link) in self.chain.iter().enumerate().rev() {
            let here = std::iter::once(link.name).chain(self.skips(link));
            count += here.filter(|name| wanted(name) && seen.insert(name)).count();
            counts[place] = count;
        }
        if count == 0 {
            return Ok(BTreeSet::new());
        }
        let head = counts.iter().rposition(|below| *below == count).unwrap_or_default();
        let end = counts.iter().position(|below| *below == 0).unwrap_or(counts.len());
        // OLM does not follow a skipped entry, so what was reachable below a higher head may be
        // lost below this one. Then a higher one stays, too.
        for head in (0..=head).rev().take(MAX_HEADS_TRIED) {
            let mut kept = BTreeSet::new();
            for link in &self.chain[head..end.max(head)] {
                let skipped = self.skips(link).filter(|name| wanted(name));
                let names = std::iter::once(link.name).chain(skipped);
                kept.extend(names.filter_map(|name| self.index.get(name)));
            }
            if kept.is_empty() || is_channel(self.channel, &kept) {
                return Ok(kept);
            }
        }
        Ok((0..self.channel.entries.len()).collect())
    }
}

fn named<'c>(channel: &'c Channel<'_>, index: usize) -> (&'c str, usize) {
    (&channel.entries[index].name, index)
}

fn picked<'c, 'a>(channel: &'c Channel<'a>, kept: &BTreeSet<usize>) -> Vec<&'c Entry<'a>> {
    kept.iter().map(|index| &channel.entries[*index]).collect()
}

fn is_channel(channel: &Channel<'_>, kept: &BTreeSet<usize>) -> bool {
    chain(&picked(channel, kept)).is_ok()
}

#[cfg(test)]
mod tests;
