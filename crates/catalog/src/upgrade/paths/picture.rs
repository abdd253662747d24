//! Upgrade paths of operators as a drawing.

use std::collections::{BTreeMap, BTreeSet};

use drawing::{Drawing, Edge, Emphasis, Node, Role};
use semver::Version;

use super::{EdgeKind, Reached, UpgradePaths};

impl UpgradePaths {
    /// The picture: hops from left to right. Dashed is what OLM does not do by itself.
    pub fn drawing(&self) -> Drawing {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => self.way_drawing(from, to),
            (Some(anchor), None) | (None, Some(anchor)) => self.reach_drawing(anchor),
            (None, None) => Drawing::default(),
        }
    }

    fn way_drawing(&self, from: &Version, to: &Version) -> Drawing {
        let emphasis = if self.advice.is_empty() { Emphasis::Normal } else { Emphasis::Warning };
        let mut drawing = Drawing {
            title: format!("{}, channel {}: from {from} to {to}", self.package, self.channel),
            lanes: vec![String::new()],
            nodes: vec![node(from, 0, 0, Role::Start, "", Emphasis::Normal)],
            edges: Vec::new(),
        };
        for (hop, rank) in self.hops.iter().zip(1..) {
            let role = if hop.to == *to { Role::Goal } else { Role::Plain };
            drawing.nodes.push(node(&hop.to, rank, 0, role, &hop.bundle, Emphasis::Normal));
            let label = label(hop.kind).to_owned();
            drawing.edges.push(Edge { from: rank - 1, to: rank, emphasis, label });
        }
        drawing
    }

    /// Columns by hops, lanes by minor version, newest on top.
    fn reach_drawing(&self, anchor: &Version) -> Drawing {
        let forward = self.from.is_some();
        let deepest = self.versions.iter().map(|reached| reached.hops).max().unwrap_or(0);
        let rank = |hops: usize| if forward { hops } else { deepest - hops };
        let minor = |version: &Version| (version.major, version.minor);
        let minors: BTreeSet<(u64, u64)> = self
            .versions
            .iter()
            .map(|reached| minor(&reached.version))
            .chain([minor(anchor)])
            .collect();
        let minors: Vec<(u64, u64)> = minors.into_iter().rev().collect();
        let lane = |version: &Version| {
            minors.iter().position(|known| *known == minor(version)).unwrap_or_default()
        };
        let (role, what) = match forward {
            true => (Role::Start, format!("what can be reached from {anchor}")),
            false => (Role::Goal, format!("from where {anchor} can be reached")),
        };
        let mut nodes = vec![node(anchor, rank(0), lane(anchor), role, "", Emphasis::Normal)];
        // Newest first: most users search for it.
        let mut versions: Vec<&Reached> = self.versions.iter().collect();
        versions.sort_by(|a, b| a.hops.cmp(&b.hops).then_with(|| b.version.cmp(&a.version)));
        for reached in &versions {
            let role = if reached.head { Role::Head } else { Role::Plain };
            let mut detail = reached.bundle.clone();
            if let Some(why) = &reached.deprecation {
                detail += &format!("\ndeprecated: {why}");
            }
            let (rank, lane) = (rank(reached.hops), lane(&reached.version));
            let emphasis = emphasis(reached.automatic);
            nodes.push(node(&reached.version, rank, lane, role, &detail, emphasis));
        }
        let places: BTreeMap<String, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.label.clone(), place)).collect();
        let edges = versions.iter().zip(1..).filter_map(|(reached, own)| {
            let via = *places.get(&reached.via.to_string())?;
            let (from, to) = if forward { (via, own) } else { (own, via) };
            let label = label(reached.kind).to_owned();
            Some(Edge { from, to, emphasis: emphasis(reached.automatic), label })
        });
        let edges = edges.collect();
        let lanes = minors.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
        let title = format!("{}, channel {}: {what}", self.package, self.channel);
        Drawing { title, lanes, nodes, edges }
    }
}

fn node(
    version: &Version,
    rank: usize,
    lane: usize,
    role: Role,
    detail: &str,
    emphasis: Emphasis,
) -> Node {
    let detail =
        if detail.is_empty() { version.to_string() } else { format!("{version}\n{detail}") };
    Node { label: version.to_string(), detail, rank, lane, role, emphasis }
}

fn emphasis(automatic: bool) -> Emphasis {
    if automatic { Emphasis::Normal } else { Emphasis::Warning }
}

fn label(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Replaces => "replaces",
        EdgeKind::Skips => "skips",
        EdgeKind::SkipRange => "skipRange",
    }
}
