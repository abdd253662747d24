//! The SVG of a drawing: columns from left to right, lanes from top to bottom.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Drawing, Emphasis, Node, Role};

const LETTER: usize = 8;
const CHIP_HEIGHT: usize = 26;
const GAP: usize = 8;
const LEAST_COLUMN_GAP: usize = 96;
/// About what a letter of the words beside an arrow takes.
const SMALL_LETTER: usize = 7;
const LANE_GAP: usize = 22;
const MARGIN: usize = 24;
const TOP: usize = 64;
const HEADING: usize = 22;
/// Chips below one another in a box, before the next column of chips starts.
const MOST_ROWS: usize = 10;

const STYLE: &str = "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1c2733}\
.title{font:600 17px system-ui,sans-serif}.lane,.words,.fine-words{font:12px system-ui,sans-serif;fill:#5a6a7a}\
.chip{fill:#fff;stroke:#8394a5}.start{fill:#cfe3f7;stroke:#1f5f99}.goal{fill:#d5efd5;stroke:#2c7a2c}\
.head{fill:#d5efd5;stroke:#2c7a2c;stroke-width:2.5}.warned{stroke:#c4650a;stroke-dasharray:5 3}.box{fill:#f4f7fa;stroke:#d3dce5}\
.fine{fill:none;stroke:#4b6a88;stroke-width:1.5}.risky{fill:none;stroke:#c4650a;stroke-width:1.5;stroke-dasharray:6 4}\
.risky-words{font:12px system-ui,sans-serif;fill:#a95405}\
.fine-words,.risky-words{paint-order:stroke;stroke:#fff;stroke-width:4px}";

#[derive(Debug, Clone, Copy)]
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// Where everything is.
struct Layout {
    boxes: BTreeMap<(usize, usize), Area>,
    chips: Vec<Area>,
    width: usize,
    height: usize,
}

pub(super) fn render(drawing: &Drawing) -> String {
    let layout = Layout::of(drawing);
    let legend = legend(drawing, layout.height - MARGIN);
    document(drawing, &layout, &legend)
}

pub(super) fn render_plain(drawing: &Drawing) -> String {
    document(drawing, &Layout::of(drawing), "")
}

fn document(drawing: &Drawing, layout: &Layout, legend: &str) -> String {
    let mut body = String::new();
    boxes(drawing, layout, &mut body);
    arrows(drawing, layout, &mut body);
    for (node, chip) in drawing.nodes.iter().zip(&layout.chips) {
        draw_chip(node, chip, &mut body);
    }
    let (width, height) = (layout.width, layout.height);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#4b6a88\"/></marker>\
         <marker id=\"risky-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#c4650a\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"36\">{title}</text>\n{body}{legend}</svg>\n",
        title = escaped(&drawing.title),
    )
}

impl Layout {
    fn of(drawing: &Drawing) -> Self {
        let places = drawing.places();
        let size = |(rank, lane): (usize, usize), members: &[usize]| -> (usize, usize) {
            let chip = chip_width(drawing, rank);
            if members.len() == 1 {
                return (chip, CHIP_HEIGHT);
            }
            let columns = members.len().div_ceil(MOST_ROWS);
            let rows = members.len().div_ceil(columns);
            let title = drawing.lane(lane).chars().count() * LETTER;
            let inner = (columns * (chip + GAP) - GAP).max(title);
            (inner + 2 * GAP, HEADING + rows * (CHIP_HEIGHT + GAP) + GAP)
        };
        let mut columns: BTreeMap<usize, usize> = BTreeMap::new();
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, members) in &places {
            let (width, height) = size(*place, members);
            let column = columns.entry(place.0).or_default();
            *column = width.max(*column);
            let row = rows.entry(place.1).or_default();
            *row = height.max(*row);
        }
        let words = drawing.edges.iter().map(|edge| edge.label.chars().count()).max().unwrap_or(0);
        let gap = (words * SMALL_LETTER + 40).max(LEAST_COLUMN_GAP);
        let (lefts, right) = offsets(&columns, MARGIN, gap);
        let (tops, bottom) = offsets(&rows, TOP, LANE_GAP);
        let mut boxes = BTreeMap::new();
        let mut chips = vec![Area { x: 0, y: 0, width: 0, height: 0 }; drawing.nodes.len()];
        for (place, members) in &places {
            let (width, height) = size(*place, members);
            // Boxes are in the middle of their lane: arrows along it are straight.
            let y = tops[&place.1] + (rows[&place.1] - height) / 2;
            let area = Area { x: lefts[&place.0], y, width, height };
            let chip = chip_width(drawing, place.0);
            let per_row = members.len().div_ceil(MOST_ROWS);
            for (count, member) in members.iter().enumerate() {
                let (column, row) = (count % per_row, count / per_row);
                chips[*member] = match members.len() {
                    1 => area,
                    _ => Area {
                        x: area.x + GAP + column * (chip + GAP),
                        y: area.y + HEADING + row * (CHIP_HEIGHT + GAP),
                        width: chip,
                        height: CHIP_HEIGHT,
                    },
                };
            }
            if members.len() > 1 {
                boxes.insert(*place, area);
            }
        }
        let title = drawing.title.chars().count() * (LETTER + 2) + 2 * MARGIN;
        Self { boxes, chips, width: (right + MARGIN).max(title).max(420), height: bottom + 70 }
    }
}

