//! The rules by which OLM refuses a catalog. A package that breaks one is not mirrored: the whole
//! catalog would not start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::document::Entry;
use crate::model::{Channel, Package};
use crate::version::CatalogRange;

/// Something about a package that OLM does not accept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Flaw {
    #[error("the package itself is not defined: there is no olm.package document for it")]
    Undefined,
    #[error("the package is defined twice")]
    TwoDefinitions,
    #[error(
        "its name is not one that OLM accepts: expected at most 63 lower-case letters, digits and '-', with no '-' at either end"
    )]
    Name,
    #[error("it has no default channel")]
    NoDefaultChannel,
    #[error("its default channel {channel:?} does not exist")]
    DefaultChannel { channel: String },
    #[error("a channel has no name")]
    NamelessChannel,
    #[error("the channel {channel:?} is defined twice")]
    TwoChannels { channel: String },
    #[error("the channel {channel:?} {why}")]
    Channel { channel: String, why: ChannelFlaw },
    #[error("a bundle has no name")]
    NamelessBundle,
    #[error("the bundle {bundle:?} is defined twice")]
    TwoBundles { bundle: String },
    #[error("the bundle {bundle:?} has {count} olm.package properties, expected one")]
    Versions { bundle: String, count: usize },
    #[error("the version {version:?} of the bundle {bundle:?} is not a semantic version")]
    Version { bundle: String, version: String },
    #[error("the bundle {bundle:?} declares the package {says:?}")]
    OtherPackage { bundle: String, says: String },
    #[error("the bundle {bundle:?} has neither an image nor objects")]
    NoImage { bundle: String },
    #[error("the bundles {} have the same version {version}", bundles.join(" and "))]
    SameVersion { version: String, bundles: Vec<String> },
    #[error("the bundle {bundle:?} is in no channel")]
    Stray { bundle: String },
    /// A document of the package that cannot be read.
    #[error("{why}")]
    Document { schema: String, name: String, why: String },
    #[error("the package has two lists of deprecations")]
    TwoDeprecations,
    #[error("{what} is deprecated, but does not exist, or has no message, or is listed twice")]
    Deprecation { what: String },
}

/// Something about a channel that OLM does not accept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ChannelFlaw {
    #[error("has no entries")]
    Empty,
    #[error("lists {0:?} twice")]
    TwoEntries(String),
    #[error("lists {0:?}, but there is no such bundle")]
    NoBundle(String),
    #[error("has no head: every entry is replaced or skipped by another")]
    NoHead,
    #[error("has several heads, which nothing replaces or skips: {}", .0.join(", "))]
    Heads(Vec<String>),
    #[error("has a cycle: {0:?} is replaced by what it replaces")]
    Circle(String),
    #[error("has entries that do not lead to the head: {}", .0.join(", "))]
    Stranded(Vec<String>),
    #[error("has the skipRange {range:?} at {entry:?}, which cannot be read")]
    SkipRange { entry: String, range: String },
}

/// All that OLM would refuse about the package. Empty for a good one.
pub fn flaws(package: &Package<'_>) -> Vec<Flaw> {
    let mut flaws = package.flaws.clone();
    if !is_label(&package.name) {
        flaws.push(Flaw::Name);
    }
    if package.definition.is_none() {
        flaws.push(Flaw::Undefined);
    } else {
        match package.default_channel() {
            None => flaws.push(Flaw::NoDefaultChannel),
            Some(channel) if !package.channels.contains_key(channel) => {
                flaws.push(Flaw::DefaultChannel { channel: channel.to_owned() });
            }
            Some(_) => {}
        }
    }
    for channel in package.channels.values() {
        if channel.name.is_empty() {
            flaws.push(Flaw::NamelessChannel);
        }
        if let Some(why) = channel_flaw(package, channel) {
            flaws.push(Flaw::Channel { channel: channel.name.to_string(), why });
        }
    }
    flaws.extend(bundle_flaws(package));
    flaws.extend(deprecation_flaws(package));
    flaws.sort();
    flaws.dedup();
    flaws
}

/// The flaws that affect a catalog which holds only these channels of the package, or all of them
/// where none are named. A flaw of a channel or bundle that is not selected has no effect.
pub(crate) fn flaws_of(
    package: &Package<'_>,
    channels: &[&str],
    default: DefaultChannel,
) -> Vec<Flaw> {
    let selected = |channel: &str| channels.is_empty() || channels.contains(&channel);
    let listed: BTreeSet<&str> = package
        .channels
        .values()
        .filter(|channel| selected(&channel.name))
        .flat_map(|channel| &channel.entries)
        .map(|entry| &*entry.name)
        .collect();
    let matters = |flaw: &Flaw| match flaw {
        Flaw::Channel { channel, .. } | Flaw::TwoChannels { channel } => selected(channel),
        Flaw::NamelessChannel => selected(""),
        Flaw::NoDefaultChannel | Flaw::DefaultChannel { .. } => {
            default == DefaultChannel::OfPackage
        }
        Flaw::NamelessBundle => listed.contains(""),
        Flaw::TwoBundles { bundle }
        | Flaw::Versions { bundle, .. }
        | Flaw::Version { bundle, .. }
        | Flaw::OtherPackage { bundle, .. }
        | Flaw::NoImage { bundle } => listed.contains(&**bundle),
        Flaw::SameVersion { bundles, .. } => {
            bundles.iter().filter(|bundle| listed.contains(&***bundle)).count() > 1
        }
        // It is in no channel, so it is not selected.
        Flaw::Stray { .. } => false,
        Flaw::Document { schema, name, .. } => match &**schema {
            "olm.channel" => selected(name),
            "olm.bundle" => channels.is_empty() || listed.contains(&**name),
            _ => true,
        },
        Flaw::Undefined
        | Flaw::TwoDefinitions
        | Flaw::Name
        | Flaw::TwoDeprecations
        | Flaw::Deprecation { .. } => true,
    };
    flaws(package).into_iter().filter(matters).collect()
}

