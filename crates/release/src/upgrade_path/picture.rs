//! Upgrade paths as a drawing.

use std::collections::{BTreeMap, BTreeSet};

use drawing::{Drawing, Edge, Emphasis, Node, Role};
use semver::Version;

use super::{Hop, Reached, UpgradePaths};
use crate::channel::Minor;

impl UpgradePaths {
    /// The picture: hops from left to right.
    pub fn drawing(&self) -> Drawing {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => self.routes_drawing(from, to),
            (Some(anchor), None) | (None, Some(anchor)) => self.reach_drawing(anchor),
            (None, None) => Drawing::default(),
        }
    }

    /// One lane for each route; start and goal are shared.
    fn routes_drawing(&self, from: &Version, to: &Version) -> Drawing {
        let longest = self.routes.iter().map(|route| route.hops.len()).max().unwrap_or(0);
        let mut drawing = Drawing {
            title: format!("From {from} to {to}"),
            lanes: self.routes.iter().map(|_| String::new()).collect(),
            nodes: vec![node(from, 0, 0, Role::Start, "")],
            edges: Vec::new(),
        };
        if longest == 0 {
            return drawing;
        }
        drawing.nodes.push(node(to, longest, 0, Role::Goal, ""));
        for (lane, route) in self.routes.iter().enumerate() {
            let mut at = 0;
            for (hop, rank) in route.hops.iter().zip(1..) {
                let next = if hop.to == *to {
                    1
                } else {
                    let detail = hop.channels.iter().cloned().collect::<Vec<_>>().join(", ");
                    drawing.nodes.push(node(&hop.to, rank, lane, Role::Plain, &detail));
                    drawing.nodes.len() - 1
                };
                drawing.edges.push(Edge {
                    from: at,
                    to: next,
                    emphasis: emphasis(&hop.risks),
                    label: hop_label(hop),
                });
                at = next;
            }
        }
        drawing
    }

    /// Columns by hops, lanes by minor version, newest on top.
    fn reach_drawing(&self, anchor: &Version) -> Drawing {
        let forward = self.from.is_some();
        let deepest = self.releases.iter().map(|release| release.hops).max().unwrap_or(0);
        let rank = |hops: usize| if forward { hops } else { deepest - hops };
        let minors: BTreeSet<Minor> = self
            .releases
            .iter()
            .map(|release| Minor::of(&release.version))
            .chain([Minor::of(anchor)])
            .collect();
        let minors: Vec<Minor> = minors.into_iter().rev().collect();
        let lane = |version: &Version| {
            minors.iter().position(|minor| *minor == Minor::of(version)).unwrap_or_default()
        };
        let (role, title) = match forward {
            true => (Role::Start, format!("What can be reached from {anchor}")),
            false => (Role::Goal, format!("From where {anchor} can be reached")),
        };
        let mut nodes = vec![node(anchor, rank(0), lane(anchor), role, "")];
        // Newest first: most users search for it.
        let mut releases: Vec<&Reached> = self.releases.iter().collect();
        releases.sort_by(|a, b| a.hops.cmp(&b.hops).then_with(|| b.version.cmp(&a.version)));
        for release in &releases {
            let role = if release.head { Role::Head } else { Role::Plain };
            let mut detail = release.channels.iter().cloned().collect::<Vec<_>>().join(", ");
            if !release.risks.is_empty() {
                detail += &format!("\nrisks: {}", release.risks.join(", "));
            }
            let (rank, lane) = (rank(release.hops), lane(&release.version));
            let drawn = node(&release.version, rank, lane, role, &detail);
            nodes.push(Node { emphasis: emphasis(&release.risks), ..drawn });
        }
        let places: BTreeMap<String, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.label.clone(), place)).collect();
        let mut known: BTreeMap<&Version, &[String]> = BTreeMap::new();
        for release in &releases {
            known.insert(&release.version, &release.risks);
        }
        let edges = releases.iter().zip(1..).filter_map(|(release, own)| {
            let via = *places.get(&release.via.to_string())?;
            // What the path gained since the release next to it.
            let before = known.get(&release.via).copied().unwrap_or_default();
            let own_risks: Vec<String> =
                release.risks.iter().filter(|risk| !before.contains(risk)).cloned().collect();
            let (from, to) = if forward { (via, own) } else { (own, via) };
            Some(Edge { from, to, emphasis: emphasis(&own_risks), label: label(&own_risks) })
        });
        let edges = edges.collect();
        let lane =
            |minor: &Minor| if minor.is_eus() { format!("{minor} EUS") } else { minor.to_string() };
        let lanes = minors.iter().map(lane).collect();
        Drawing { title, lanes, nodes, edges }
    }
}

fn node(version: &Version, rank: usize, lane: usize, role: Role, detail: &str) -> Node {
    let detail =
        if detail.is_empty() { version.to_string() } else { format!("{version}\n{detail}") };
    Node { label: version.to_string(), detail, rank, lane, role, emphasis: Emphasis::Normal }
}

fn emphasis(risks: &[String]) -> Emphasis {
    if risks.is_empty() { Emphasis::Normal } else { Emphasis::Warning }
}

/// The risks of a hop, and the update between EUS releases that it is a part of.
fn hop_label(hop: &Hop) -> String {
    let words =
        [label(&hop.risks), hop.extended.as_ref().map(ToString::to_string).unwrap_or_default()];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

fn label(risks: &[String]) -> String {
    match risks {
        [] => String::new(),
        [one] => one.clone(),
        many => format!("{} risks", many.len()),
    }
}
