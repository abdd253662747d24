//! What the selected bundles need besides, and where it is in the catalog.

use std::collections::{BTreeMap, BTreeSet};

use image_set::EntryPosition;
use semver::Version;

use crate::filter::{Filtered, KeptChannel, KeptPackage};
use crate::finding::Problem;
use crate::model::{Api, Bundle, Catalog, Channel, Package, Requirement};
use crate::rules::{DefaultChannel, chain, flaws_of};
use crate::version::CatalogRange;

/// Names what is needed and not selected; adds it when `add` is set. What is added may need more.
pub(crate) fn resolve(filtered: &mut Filtered<'_, '_>, add: bool, at: EntryPosition) {
    let mut offer = Offer::default();
    for kept in &filtered.packages {
        offer.add(kept);
    }
    let mut reported = BTreeSet::new();
    let mut next = 0;
    while next < filtered.packages.len() {
        let kept = filtered.packages[next].clone();
        next += 1;
        for bundle in kept.bundles() {
            for requirement in &bundle.requires {
                for kind in unsupported(requirement) {
                    if reported.insert((&*kept.package.name, format!("constraint {kind}"))) {
                        let (bundle, kind) = (bundle.name.to_string(), kind.to_owned());
                        filtered.find(at, Problem::Constraint { bundle, kind });
                    }
                }
                for need in needs(filtered.catalog, &offer, requirement) {
                    // Once for each package: its versions mostly need the same.
                    if !reported.insert((&*kept.package.name, need.what.clone())) {
                        continue;
                    }
                    let Need { what, provider } = need;
                    match provider {
                        Some((package, channel, found)) if add && !offer.has(package) => {
                            let problem = Problem::Added {
                                package: package.name.to_string(),
                                channel: channel.name.to_string(),
                                bundle: found.name.to_string(),
                                needed_by: bundle.name.to_string(),
                                what,
                            };
                            filtered.find(at, problem);
                            let added = single(package, channel, found);
                            offer.add(&added);
                            filtered.packages.push(added);
                        }
                        found => {
                            let provider = found.map(|(package, ..)| package.name.to_string());
                            let bundle = bundle.name.to_string();
                            filtered.find(at, Problem::Needs { bundle, what, provider });
                        }
                    }
                }
            }
        }
    }
}

/// A requirement that nothing selected meets, and what of the catalog would.
struct Need<'c, 'a> {
    what: String,
    provider: Option<Provider<'c, 'a>>,
}

type Provider<'c, 'a> = (&'c Package<'a>, &'c Channel<'a>, &'c Bundle<'a>);

/// What is missing for a requirement. Of alternatives, the first that the catalog can provide.
fn needs<'c, 'a>(
    catalog: &'c Catalog<'a>,
    offer: &Offer<'_, '_>,
    requirement: &Requirement<'_>,
) -> Vec<Need<'c, 'a>> {
    match requirement {
        Requirement::Package { .. } | Requirement::Api(_) if offer.meets(requirement) => Vec::new(),
        Requirement::Package { .. } | Requirement::Api(_) => {
            let what = describe(requirement);
            vec![Need { what, provider: provider(catalog, requirement) }]
        }
        Requirement::All(parts) => {
            parts.iter().flat_map(|part| needs(catalog, offer, part)).collect()
        }
        Requirement::Any(parts) => {
            let mut of_each = parts.iter().map(|part| needs(catalog, offer, part));
            let mut possible = None;
            let met = of_each.any(|needs| {
                let is_met = needs.is_empty();
                let can_be = needs.iter().all(|need| need.provider.is_some());
                if can_be && possible.is_none() {
                    possible = Some(needs);
                }
                is_met
            });
            match possible {
                _ if met => Vec::new(),
                Some(needs) => needs,
                None => vec![Need { what: describe(requirement), provider: None }],
            }
        }
        // Reported on its own.
        Requirement::Unsupported(_) => Vec::new(),
    }
}

/// The kinds of constraints inside a requirement that are not evaluated.
fn unsupported<'r>(requirement: &'r Requirement<'_>) -> Vec<&'r str> {
    match requirement {
        Requirement::Unsupported(kind) => vec![kind],
        Requirement::All(parts) | Requirement::Any(parts) => {
            parts.iter().flat_map(unsupported).collect()
        }
        Requirement::Package { .. } | Requirement::Api(_) => Vec::new(),
    }
}

