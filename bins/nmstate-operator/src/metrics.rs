//! Numbers about a running program, in the text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bounds of histograms, in seconds.
const BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// A family of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
    Histogram,
}

/// Labels of a series, in the order they are shown in.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// All series of a program.
#[derive(Debug, Default)]
pub struct Metrics {
    families: Mutex<Families>,
}

/// By name, with their series by labels.
type Families = BTreeMap<&'static str, (Family, BTreeMap<String, Series>)>;

#[derive(Debug, Clone)]
enum Series {
    Number(f64),
    Distribution { counts: [u64; BUCKETS.len()], count: u64, sum: f64 },
}

impl Metrics {
    /// Shows a family before anything happened in it.
    pub fn declare(&self, family: Family) {
        self.lock().entry(family.name).or_insert_with(|| (family, BTreeMap::new()));
    }

    /// Shows a counter before anything was counted, so that its first step is seen.
    pub fn start(&self, family: Family, labels: Labels<'_>) {
        let mut families = self.lock();
        let (_, series) = families.entry(family.name).or_insert_with(|| (family, BTreeMap::new()));
        series.entry(text(labels)).or_insert(Series::Number(0.0));
    }

    pub fn add(&self, family: Family, labels: Labels<'_>) {
        let mut families = self.lock();
        let (_, series) = families.entry(family.name).or_insert_with(|| (family, BTreeMap::new()));
        if let Series::Number(number) = series.entry(text(labels)).or_insert(Series::Number(0.0)) {
            *number += 1.0;
        }
    }

    /// Replaces all series of a family, so that none outlives what it speaks of.
    pub fn replace(&self, family: Family, all: impl IntoIterator<Item = (String, f64)>) {
        let series = all.into_iter().map(|(labels, number)| (labels, Series::Number(number)));
        self.lock().insert(family.name, (family, series.collect()));
    }

    pub fn observe(&self, family: Family, labels: Labels<'_>, seconds: f64) {
        let mut families = self.lock();
        let (_, series) = families.entry(family.name).or_insert_with(|| (family, BTreeMap::new()));
        let empty = Series::Distribution { counts: [0; BUCKETS.len()], count: 0, sum: 0.0 };
        if let Series::Distribution { counts, count, sum } =
            series.entry(text(labels)).or_insert(empty)
        {
            for (bound, counted) in BUCKETS.iter().zip(counts) {
                *counted += u64::from(seconds <= *bound);
            }
            *count += 1;
            *sum += seconds;
        }
    }

    /// All of it as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, (family, series)) in self.lock().iter() {
            let kind = match family.kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "counter",
                Kind::Histogram => "histogram",
            };
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
            for (labels, series) in series {
                match series {
                    Series::Number(number) => {
                        let _ = writeln!(out, "{name}{} {number}", braced(labels));
                    }
                    Series::Distribution { counts, count, sum } => {
                        let comma = if labels.is_empty() { "" } else { "," };
                        for (bound, counted) in BUCKETS.iter().zip(counts) {
                            let _ = writeln!(
                                out,
                                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {counted}"
                            );
                        }
                        let _ =
                            writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
                        let _ = writeln!(out, "{name}_sum{} {sum}", braced(labels));
                        let _ = writeln!(out, "{name}_count{} {count}", braced(labels));
                    }
                }
            }
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, Families> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Labels as they are written between braces.
pub fn text(labels: Labels<'_>) -> String {
    let escape =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value)));
    pairs.collect::<Vec<_>>().join(",")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Family =
        Family { name: "applies_total", help: "Changes made.", kind: Kind::Counter };
    const TIMES: Family =
        Family { name: "apply_seconds", help: "How long.", kind: Kind::Histogram };

    #[test]
    fn numbers_are_shown_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.add(COUNTER, &[("outcome", "rolled \"back\"")]);
        metrics.add(COUNTER, &[("outcome", "rolled \"back\"")]);
        metrics.observe(TIMES, &[], 0.2);
        metrics.observe(TIMES, &[], 500.0);
        let text = metrics.render();
        assert!(text.contains("# TYPE applies_total counter\n"), "{text}");
        assert!(text.contains("applies_total{outcome=\"rolled \\\"back\\\"\"} 2\n"), "{text}");
        assert!(text.contains("apply_seconds_bucket{le=\"0.1\"} 0\n"), "{text}");
        assert!(text.contains("apply_seconds_bucket{le=\"0.25\"} 1\n"), "{text}");
        assert!(text.contains("apply_seconds_bucket{le=\"+Inf\"} 2\n"), "{text}");
        assert!(text.contains("apply_seconds_count 2\n"), "{text}");
    }

    #[test]
    fn what_is_gone_is_not_shown_any_more() {
        let metrics = Metrics::default();
        let gauge = Family { kind: Kind::Gauge, ..COUNTER };
        metrics.replace(gauge, [(super::text(&[("type", "bond")]), 1.0)]);
        metrics.replace(gauge, [(super::text(&[("type", "vlan")]), 2.0)]);
        let text = metrics.render();
        assert!(
            !text.contains("bond") && text.contains("applies_total{type=\"vlan\"} 2"),
            "{text}"
        );
    }
}
