//! The configuration for a cluster, written with its reasons.

use cluster_inventory::{Inventory, Reason};
use image_set::Architecture;

use crate::commented_yaml::{CommentedYaml, scalar};
use crate::operators::{CatalogDraft, Operators, PackageDraft};
use crate::releases::Releases;

/// A configuration to review and to mirror with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// YAML with comments.
    pub text: String,
    /// What the user has to decide; all of it is in the text, too.
    pub undecided: Vec<String>,
}

/// Writes the configuration for what a cluster needs next. `releases` is `None` when the cluster's
/// own release is not known.
pub fn draft(
    inventory: &Inventory,
    releases: Option<&Releases>,
    operators: &Operators,
    architecture: Option<Architecture>,
) -> Draft {
    let mut undecided: Vec<String> = Vec::new();
    undecided.extend(
        inventory.unread.iter().filter(|one| one.reason != Reason::Missing).map(|unread| {
            format!("The inventory is incomplete: {} could not be read.", unread.kind)
        }),
    );
    undecided.dedup();
    match releases {
        Some(releases) => undecided.extend(releases.undecided.iter().cloned()),
        None => undecided.push(
            "The cluster's release is not known, so no release is mirrored: see mirror.platform."
                .to_owned(),
        ),
    }
    if architecture.is_none() && releases.is_some() {
        undecided.push(
            "The architecture of the cluster is unknown; amd64 is used. Set another with --arch."
                .to_owned(),
        );
    }
    if let Some(to) = updating(inventory) {
        undecided.push(format!(
            "The cluster is being updated to {to}. Create a new inventory when the update is complete."
        ));
    }
    undecided.extend(operators.undecided.iter().cloned());

    let mut yaml = CommentedYaml::new();
    head(&mut yaml, &undecided);
    yaml.line(0, "kind: ImageSetConfiguration");
    yaml.pair(0, "apiVersion", image_set::API_VERSION);
    let anything = releases.is_some() || operators.catalogs.iter().any(|one| one.name.is_some());
    yaml.line(0, if anything { "mirror:" } else { "mirror: {}" });
    match releases {
        Some(releases) => platform(&mut yaml, inventory, releases, architecture),
        None => yaml.as_comment(|yaml| {
            yaml.line(2, "platform:");
            yaml.line(2, "  channels:");
            yaml.line(2, "  - name: stable-4.Y");
            yaml.line(2, "    minVersion: 4.Y.Z");
        }),
    }
    catalogs(&mut yaml, operators);
    Draft { text: yaml.finish(), undecided }
}

fn updating(inventory: &Inventory) -> Option<&semver::Version> {
    inventory.cluster.as_ref()?.updating_to.as_ref()
}

fn head(yaml: &mut CommentedYaml, undecided: &[String]) {
    yaml.comment(
        0,
        "What a cluster needs next, derived from its inventory by `oc-mirror init --for`.",
    );
    yaml.comment(0, "Review it, then mirror with: oc-mirror -c FILE file:///data");
    if !undecided.is_empty() {
        yaml.comment(0, "");
        yaml.comment(0, "You have to decide:");
        undecided.iter().for_each(|line| yaml.point(0, line));
    }
    yaml.blank();
}

fn platform(
    yaml: &mut CommentedYaml,
    inventory: &Inventory,
    releases: &Releases,
    architecture: Option<Architecture>,
) {
    yaml.line(2, "platform:");
    let service = inventory.cluster.as_ref().and_then(|cluster| cluster.update_service.as_ref());
    match service {
        Some(service) => yaml.comment(
            4,
            &format!(
                "The cluster uses its own update service {service}: it needs the graph image."
            ),
        ),
        None => yaml.comment(
            4,
            "For an update service on the disconnected side. Without one this can be left out.",
        ),
    }
    yaml.line(4, "graph: true");
    if let Some(architecture) = architecture {
        yaml.line(4, &format!("architectures: [{}]", architecture.as_str()));
    }
    yaml.line(4, "channels:");
    releases.reasons.iter().for_each(|reason| yaml.comment(4, reason));
    if releases.release_path.len() > 1 {
        let release_path: Vec<String> =
            releases.release_path.iter().map(ToString::to_string).collect();
        yaml.comment(4, &format!("The upgrade path: {}.", release_path.join(" -> ")));
    }
    for channel in &releases.channels {
        yaml.pair(4, "- name", &channel.name);
        if let Some((min, max)) = &channel.bounds {
            yaml.pair(6, "minVersion", &min.to_string());
            yaml.pair(6, "maxVersion", &max.to_string());
        }
        if channel.shortest_path {
            yaml.line(6, "shortestPath: true");
        }
    }
}

fn catalogs(yaml: &mut CommentedYaml, operators: &Operators) {
    let Operators { catalogs, .. } = operators;
    if catalogs.is_empty() {
        return;
    }
    let any = catalogs.iter().any(|catalog| catalog.name.is_some());
    let write = |yaml: &mut CommentedYaml| yaml.line(2, "operators:");
    match any {
        true => write(yaml),
        false => yaml.as_comment(write),
    }
    for draft in catalogs {
        yaml.comment(2, &draft.reason);
        match &draft.name {
            Some(name) => catalog(yaml, name, draft),
            None => {
                yaml.as_comment(|yaml| catalog(yaml, "REGISTRY/REPOSITORY:TAG", draft));
            }
        }
    }
}

fn catalog(yaml: &mut CommentedYaml, name: &str, draft: &CatalogDraft) {
    yaml.pair(2, "- catalog", name);
    yaml.line(4, "packages:");
    draft.packages.iter().for_each(|draft| package(yaml, draft));
}

fn package(yaml: &mut CommentedYaml, draft: &PackageDraft) {
    yaml.pair(4, "- name", &draft.name);
    draft.reasons.iter().for_each(|reason| yaml.comment(6, reason));
    if let Some(min) = &draft.min_version {
        yaml.pair(6, "minVersion", &min.to_string());
    }
    let Some((first, _)) = draft.channels.first_key_value() else { return };
    // The package's own default may be another channel, which is not mirrored.
    yaml.line(6, &format!("defaultChannel: {}", scalar(first)));
    yaml.line(6, "channels:");
    for (name, min) in &draft.channels {
        yaml.pair(6, "- name", name);
        if let Some(min) = min {
            yaml.pair(8, "minVersion", &min.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
