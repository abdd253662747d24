//! Which operators a cluster needs: those it is subscribed to, from what is installed on.

use std::collections::{BTreeMap, BTreeSet};

use cluster_inventory::{Installed, Inventory, Subscription};
use release::channel::Minor;
use semver::Version;

use crate::origin::{Origin, origin};
use crate::releases::Releases;

/// Comes with every cluster, from its release.
const PART_OF_THE_RELEASE: &str = "packageserver";

/// Which operators to mirror, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operators {
    /// By the name of the catalog.
    pub catalogs: Vec<CatalogDraft>,
    /// What the user has to decide.
    pub undecided: Vec<String>,
}

/// A catalog, and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogDraft {
    /// What it is called on the connected side; `None` if it is not known.
    pub name: Option<String>,
    pub reason: String,
    pub packages: Vec<PackageDraft>,
}

/// A package, and what is wanted of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageDraft {
    pub name: String,
    /// The channels, with the lowest version that is installed from each. Empty when a subscription
    /// leaves the channel to the catalog.
    pub channels: BTreeMap<String, Option<Version>>,
    /// The lowest version where there are no channels.
    pub min_version: Option<Version>,
    pub reasons: Vec<String>,
}

/// The minor versions that a cluster has and will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Minors {
    from: Option<Minor>,
    to: Option<Minor>,
}

impl Minors {
    fn change(&self) -> Option<(Minor, Minor)> {
        self.from.zip(self.to).filter(|(from, to)| from != to)
    }
}

/// Decides which operators the cluster needs, with what is to become of its release.
pub fn operators(inventory: &Inventory, releases: Option<&Releases>) -> Operators {
    let from = inventory.cluster.as_ref().and_then(|cluster| cluster.version.as_ref());
    let minors = Minors {
        from: from.map(Minor::of),
        to: releases.and_then(|releases| releases.target.as_ref()).map(Minor::of),
    };
    decide(inventory, minors)
}

fn decide(inventory: &Inventory, minors: Minors) -> Operators {
    let mut undecided = BTreeSet::new();
    let mut catalogs: BTreeMap<(bool, String), (String, Vec<&Subscription>)> = BTreeMap::new();
    for subscription in &inventory.subscriptions {
        let found = origin(subscription, inventory, minors.to.or(minors.from));
        let (key, reason) = match found {
            Origin::Known { catalog, why } => {
                let mut reason = format!("CatalogSource {}: {why}.", subscription.source);
                if let Some((from, to)) = minors.change().filter(|(_, to)| is_of(&catalog, *to)) {
                    reason += &format!(
                        " Its tag follows the release, from {from} to {to}. The catalog of {from} that is mirrored already serves the cluster until then."
                    );
                }
                ((true, catalog), reason)
            }
            Origin::Unknown { why } => {
                undecided.insert(format!(
                    "Where the catalog of CatalogSource {} comes from is not known: {why}. Its packages are below as comments.",
                    subscription.source
                ));
                ((false, subscription.source.clone()), format!("{why}."))
            }
        };
        catalogs.entry(key).or_insert_with(|| (reason, Vec::new())).1.push(subscription);
    }
    let drafts = catalogs.into_iter().rev().map(|((known, name), (reason, subscriptions))| {
        let packages = packages(inventory, &subscriptions, minors, &mut undecided);
        CatalogDraft { name: known.then_some(name), reason, packages }
    });
    let mut catalogs: Vec<CatalogDraft> = drafts.collect();
    // Those that can be mirrored first, each part by name.
    catalogs.sort_by(|a, b| (a.name.is_none(), &a.name).cmp(&(b.name.is_none(), &b.name)));
    if let Some(unclaimed) = unclaimed(inventory) {
        undecided.insert(unclaimed);
    }
    Operators { catalogs, undecided: undecided.into_iter().collect() }
}

/// Whether a catalog is the one for a minor version.
fn is_of(catalog: &str, minor: Minor) -> bool {
    catalog.ends_with(&format!(":v{minor}"))
}