/// Where each column (or lane) starts, and where the last one ends.
fn offsets(
    sizes: &BTreeMap<usize, usize>,
    start: usize,
    gap: usize,
) -> (BTreeMap<usize, usize>, usize) {
    let mut at = start;
    let mut offsets = BTreeMap::new();
    for (key, size) in sizes {
        offsets.insert(*key, at);
        at += size + gap;
    }
    (offsets, at.saturating_sub(gap))
}

/// All chips of a column are as wide as its longest label.
fn chip_width(drawing: &Drawing, rank: usize) -> usize {
    let labels = drawing.nodes.iter().filter(|node| node.rank == rank);
    labels.map(|node| node.label.chars().count()).max().unwrap_or(0) * LETTER + 20
}

fn boxes(drawing: &Drawing, layout: &Layout, out: &mut String) {
    for ((_, lane), Area { x, y, width, height }) in &layout.boxes {
        let _ = writeln!(
            out,
            "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
             <text class=\"lane\" x=\"{}\" y=\"{}\">{}</text>",
            x + GAP,
            y + 15,
            escaped(drawing.lane(*lane)),
        );
    }
}

/// Arrows into a box end at the box and are drawn once: forty arrows to forty
/// chips would be harder to read. Such an arrow is fine if one of them is; each chip
/// shows its own state.
fn arrows(drawing: &Drawing, layout: &Layout, out: &mut String) {
    let end = |place: usize| {
        let node = drawing.nodes.get(place)?;
        let key = (node.rank, node.lane);
        Some(match layout.boxes.get(&key) {
            Some(area) => ((key.0, key.1, None), *area),
            None => ((key.0, key.1, Some(place)), layout.chips[place]),
        })
    };
    let mut drawn = BTreeMap::new();
    for edge in &drawing.edges {
        if let (Some((from, start)), Some((to, target))) = (end(edge.from), end(edge.to)) {
            let single = from.2.is_some() && to.2.is_some();
            let words = if single { edge.label.as_str() } else { "" };
            let (.., emphasis) =
                drawn.entry((from, to)).or_insert((start, target, words, edge.emphasis));
            *emphasis = edge.emphasis.min(*emphasis);
        }
    }
    for (start, target, words, emphasis) in drawn.into_values() {
        let (x1, y1) = (start.x + start.width, start.y + start.height / 2);
        let (x2, y2) = (target.x, target.y + target.height / 2);
        let bend = x2.saturating_sub(x1).max(40) / 2;
        let (class, tip) = match emphasis {
            Emphasis::Normal => ("fine", "tip"),
            Emphasis::Warning => ("risky", "risky-tip"),
        };
        let _ = writeln!(
            out,
            "<path class=\"{class}\" marker-end=\"url(#{tip})\" d=\"M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}\"/>",
            x1 + bend,
            x2.saturating_sub(bend),
        );
        if !words.is_empty() {
            let _ = writeln!(
                out,
                "<text class=\"{class}-words\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
                (x1 + x2) / 2,
                (y1 + y2) / 2 - 7,
                escaped(words),
            );
        }
    }
}

fn draw_chip(node: &Node, area: &Area, out: &mut String) {
    let class = match node.role {
        Role::Plain => "chip",
        Role::Start => "start",
        Role::Goal => "goal",
        Role::Head => "head",
    };
    let class = match node.emphasis {
        Emphasis::Normal => class.to_owned(),
        Emphasis::Warning => format!("{class} warned"),
    };
    let Area { x, y, width, height } = area;
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
         <text text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text></g>",
        escaped(&node.detail),
        x + width / 2,
        y + height / 2 + 5,
        escaped(&node.label),
    );
}

fn legend(drawing: &Drawing, y: usize) -> String {
    let mut legend = String::new();
    let mut x = MARGIN;
    for (emphasis, class, words) in [
        (Emphasis::Normal, "fine", "no known risks"),
        (Emphasis::Warning, "risky", "known risks for some clusters"),
    ] {
        let emphases = drawing.edges.iter().map(|edge| edge.emphasis);
        if emphases
            .chain(drawing.nodes.iter().map(|node| node.emphasis))
            .any(|found| found == emphasis)
        {
            let line = y.saturating_sub(4);
            let _ = writeln!(
                legend,
                "<path class=\"{class}\" d=\"M{x} {line}H{}\"/><text class=\"words\" x=\"{}\" y=\"{y}\">{words}</text>",
                x + 36,
                x + 44,
            );
            x += 80 + words.len() * 7;
        }
    }
    legend
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}
