//! The diagrams of the book.

use std::path::Path;

use anyhow::Result;
use drawing::{Drawing, Edge, Emphasis, Node, Role};

use crate::pages::write;

/// A box: label, column, row, role.
type Item = (&'static str, usize, usize, Role);

/// An arrow between two boxes by their position in the list, and its label.
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
            ("source registries", 0, 0, Start),
            ("isc.yaml", 0, 1, Plain),
            ("workspace", 1, 0, Plain),
            ("connected side: mirror_*.tar", 2, 0, Head),
            ("disconnected side: mirror_*.tar", 3, 2, Head),
            ("site registry", 4, 2, Goal),
            ("cluster resources", 4, 3, Plain),
            ("cluster", 5, 2, Goal),
        ],
        arrows: &[
            (0, 2, "fetch"),
            (1, 2, "select"),
            (2, 3, "archive"),
            (3, 4, "transfer files"),
            (4, 5, "push"),
            (4, 6, "write"),
            (5, 7, "pull"),
            (6, 7, "apply"),
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
            ("site with runs 1 to 3", 3, 0, Goal),
            ("site with run 1 only", 3, 1, Goal),
        ],
        arrows: &[
            (0, 1, "base"),
            (1, 2, "base"),
            (0, 3, "--since"),
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
            ("blobs", 3, 1, Plain),
            ("images", 4, 1, Plain),
            ("catalogs", 5, 1, Goal),
        ],
        arrows: &[
            (0, 1, ""),
            (0, 2, "split"),
            (0, 3, ""),
            (1, 4, ""),
            (2, 5, ""),
            (3, 6, ""),
            (4, 7, ""),
            (5, 7, "upload"),
            (6, 7, ""),
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
            ("nmstate", 2, 0, Plain),
            ("confirm", 3, 0, Plain),
            ("flag, kubelet", 4, 0, Goal),
            ("rolled back", 4, 1, Plain),
            ("document rejected", 2, 2, Plain),
            ("configure-ovs", 5, 2, Plain),
        ],
        arrows: &[(0, 1, ""), (1, 2, "staged"), (2, 3, "applied"), (3, 4, "works")],
        failures: &[(1, 6, "invalid"), (3, 5, "fails"), (6, 7, ""), (5, 7, "")],
    },
    Diagram {
        file: "policy.svg",
        title: "Life of a policy on one node",
        items: &[
            ("policy", 0, 0, Start),
            ("compare", 1, 0, Plain),
            ("slot", 2, 0, Plain),
            ("apply", 3, 0, Plain),
            ("probe", 4, 0, Plain),
            ("saved: Available", 5, 0, Goal),
            ("Failing", 2, 1, Plain),
            ("rolled back: Failing", 5, 1, Plain),
        ],
        arrows: &[(0, 1, ""), (1, 2, "differs"), (2, 3, "granted"), (3, 4, ""), (4, 5, "works")],
        failures: &[(1, 6, "rejected"), (4, 7, "fails")],
    },
    Diagram {
        file: "pipeline.svg",
        title: "The pipeline of a mirror run",
        items: &[
            ("isc.yaml", 0, 0, Start),
            ("image set", 1, 0, Plain),
            ("image trees", 2, 0, Plain),
            ("plan", 3, 0, Head),
            ("target", 4, 0, Plain),
            ("report", 5, 0, Goal),
            ("target before", 2, 1, Plain),
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
        let arrows = self.arrows.iter().map(|arrow| edge(arrow, Emphasis::Normal));
        let failures = self.failures.iter().map(|arrow| edge(arrow, Emphasis::Warning));
        Drawing {
            title: self.title.to_owned(),
            lanes: Vec::new(),
            nodes: self.items.iter().map(node).collect(),
            edges: arrows.chain(failures).collect(),
        }
    }
}

fn node(&(label, rank, lane, role): &Item) -> Node {
    Node {
        label: label.to_owned(),
        detail: String::new(),
        rank,
        lane,
        role,
        emphasis: Emphasis::Normal,
    }
}

fn edge(&(from, to, label): &Arrow, emphasis: Emphasis) -> Edge {
    Edge { from, to, emphasis, label: label.to_owned() }
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
