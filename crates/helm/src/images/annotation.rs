//! Images that a chart lists in the annotations of its `Chart.yaml`.

use located_yaml::Node;

use crate::chart::Chart;
use crate::yaml;

/// The annotations that list images.
const KEYS: [&str; 2] = ["helm.sh/images", "artifacthub.io/images"];

/// An annotation that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the annotation {key} of the chart {chart:?} is not a list of images: {reason}")]
pub struct AnnotationError {
    pub chart: String,
    pub key: &'static str,
    pub reason: String,
}

/// The images that the annotations of a chart and its sub-charts list: chart, annotation, image.
pub fn annotated(chart: &Chart) -> (Vec<(String, &'static str, String)>, Vec<AnnotationError>) {
    let (mut images, mut errors) = (Vec::new(), Vec::new());
    collect(chart, &mut images, &mut errors);
    (images, errors)
}

fn collect(
    chart: &Chart,
    images: &mut Vec<(String, &'static str, String)>,
    errors: &mut Vec<AnnotationError>,
) {
    for key in KEYS {
        let Some(text) = chart.metadata.annotations.get(key) else { continue };
        let name = chart.name().to_owned();
        match read(text) {
            Ok(listed) => {
                images.extend(listed.into_iter().map(|image| (name.clone(), key, image)));
            }
            Err(reason) => errors.push(AnnotationError { chart: name, key, reason }),
        }
    }
    for child in &chart.charts {
        collect(child, images, errors);
    }
}

/// A list of maps with `image`, or of plain references.
fn read(text: &str) -> Result<Vec<String>, String> {
    let root = yaml::read(text).map_err(|error| error.to_string())?;
    if root.is_null() {
        return Ok(Vec::new());
    }
    if !matches!(root.value, located_yaml::Value::List(_)) {
        return Err(format!("found {}", root.shape()));
    }
    let image = |item: &Node| {
        let image = item.get("image").or(Some(item)).and_then(Node::text);
        image.map(|image| image.trim().to_owned()).ok_or_else(|| format!("found {}", item.shape()))
    };
    root.items().iter().map(image).collect()
}
