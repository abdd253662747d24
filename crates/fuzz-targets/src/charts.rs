//! Helm charts and indexes of repositories.

use std::collections::BTreeMap;

use helm::Chart;
use helm::discover::{self, Options};
use helm::repository::Index;

use crate::{TEMPLATE_LIMITS, two_parts};

const CHART: &[u8] = b"apiVersion: v2\nname: fuzzed\nversion: 1.0.0\n";

/// A chart with one template, and after a zero byte its values.
pub fn chart(data: &[u8]) {
    let (template, values) = two_parts(data);
    let files = [("Chart.yaml", CHART), ("templates/main.yaml", template), ("values.yaml", values)];
    let files: BTreeMap<String, Vec<u8>> =
        files.map(|(name, content)| (name.to_owned(), content.to_vec())).into();
    match Chart::from_folder(&files) {
        Ok(chart) => images(&chart),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An archive of a chart. No file of it is outside of the chart's folder.
pub fn chart_archive(data: &[u8]) {
    match Chart::from_archive(data) {
        Ok(chart) => images(&chart),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn images(chart: &Chart) {
    let mut options = Options::default();
    options.rendering.limits = TEMPLATE_LIMITS;
    match discover::images(chart, &serde_json::Map::new(), &options) {
        Ok(found) => {
            for problem in found.problems {
                assert!(!problem.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The index of a repository.
pub fn chart_index(data: &[u8]) {
    let index = match Index::parse(data) {
        Ok(index) => index,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for (name, versions) in index.charts() {
        assert!(!versions.is_empty(), "{name} is listed without a version");
        let exact = versions[0].version.to_string();
        assert!(index.select(name, Some(&exact)).is_ok(), "{name} {exact}");
    }
}
