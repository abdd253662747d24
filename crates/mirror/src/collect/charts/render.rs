//! Finds the images of a chart by rendering it, on a thread that may take its time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use helm::chart::Chart;
use helm::discover::{self, DiscoverError, Discovery, Options};
use helm::images::Origin;
use helm::values::{self, ValuesError};
use oci::ImageRef;
use serde_json::{Map, Value};

use super::local::{self, LocalError};

/// The largest file of values that is read.
const MAX_VALUES_BYTES: u64 = 5 << 20;
/// Templates may nest 400 levels deep.
const STACK_BYTES: usize = 64 << 20;
/// The tag of an image that is named without one.
const LATEST: &str = "latest";

/// Why the values for a chart cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValuesFileError {
    #[error(transparent)]
    Read(#[from] LocalError),
    #[error("{} is not UTF-8 text", .0.display())]
    Encoding(PathBuf),
    #[error("{}", path.display())]
    Values { path: PathBuf, source: ValuesError },
}

/// Why a chart cannot be searched for images.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error("starting a thread")]
    Thread(#[source] io::Error),
    #[error("rendering the chart stopped unexpectedly")]
    Stopped,
}

/// The values of all files, each over those before it, and `inline` over all.
pub(crate) fn given_values(
    files: &[PathBuf],
    inline: &Map<String, Value>,
) -> Result<Map<String, Value>, ValuesFileError> {
    let mut given = Map::new();
    for path in files {
        let bytes = local::file(path, MAX_VALUES_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|_| ValuesFileError::Encoding(path.clone()))?;
        let read = values::parse(&text);
        let read = read.map_err(|source| ValuesFileError::Values { path: path.clone(), source })?;
        given = values::merge(given, read);
    }
    Ok(values::merge(given, inline.clone()))
}

/// Searches a chart for images.
pub(crate) async fn discover(
    chart: Chart,
    given: Map<String, Value>,
    options: Options,
) -> Result<Discovery, RenderError> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let work = move || {
        // An interrupted run does not wait for the result.
        let _ = answer.send(discover::images(&chart, &given, &options));
    };
    let thread = std::thread::Builder::new().name("chart".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(work).map_err(RenderError::Thread)?;
    Ok(answered.await.map_err(|_| RenderError::Stopped)??)
}

/// Images with the places that name them, as text. An image without a tag is the latest.
pub(crate) fn images(discovery: &Discovery, with_guesses: bool) -> BTreeMap<ImageRef, Vec<String>> {
    let mut images: BTreeMap<ImageRef, Vec<String>> = BTreeMap::new();
    for (image, origins) in &discovery.images {
        images.entry(tagged(image)).or_default().extend(origins.iter().map(place));
    }
    if with_guesses {
        for candidate in &discovery.candidates {
            let place = format!("values: {}", candidate.paths.join(", "));
            images.entry(tagged(&candidate.image)).or_default().push(place);
        }
    }
    images
}

pub(super) fn tagged(image: &ImageRef) -> ImageRef {
    match image.pointer() {
        Some(_) => image.clone(),
        None => ImageRef { tag: LATEST.parse().ok(), ..image.clone() },
    }
}

/// `chart/templates/web.yaml:12`
fn place(origin: &Origin) -> String {
    match origin {
        Origin::Document { file, line: Some(line), .. } => format!("{file}:{line}"),
        Origin::Document { file, line: None, .. } => file.clone(),
        Origin::Annotation { chart, key } => format!("{chart}/Chart.yaml: {key}"),
    }
}