/// What the selected bundles offer to each other.
#[derive(Default)]
struct Offer<'c, 'a> {
    versions: BTreeMap<&'c str, Vec<&'c Version>>,
    apis: BTreeSet<&'c Api<'a>>,
}

impl<'c, 'a> Offer<'c, 'a> {
    fn add(&mut self, kept: &KeptPackage<'c, 'a>) {
        let bundles = kept.bundles();
        self.apis.extend(bundles.iter().flat_map(|bundle| &bundle.provides));
        let versions = bundles.iter().filter_map(|bundle| bundle.version.as_ref());
        self.versions.entry(&kept.package.name).or_default().extend(versions);
    }

    fn has(&self, package: &Package<'_>) -> bool {
        self.versions.contains_key(&*package.name)
    }

    fn meets(&self, requirement: &Requirement<'_>) -> bool {
        match requirement {
            Requirement::Package { name, range } => {
                let Some(range) = CatalogRange::parse(range) else { return false };
                let versions = self.versions.get(&**name);
                versions.is_some_and(|held| held.iter().any(|version| range.contains(version)))
            }
            Requirement::Api(api) => self.apis.contains(api),
            Requirement::All(_) | Requirement::Any(_) | Requirement::Unsupported(_) => false,
        }
    }
}

/// Only the one bundle: OLM takes dependencies from any channel, so one is enough.
fn single<'c, 'a>(
    package: &'c Package<'a>,
    channel: &'c Channel<'a>,
    bundle: &Bundle<'a>,
) -> KeptPackage<'c, 'a> {
    let entries = channel.entries.iter().enumerate();
    let entries = entries.filter(|(_, entry)| entry.name == bundle.name).map(|(index, _)| index);
    KeptPackage {
        package,
        default_channel: &channel.name,
        channels: vec![KeptChannel { channel, entries: entries.take(1).collect() }],
        asked_for: false,
        unlisted: Vec::new(),
    }
}

fn meets(package: &Package<'_>, bundle: &Bundle<'_>, requirement: &Requirement<'_>) -> bool {
    match requirement {
        Requirement::Package { name, range } => {
            let in_range = |version: &Version| {
                CatalogRange::parse(range).is_some_and(|range| range.contains(version))
            };
            package.name == *name && bundle.version.as_ref().is_some_and(in_range)
        }
        Requirement::Api(api) => bundle.provides.contains(api),
        Requirement::All(_) | Requirement::Any(_) | Requirement::Unsupported(_) => false,
    }
}

/// The newest bundle that meets the requirement: of the first package by name that has one, in its
/// default channel rather than in others.
fn provider<'c, 'a>(
    catalog: &'c Catalog<'a>,
    requirement: &Requirement<'_>,
) -> Option<Provider<'c, 'a>> {
    catalog.packages.values().find_map(|package| {
        if let Requirement::Package { name, .. } = requirement
            && package.name != *name
        {
            return None;
        }
        let default = package.default_channel();
        let best = package
            .channels
            .values()
            .flat_map(|channel| channel.entries.iter().map(move |entry| (channel, entry)))
            // An entry that skips itself cannot stand alone.
            .filter(|(_, entry)| chain(&[*entry]).is_ok())
            .filter_map(|(channel, entry)| Some((channel, package.bundles.get(&*entry.name)?)))
            .filter(|(_, bundle)| meets(package, bundle, requirement))
            .max_by_key(|(channel, bundle)| {
                (Some(&*channel.name) == default, bundle.version.as_ref())
            });
        let (channel, bundle) = best?;
        let flaws = flaws_of(package, &[&channel.name], DefaultChannel::Chosen);
        flaws.is_empty().then_some((package, channel, bundle))
    })
}

fn describe(requirement: &Requirement<'_>) -> String {
    match requirement {
        Requirement::Package { name, range } if range.is_empty() => format!("the package {name:?}"),
        Requirement::Package { name, range } => format!("the package {name:?} in {range}"),
        Requirement::Api(api) => format!("the API {}/{} {}", api.group, api.version, api.kind),
        Requirement::All(parts) => joined(parts, " and "),
        Requirement::Any(parts) => joined(parts, " or "),
        Requirement::Unsupported(kind) => format!("a constraint {kind:?}"),
    }
}

fn joined(parts: &[Requirement<'_>], word: &str) -> String {
    parts.iter().map(describe).collect::<Vec<_>>().join(word)
}
