//! The diagrams of the book.

use std::path::Path;

use anyhow::Result;
use drawing::{Drawing, Edge, Mood, Node, Role};

use crate::pages::write;

/// A box: label, column, row, role.
type Item = (&'static str, usize, usize, Role);

/// An arrow between two boxes by their position in the list, and its words.
type Arrow = (usize, usize, &'static str);

/// A diagram. Dashed arrows are what happens on failure.
struct Diagram {
    file: &'static str,
    title: &'static str,
    items: &'static [Item],
    arrows: &'static [Arrow],
    failures: &'static [Arrow],
}

use Role::{Goal, Head, Plain, Start};

const DIAGRAMS: [Diagram; 6] = [
    Diagram {
        file: "air-gap.svg",
        title: "Across the air gap",
        items: &[
            ("public registries", 0, 0, Start),
            ("isc.yaml", 0, 1, Plain),
            ("workspace", 1, 0, Plain),
            ("mirror_*.tar", 2, 0, Head),
            ("mirror_*.tar", 3, 0, Head),
            ("registry of the site", 4, 0, Goal),
            ("cluster-resources/", 4, 1, Plain),
            ("cluster", 5, 0, Goal),
        ],
        arrows: &[
            (0, 2, "mirror to disk"),
            (1, 2, "selects"),
            (2, 3, "only new content"),
            (3, 4, "carried"),
            (4, 5, "disk to mirror"),
            (4, 6, "writes"),
            (5, 7, "pull"),
            (6, 7, "oc apply"),
        ],
        failures: &[],
    },
    Diagram {
        file: "archives.svg",
        title: "Archives and the runs they are based on",
        items: &[
            ("run 1: A B C", 0, 0, Start),
            ("run 2: D", 1, 0, Plain),
            ("run 3: E F", 2, 0, Plain),
            ("run 4: D E F G", 1, 1, Plain),
            ("target: A to F", 3, 0, Goal),
            ("target that missed runs 2 and 3: A to G", 3, 1, Goal),
        ],
        arrows: &[
            (0, 1, "base of"),
            (1, 2, "base of"),
            (0, 3, "--since run 2"),
            (2, 4, "push"),
            (3, 5, "push"),
        ],
        failures: &[],
    },
    Diagram {
        file: "shards.svg",
        title: "One plan, several workers",
        items: &[
            ("plan", 0, 1, Start),
            ("part 1", 1, 0, Plain),
            ("part 2", 1, 1, Plain),
            ("part 3", 1, 2, Plain),
            ("worker 1", 2, 0, Plain),
            ("worker 2", 2, 1, Plain),
            ("worker 3", 2, 2, Plain),
            ("blobs at the target", 3, 1, Plain),
            ("manifests, tags", 4, 1, Plain),
            ("catalogs", 5, 1, Goal),
        ],
        arrows: &[
            (0, 1, "split"),
            (0, 2, "split"),
            (0, 3, "split"),
            (1, 4, ""),
            (2, 5, ""),
            (3, 6, ""),
            (4, 7, "upload"),
            (5, 7, "upload"),
            (6, 7, "upload"),
            (7, 8, "publish"),
            (8, 9, "last"),
        ],
        failures: &[],
    },
    Diagram {
        file: "first-boot.svg",
        title: "First boot of a node",
        items: &[
            ("recover", 0, 0, Start),
            ("stage", 1, 0, Plain),
            ("nmstate.service", 2, 0, Plain),
            ("confirm", 3, 0, Plain),
            ("flag set, kubelet starts", 4, 0, Goal),
            ("document rejected", 2, 1, Plain),
            ("profiles restored", 4, 1, Plain),
            ("configure-ovs", 5, 1, Plain),
        ],
        arrows: &[
            (0, 1, "profiles whole"),
            (1, 2, "document staged"),
            (2, 3, "applied"),
            (3, 4, "br-ex works"),
        ],
        failures: &[(1, 5, "breaks a rule"), (3, 6, "does not work"), (5, 7, ""), (6, 7, "")],
    },
    Diagram {
        file: "policy.svg",
        title: "Life of a policy on one node",
        items: &[
            ("policy", 0, 0, Start),
            ("compare", 1, 0, Plain),
            ("slot", 2, 0, Plain),
            ("checkpoint, apply", 3, 0, Plain),
            ("probes", 4, 0, Plain),
            ("profiles saved: Available", 5, 0, Goal),
            ("Failing, no node changed", 2, 1, Plain),
            ("rolled back: Failing", 5, 1, Plain),
        ],
        arrows: &[
            (0, 1, "every node"),
            (1, 2, "differs"),
            (2, 3, "coordinator"),
            (3, 4, "in memory"),
            (4, 5, "respond"),
        ],
        failures: &[(1, 6, "cannot apply"), (4, 7, "silent")],
    },
    Diagram {
        file: "pipeline.svg",
        title: "The pipeline of a mirror run",
        items: &[
            ("isc.yaml", 0, 0, Start),
            ("image set", 1, 0, Plain),
            ("trees", 2, 0, Plain),
            ("plan", 3, 0, Head),
            ("content at the target", 4, 0, Plain),
            ("report, resources", 5, 0, Goal),
            ("target, earlier archives", 2, 1, Plain),
        ],
        arrows: &[
            (0, 1, "parse"),
            (1, 2, "collect"),
            (2, 3, "plan"),
            (6, 3, "gather"),
            (3, 4, "execute"),
            (4, 5, "conclude"),
        ],
        failures: &[],
    },
];

/// Writes all diagrams below `out/diagrams`.
pub(crate) fn write_all(out: &Path) -> Result<()> {
    DIAGRAMS.iter().try_for_each(|diagram| {
        write(&out.join("diagrams").join(diagram.file), diagram.drawing().svg_without_legend())
    })
}

impl Diagram {
    fn drawing(&self) -> Drawing {
        let arrows = self.arrows.iter().map(|arrow| edge(arrow, Mood::Fine));
        let failures = self.failures.iter().map(|arrow| edge(arrow, Mood::Risky));
        Drawing {
            title: self.title.to_owned(),
            lanes: Vec::new(),
            nodes: self.items.iter().map(node).collect(),
            edges: arrows.chain(failures).collect(),
        }
    }
}

fn node(&(label, rank, lane, role): &Item) -> Node {
    Node { label: label.to_owned(), detail: String::new(), rank, lane, role, mood: Mood::Fine }
}

fn edge(&(from, to, label): &Arrow, mood: Mood) -> Edge {
    Edge { from, to, mood, label: label.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn arrows_lead_to_a_later_column() {
        for diagram in &DIAGRAMS {
            for (from, to, words) in diagram.arrows.iter().chain(diagram.failures) {
                let (from, to) = (diagram.items[*from], diagram.items[*to]);
                assert!(from.1 < to.1, "{}: {} to {} {words}", diagram.file, from.0, to.0);
            }
        }
    }

    #[test]
    fn no_two_boxes_are_in_one_place() {
        for diagram in &DIAGRAMS {
            let places: BTreeSet<_> = diagram.items.iter().map(|item| (item.1, item.2)).collect();
            assert_eq!(places.len(), diagram.items.len(), "{}", diagram.file);
        }
    }
}
