//! Walks a document along a path.

use std::cmp::Ordering;

use located_yaml::{Meaning, Node, Value};

use super::{Block, Comparison, End, Literal, Step};

/// How many values a path may lead to; nested `..` would multiply them.
const MAX_FOUND: usize = 100_000;

/// A value and the path to it: `spec.containers[0].image`.
#[derive(Debug, Clone)]
pub struct Found<'n> {
    pub node: &'n Node,
    pub path: String,
}

/// What a step works on: a value of the document, or a literal of the path.
#[derive(Debug, Clone)]
enum Item<'n> {
    Node(Found<'n>),
    Literal(Literal),
}

pub(super) fn blocks<'n>(blocks: &[Block], root: &'n Node) -> Vec<Found<'n>> {
    let start = Found { node: root, path: String::new() };
    let mut found = Vec::new();
    walk_blocks(blocks, &start, &mut found);
    found
}

fn walk_blocks<'n>(blocks: &[Block], from: &Found<'n>, found: &mut Vec<Found<'n>>) {
    for block in blocks {
        match block {
            Block::Path(steps) => found.extend(nodes(walk(steps, from))),
            Block::Range(steps, inner) => {
                for item in nodes(walk(steps, from)) {
                    walk_blocks(inner, &item, found);
                }
            }
        }
        found.truncate(MAX_FOUND);
    }
}

fn nodes(items: Vec<Item<'_>>) -> impl Iterator<Item = Found<'_>> {
    items.into_iter().filter_map(|item| match item {
        Item::Node(found) => Some(found),
        Item::Literal(_) => None,
    })
}

fn walk<'n>(steps: &[Step], from: &Found<'n>) -> Vec<Item<'n>> {
    let mut current = vec![Item::Node(from.clone())];
    for step in steps {
        current = match step {
            Step::Literal(literal) => vec![Item::Literal(literal.clone())],
            step => nodes(current).flat_map(|found| one_step(step, &found)).collect(),
        };
        current.truncate(MAX_FOUND);
    }
    current
}

fn one_step<'n>(step: &Step, from: &Found<'n>) -> Vec<Item<'n>> {
    match step {
        Step::Field(name) => {
            let entry = from.node.entry(name);
            entry.map(|entry| below(from, name, &entry.value)).into_iter().map(Item::Node).collect()
        }
        Step::Quoted { name, path } => match from.node.entry(name) {
            Some(entry) => vec![Item::Node(below(from, name, &entry.value))],
            None => walk(path, from),
        },
        Step::Wildcard => children(from).into_iter().map(Item::Node).collect(),
        Step::Slice { start, end, step } => slice(from, *start, *end, *step),
        Step::Descend => {
            let mut all = Vec::new();
            descend(from, &mut all);
            all.into_iter().map(Item::Node).collect()
        }
        Step::Union(paths) => paths.iter().flat_map(|steps| walk(steps, from)).collect(),
        Step::Filter { left, comparison } => items(from)
            .into_iter()
            .filter(|item| passes(item, left, comparison.as_ref()))
            .map(Item::Node)
            .collect(),
        Step::Literal(literal) => vec![Item::Literal(literal.clone())],
    }
}

fn below<'n>(from: &Found<'_>, name: &str, node: &'n Node) -> Found<'n> {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    let path = match (from.path.is_empty(), is_plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{}.{name}", from.path),
        (_, false) => format!("{}['{name}']", from.path),
    };
    Found { node, path }
}

fn items<'n>(from: &Found<'n>) -> Vec<Found<'n>> {
    let items = from.node.items().iter().enumerate();
    items.map(|(at, node)| Found { node, path: format!("{}[{at}]", from.path) }).collect()
}

fn children<'n>(from: &Found<'n>) -> Vec<Found<'n>> {
    match &from.node.value {
        Value::Map(entries) => {
            entries.iter().map(|entry| below(from, &entry.key, &entry.value)).collect()
        }
        Value::List(_) => items(from),
        Value::Scalar { .. } => Vec::new(),
    }
}

fn descend<'n>(from: &Found<'n>, all: &mut Vec<Found<'n>>) {
    if all.len() < MAX_FOUND {
        all.push(from.clone());
        for child in children(from) {
            descend(&child, all);
        }
    }
}

fn slice<'n>(from: &Found<'n>, start: Option<i64>, end: End, step: Option<i64>) -> Vec<Item<'n>> {
    let items = items(from);
    let length = items.len() as i64;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let first = from_end(start.unwrap_or(0));
    let last = match end {
        End::AfterStart => first + 1,
        End::Length => length,
        End::At(end) => from_end(end),
    };
    let step = step.unwrap_or(1);
    if first < 0 || last > length || first > last || step < 1 {
        return Vec::new();
    }
    let chosen = items.into_iter().skip(first as usize).take((last - first) as usize);
    chosen.step_by(step as usize).map(Item::Node).collect()
}

fn passes(item: &Found<'_>, left: &[Step], comparison: Option<&(Comparison, Vec<Step>)>) -> bool {
    let left = walk(left, item);
    let Some((comparison, right)) = comparison else { return !left.is_empty() };
    let right = walk(right, item);
    let ([left], [right]) = (left.as_slice(), right.as_slice()) else { return false };
    let (Some(left), Some(right)) = (scalar(left), scalar(right)) else { return false };
    let order = match (&left, &right) {
        (Literal::Text(left), Literal::Text(right)) => Some(left.cmp(right)),
        (Literal::Number(left), Literal::Number(right)) => left.partial_cmp(right),
        (Literal::Bool(left), Literal::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    };
    order.is_some_and(|order| match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

fn scalar(item: &Item<'_>) -> Option<Literal> {
    match item {
        Item::Literal(literal) => Some(literal.clone()),
        Item::Node(found) => match &found.node.value {
            Value::Scalar { text, meaning } => match meaning {
                Meaning::Text => Some(Literal::Text(text.clone())),
                Meaning::Bool(value) => Some(Literal::Bool(*value)),
                Meaning::Integer(value) => Some(Literal::Number(*value as f64)),
                Meaning::Float => text.parse().ok().map(Literal::Number),
                Meaning::Null => None,
            },
            Value::List(_) | Value::Map(_) => None,
        },
    }
}
