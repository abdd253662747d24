//! Metrics of a running component: a registry, rendered in the format of OpenMetrics.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// The content type of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper bounds of histograms, in seconds.
const BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// Histograms of durations by labels.
pub(crate) type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

pub(crate) fn durations<L: Clone + Eq + std::hash::Hash>() -> Durations<L> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

/// All metrics of a component.
#[derive(Debug, Default)]
pub struct Metrics {
    registry: Mutex<Registry>,
}

impl Metrics {
    /// Adds a metric. Names of counters are given without `_total`, which the format adds.
    pub(crate) fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.lock().register(name, help, metric.clone());
        metric
    }

    /// All metrics as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &self.lock());
        out
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces all series of a family, so that none outlives the object that it describes.
///
/// A scrape cannot see the family half filled: each component runs on one thread, and nothing is
/// awaited in between.
pub(crate) fn replace<L>(family: &Family<L, Gauge>, series: impl IntoIterator<Item = (L, i64)>)
where
    L: EncodeLabelSet + Clone + Eq + std::hash::Hash,
{
    family.clear();
    for (labels, number) in series {
        family.get_or_create(&labels).set(number);
    }
}

/// A gauge without labels that is absent until it has a first value.
#[derive(Clone, Default)]
pub(crate) struct LateGauge(Arc<OnceLock<Gauge>>);

impl LateGauge {
    pub(crate) fn set(&self, number: i64) {
        self.0.get_or_init(Gauge::default).set(number);
    }
}

impl fmt::Debug for LateGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LateGauge").field(&self.0.get()).finish()
    }
}

impl EncodeMetric for LateGauge {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.get().map_or(Ok(()), |gauge| gauge.encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }
}

/// Checks metrics by the rules of OpenMetrics that scrapers depend on.
#[cfg(test)]
pub(crate) mod check {
    use std::collections::BTreeMap;

    /// One sample: its name, its labels, its value.
    pub(crate) type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

    /// Suffixes of the samples of each type of metric.
    fn suffixes(kind: &str) -> &'static [&'static str] {
        match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("unexpected type {other}"),
        }
    }

    /// Reads an exposition. Fails if a sample is not of the family before it, is duplicated, or has
    /// labels that cannot be parsed; if a family lacks HELP or TYPE, or is duplicated; or if the
    /// end is missing.
    pub(crate) fn samples(text: &str) -> Samples {
        let body = text.strip_suffix("# EOF\n").expect("the last line is # EOF");
        let mut families: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
        let mut current = "";
        let mut samples = Samples::new();
        for line in body.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let (keyword, rest) = comment.split_once(' ').unwrap();
                let (name, value) = rest.split_once(' ').unwrap();
                assert!(current == name || !families.contains_key(name), "{name} occurs twice");
                current = name;
                let family = families.entry(name).or_default();
                match keyword {
                    "HELP" => family.0 = Some(value),
                    "TYPE" => family.1 = Some(value),
                    other => panic!("unexpected comment {other}: {line}"),
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, read_labels(labels)),
                None => (series, BTreeMap::new()),
            };
            let (Some(_), Some(kind)) = families[current] else {
                panic!("{current} lacks HELP or TYPE")
            };
            let is_of = suffixes(kind).iter().any(|it| format!("{current}{it}") == name);
            assert!(is_of, "{name} is not a sample of the {kind} {current}");
            let value = value.parse().unwrap();
            let former = samples.insert((name.to_owned(), labels), value);
            assert_eq!(former, None, "{line} occurs twice");
        }
        samples
    }

    /// Labels up to the closing brace.
    fn read_labels(text: &str) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let mut rest = text;
        while rest != "}" {
            let (name, after) = rest.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next().expect("the value ends") {
                    (at, '"') => break at,
                    (_, '\\') => match characters.next().unwrap().1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    (_, other) => value.push(other),
                }
            };
            assert_eq!(labels.insert(name.to_owned(), value), None, "{name} occurs twice");
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        labels
    }

    /// The value of a series.
    pub(crate) fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        samples.get(&(name.to_owned(), labels.collect())).copied()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    type Labels = Vec<(&'static str, String)>;

    fn outcome(value: &str) -> Labels {
        vec![("outcome", value.to_owned())]
    }

    #[test]
    fn metrics_are_rendered_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        let applies: Family<Labels, Counter> =
            metrics.register("applies", "Changes made", Family::default());
        let seconds: Durations<Labels> =
            metrics.register("apply_seconds", "Durations of changes", durations());
        applies.get_or_create(&outcome("rolled \"back\"")).inc();
        applies.get_or_create(&outcome("rolled \"back\"")).inc();
        seconds.get_or_create(&outcome("applied")).observe(0.2);
        seconds.get_or_create(&outcome("applied")).observe(500.0);
        let text = metrics.render();
        assert!(text.contains("# HELP applies Changes made.\n# TYPE applies counter\n"), "{text}");
        let samples = check::samples(&text);
        let value = |name: &str, labels: &[(&str, &str)]| check::value(&samples, name, labels);
        assert_eq!(value("applies_total", &[("outcome", "rolled \"back\"")]), Some(2.0), "{text}");
        let bucket =
            |bound: &str| value("apply_seconds_bucket", &[("outcome", "applied"), ("le", bound)]);
        assert_eq!((bucket("0.1"), bucket("0.25")), (Some(0.0), Some(1.0)), "{text}");
        assert_eq!(bucket("+Inf"), Some(2.0), "{text}");
        assert_eq!(value("apply_seconds_count", &[("outcome", "applied")]), Some(2.0), "{text}");
        assert_eq!(value("apply_seconds_sum", &[("outcome", "applied")]), Some(500.2), "{text}");
    }

    #[test]
    fn series_of_what_is_gone_are_removed() {
        let metrics = Metrics::default();
        let family: Family<Labels, Gauge> = metrics.register("nics", "NICs", Family::default());
        replace(&family, [(outcome("bond"), 1)]);
        replace(&family, [(outcome("vlan"), 2)]);
        let samples = check::samples(&metrics.render());
        assert_eq!(check::value(&samples, "nics", &[("outcome", "vlan")]), Some(2.0));
        assert_eq!(samples.len(), 1);
    }

    #[test]
    fn a_gauge_is_absent_until_its_value_is_known() {
        let metrics = Metrics::default();
        let up = metrics.register("up", "Whether it responds", LateGauge::default());
        assert_eq!(metrics.render(), "# EOF\n");
        up.set(0);
        assert_eq!(check::value(&check::samples(&metrics.render()), "up", &[]), Some(0.0));
    }
}