fn packages(
    inventory: &Inventory,
    subscriptions: &[&Subscription],
    minors: Minors,
    undecided: &mut BTreeSet<String>,
) -> Vec<PackageDraft> {
    let mut by_name: BTreeMap<&str, Vec<&Subscription>> = BTreeMap::new();
    for subscription in subscriptions {
        by_name.entry(&subscription.package).or_default().push(subscription);
    }
    let draft = |(name, subscriptions): (&str, Vec<&Subscription>)| {
        let mut draft = PackageDraft { name: name.to_owned(), ..PackageDraft::default() };
        let mut leaves_it_open = false;
        for subscription in subscriptions {
            let installed = installed(subscription, inventory);
            draft.reasons.push(describe(subscription, installed.as_ref(), inventory));
            let version = installed.and_then(|installed| installed.version);
            if version.is_none() && subscription.installed_csv.is_some() {
                undecided.insert(format!(
                    "Which version of {name} is installed in {} is not known: the newest one is mirrored alone, and may not be an update of it.",
                    subscription.namespace
                ));
            }
            match &subscription.channel {
                None => {
                    leaves_it_open = true;
                    draft.min_version = lower(draft.min_version.take(), version);
                }
                Some(channel) => {
                    let known = draft.channels.entry(channel.clone());
                    let held = known.or_insert_with(|| version.clone());
                    *held = lower(held.take(), version);
                    if let Some((from, to)) = names_minor(channel, minors) {
                        undecided.insert(format!(
                            "{name} is subscribed to channel {channel}, whose name has the minor version {from}. The catalog of {to} may have another one instead: --check-operators checks that, and `oc-mirror list operators` lists them."
                        ));
                    }
                }
            }
        }
        if leaves_it_open {
            let channels = std::mem::take(&mut draft.channels);
            let all = channels.into_values().chain([draft.min_version.take()]);
            draft.min_version = all.flatten().min();
            draft.reasons.push(
                "A subscription leaves the channel to the catalog, so all channels are mirrored."
                    .to_owned(),
            );
        }
        draft
    };
    by_name.into_iter().map(draft).collect()
}

/// The lower of two versions, where both are known.
fn lower(one: Option<Version>, other: Option<Version>) -> Option<Version> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn installed(subscription: &Subscription, inventory: &Inventory) -> Option<Installed> {
    let name = subscription.installed_csv.as_ref()?;
    let held = inventory
        .cluster_service_versions
        .iter()
        .find(|held| held.name == *name && held.namespace == subscription.namespace);
    let version = held.and_then(|held| held.version.clone());
    // `cluster-logging.v5.9.6`: what most are called.
    let by_name = || name.split_once(".v").and_then(|(_, text)| Version::parse(text).ok());
    Some(Installed {
        namespace: subscription.namespace.clone(),
        name: name.clone(),
        version: version.or_else(by_name),
        phase: held.and_then(|held| held.phase.clone()),
    })
}

/// What the cluster reports about a subscription.
fn describe(
    subscription: &Subscription,
    installed: Option<&Installed>,
    inventory: &Inventory,
) -> String {
    let Subscription { namespace, current_csv, installed_csv, .. } = subscription;
    let mut text = match installed {
        Some(Installed { name, phase: Some(phase), .. }) if phase != "Succeeded" => {
            format!("Namespace {namespace} has {name}, which is in phase {phase}.")
        }
        Some(Installed { name, .. }) => format!("Namespace {namespace} has {name}."),
        None => format!("Namespace {namespace} has none installed yet."),
    };
    if let (Some(current), true) =
        (current_csv, installed_csv.is_some() && current_csv != installed_csv)
    {
        let manual = subscription.approval.as_deref() == Some("Manual");
        let waits = if manual { " and waits for approval" } else { "" };
        text += &format!(" An update to {current} is available{waits}.");
    }
    if inventory.cluster_service_versions.is_empty() && installed_csv.is_some() {
        text += " (What runs could not be read; this is from the subscription.)";
    }
    text
}

/// `stable-4.16` on a cluster that goes from 4.16 to another minor version.
fn names_minor(channel: &str, minors: Minors) -> Option<(Minor, Minor)> {
    let (from, to) = minors.change()?;
    let name = channel.rsplit(['-', 'v']).next()?;
    (name == from.to_string()).then_some((from, to))
}

/// Operators that are there without a subscription.
fn unclaimed(inventory: &Inventory) -> Option<String> {
    let claimed: BTreeSet<(&str, &str)> = inventory
        .subscriptions
        .iter()
        .filter_map(|one| Some((one.namespace.as_str(), one.installed_csv.as_deref()?)))
        .collect();
    let names: Vec<String> = inventory
        .cluster_service_versions
        .iter()
        .filter(|held| held.name != PART_OF_THE_RELEASE)
        .filter(|held| !claimed.contains(&(held.namespace.as_str(), held.name.as_str())))
        .map(|held| format!("{} in {}", held.name, held.namespace))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Operators without a subscription get no updates, so nothing is mirrored for them: {}.",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
