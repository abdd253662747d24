//! Diagrams of nodes in columns, with arrows between them: SVG, Graphviz, Mermaid.
//!
//! The crate is independent of the meaning of a diagram. The caller determines the column (`rank`)
//! and the row (`lane`) of each node; several nodes in one cell become a box with a grid in it, so that
//! large diagrams stay readable.
//!
//! # Example
//!
//! ```
//! use drawing::{Drawing, Edge, Emphasis, Node, Role};
//!
//! let node = |label: &str, rank| Node {
//!     label: label.to_owned(),
//!     detail: String::new(),
//!     rank,
//!     lane: 0,
//!     role: Role::Plain,
//!     emphasis: Emphasis::Normal,
//! };
//! let drawing = Drawing {
//!     title: "Update".to_owned(),
//!     nodes: vec![node("4.16", 0), node("4.17", 1)],
//!     edges: vec![Edge { from: 0, to: 1, emphasis: Emphasis::Normal, label: String::new() }],
//!     ..Drawing::default()
//! };
//! assert!(drawing.svg().starts_with("<svg"));
//! assert!(drawing.mermaid().contains("n0 --> n1"));
//! ```

use std::collections::BTreeMap;

mod columns;
mod svg;

pub use columns::columns;

/// A diagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawing {
    pub title: String,
    /// What the rows are called, from top to bottom.
    pub lanes: Vec<String>,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

/// A node of a diagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub label: String,
    /// What a reader sees when pointing at it.
    pub detail: String,
    /// The column, counted from 0.
    pub rank: usize,
    /// The place in [`Drawing::lanes`].
    pub lane: usize,
    pub role: Role,
    /// Whether every path to it has a risk.
    pub emphasis: Emphasis,
}

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Plain,
    Start,
    Goal,
    /// The newest, which is recommended.
    Head,
}

/// An arrow between two places in [`Drawing::nodes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub emphasis: Emphasis,
    /// A few words beside the arrow; may be empty.
    pub label: String,
}

/// How a node or an arrow is drawn: as usual, or as one with known risks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Emphasis {
    Normal,
    Warning,
}

impl Drawing {
    /// A self-contained SVG.
    pub fn svg(&self) -> String {
        svg::render(self)
    }

    /// The same without the legend of emphases, for drawings that have none.
    pub fn svg_without_legend(&self) -> String {
        svg::render_plain(self)
    }

    /// For Graphviz' `dot`.
    pub fn dot(&self) -> String {
        let mut text = format!(
            "digraph {{\n  label={};\n  labelloc=t;\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=monospace];\n",
            quoted(&self.title)
        );
        for ((rank, lane), members) in self.places() {
            let boxed = members.len() > 1;
            if boxed {
                text += &format!(
                    "  subgraph cluster_{rank}_{lane} {{\n    label={};\n    color=gray;\n",
                    quoted(self.lane(lane))
                );
            }
            for place in members {
                let node = &self.nodes[place];
                let colour = match node.role {
                    Role::Plain => "",
                    Role::Start => ", fillcolor=lightblue",
                    Role::Goal => ", fillcolor=palegreen",
                    Role::Head => ", fillcolor=palegreen, penwidth=2",
                };
                let colour = match node.emphasis {
                    Emphasis::Normal => colour.to_owned(),
                    Emphasis::Warning => format!("{colour}, color=darkorange"),
                };
                text += &format!(
                    "  n{place} [label={}, tooltip={}{colour}];\n",
                    quoted(&node.label),
                    quoted(&node.detail)
                );
            }
            if boxed {
                text += "  }\n";
            }
        }
        for Edge { from, to, emphasis, label } in &self.edges {
            let style = match emphasis {
                Emphasis::Normal => "",
                Emphasis::Warning => ", style=dashed, color=darkorange, fontcolor=darkorange",
            };
            text += &format!("  n{from} -> n{to} [label={}{style}];\n", quoted(label));
        }
        text + "}\n"
    }

    /// A Mermaid flowchart, as Markdown pages of many hosts show it.
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n".to_owned();
        for ((rank, lane), members) in self.places() {
            let boxed = members.len() > 1;
            if boxed {
                text += &format!("  subgraph g{rank}_{lane}[{}]\n", entity(self.lane(lane)));
            }
            for place in members {
                let node = &self.nodes[place];
                let class = match node.role {
                    Role::Plain => "",
                    Role::Start => ":::start",
                    Role::Goal | Role::Head => ":::goal",
                };
                text += &format!("  n{place}({}){class}\n", entity(&node.label));
            }
            if boxed {
                text += "  end\n";
            }
        }
        for Edge { from, to, emphasis, label } in &self.edges {
            let arrow = match emphasis {
                Emphasis::Normal => "-->",
                Emphasis::Warning => "-.->",
            };
            text += &match label.is_empty() {
                true => format!("  n{from} {arrow} n{to}\n"),
                false => format!("  n{from} {arrow}|{}| n{to}\n", entity(label)),
            };
        }
        text + "  classDef start fill:#cfe3f7,stroke:#1f5f99\n  classDef goal fill:#d5efd5,stroke:#2c7a2c\n"
    }

    /// The nodes of each place, in their own order.
    fn places(&self) -> BTreeMap<(usize, usize), Vec<usize>> {
        let mut places: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (place, node) in self.nodes.iter().enumerate() {
            places.entry((node.rank, node.lane)).or_default().push(place);
        }
        places
    }

    fn lane(&self, lane: usize) -> &str {
        self.lanes.get(lane).map_or("", String::as_str)
    }
}

/// A quoted string of the dot language.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            letter if letter.is_control() => {}
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A quoted string of Mermaid, which has no escapes except numbered entities.
fn entity(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            letter if letter.is_alphanumeric() || " .,:-_+()/".contains(letter) => {
                quoted.push(letter);
            }
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push_str(&format!("#{};", u32::from(letter))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