/// Which default channel a selection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultChannel {
    /// The one that the package defines.
    OfPackage,
    /// Another one, which the selection names.
    Chosen,
}

fn bundle_flaws(package: &Package<'_>) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let channels = package.channels.values();
    let listed: BTreeSet<&str> =
        channels.flat_map(|channel| &channel.entries).map(|entry| &*entry.name).collect();
    let mut by_version: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for bundle in package.bundles.values() {
        if bundle.name.is_empty() {
            flaws.push(Flaw::NamelessBundle);
        } else if !listed.contains(&*bundle.name) {
            flaws.push(Flaw::Stray { bundle: bundle.name.to_string() });
        }
        if let Some(version) = &bundle.version {
            by_version.entry(version.to_string()).or_default().push(bundle.name.to_string());
        }
    }
    let twice = by_version.into_iter().filter(|(_, bundles)| bundles.len() > 1);
    flaws.extend(twice.map(|(version, bundles)| Flaw::SameVersion { version, bundles }));
    flaws
}

fn deprecation_flaws(package: &Package<'_>) -> Vec<Flaw> {
    let mut seen = BTreeSet::new();
    let entries = package.deprecations.iter().flat_map(|list| &list.entries);
    entries
        .filter(|entry| {
            let exists = match &*entry.schema {
                "olm.package" => entry.name.is_empty(),
                "olm.channel" => package.channels.contains_key(&*entry.name),
                "olm.bundle" => package.bundles.contains_key(&*entry.name),
                _ => false,
            };
            !exists || entry.message.is_empty() || !seen.insert((&*entry.schema, &*entry.name))
        })
        .map(|entry| Flaw::Deprecation { what: format!("{} {:?}", entry.schema, &*entry.name) })
        .collect()
}

fn channel_flaw(package: &Package<'_>, channel: &Channel<'_>) -> Option<ChannelFlaw> {
    let missing = channel.entries.iter().find(|entry| !package.bundles.contains_key(&*entry.name));
    if let Some(entry) = missing {
        return Some(ChannelFlaw::NoBundle(entry.name.to_string()));
    }
    for entry in &channel.entries {
        let Some(range) = &entry.skip_range else { continue };
        if CatalogRange::parse(range).is_none() {
            let (entry, range) = (entry.name.to_string(), range.to_string());
            return Some(ChannelFlaw::SkipRange { entry, range });
        }
    }
    chain(&channel.entries.iter().collect::<Vec<_>>()).err()
}

/// The entries from the head along `replaces`, when OLM accepts these entries as a channel: one
/// head, no cycle, and everything that is not skipped is on the path. The last one may replace what
/// is not there.
pub(crate) fn chain<'e, 'a>(entries: &[&'e Entry<'a>]) -> Result<Vec<&'e Entry<'a>>, ChannelFlaw> {
    let mut by_name: BTreeMap<&str, &Entry<'_>> = BTreeMap::new();
    for entry in entries {
        if by_name.insert(&entry.name, entry).is_some() {
            return Err(ChannelFlaw::TwoEntries(entry.name.to_string()));
        }
    }
    let skipped: BTreeSet<&str> =
        entries.iter().flat_map(|entry| &entry.skips).map(|name| &**name).collect();
    let head = head(entries, &skipped)?;
    let by_name: BTreeMap<&str, &'e Entry<'a>> =
        entries.iter().map(|entry| (&*entry.name, *entry)).collect();
    let mut chain = vec![head];
    let mut passed = BTreeSet::from([&*head.name]);
    let mut current = head;
    while let Some(next) = &current.replaces {
        // OLM does not follow an entry that is skipped.
        if skipped.contains(&**next) {
            break;
        }
        if !passed.insert(next) {
            return Err(ChannelFlaw::Circle(next.to_string()));
        }
        let Some(entry) = by_name.get(&**next) else { break };
        chain.push(entry);
        current = entry;
    }
    let lost = |name: &&str| !passed.contains(name) && !skipped.contains(name);
    let stranded: Vec<String> = by_name.into_keys().filter(lost).map(str::to_owned).collect();
    if stranded.is_empty() { Ok(chain) } else { Err(ChannelFlaw::Stranded(stranded)) }
}

/// The one entry that no other replaces or skips.
fn head<'e, 'a>(
    entries: &[&'e Entry<'a>],
    skipped: &BTreeSet<&str>,
) -> Result<&'e Entry<'a>, ChannelFlaw> {
    if entries.is_empty() {
        return Err(ChannelFlaw::Empty);
    }
    let replaced: BTreeSet<&str> =
        entries.iter().filter_map(|entry| entry.replaces.as_deref()).collect();
    let is_head = |name: &str| !replaced.contains(name) && !skipped.contains(name);
    let heads: Vec<&'e Entry<'a>> =
        entries.iter().copied().filter(|entry| is_head(&entry.name)).collect();
    match heads[..] {
        [] => Err(ChannelFlaw::NoHead),
        [head] => Ok(head),
        _ => {
            let mut names: Vec<String> = heads.iter().map(|head| head.name.to_string()).collect();
            names.sort();
            Err(ChannelFlaw::Heads(names))
        }
    }
}

/// A DNS label, which is also a safe name for a folder.
fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Several flaws in one sentence; the first few, and how many more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlawList(pub Vec<Flaw>);

impl fmt::Display for FlawList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        for (index, flaw) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{flaw}", if index > 0 { "; " } else { "" })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
