//! Finds the images of a chart by rendering it, on a thread that may take its time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use helm::Stop;
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
/// How long a chart may take for all sets of APIs. Real charts take milliseconds.
const MAX_TIME: Duration = Duration::from_secs(60);
/// How long a function that cannot be interrupted is waited for after that.
const GRACE: Duration = Duration::from_secs(10);
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
    #[error("rendering takes longer than {} s", .0.as_secs())]
    Time(Duration),
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
    discover_within(MAX_TIME, chart, given, options).await
}

async fn discover_within(
    time: Duration,
    chart: Chart,
    given: Map<String, Value>,
    mut options: Options,
) -> Result<Discovery, RenderError> {
    // Ends the rendering also where the run is interrupted and this future is dropped. Each rendering
    // has its own, because charts share the other options.
    let stop = StopOnDrop(Stop::default());
    options.rendering.stop = stop.0.clone();
    let (sender, mut receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        // An interrupted run does not wait for the result.
        let _ = sender.send(discover::images(&chart, &given, &options));
    };
    let thread = std::thread::Builder::new().name("chart".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(work).map_err(RenderError::Thread)?;
    let received = match tokio::time::timeout(time, &mut receiver).await {
        Ok(received) => received,
        Err(_) => {
            stop.0.raise();
            // What was rendered until then is reported with the template that takes so long. A single
            // function cannot be interrupted, and is not waited for without limit.
            let late = tokio::time::timeout(GRACE, receiver).await;
            late.map_err(|_| RenderError::Time(time))?
        }
    };
    Ok(received.map_err(|_| RenderError::Stopped)??)
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
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

#[cfg(test)]
mod tests {
    use helm::discover::Cause;

    use super::*;

    #[tokio::test]
    async fn a_chart_that_takes_too_long_is_stopped_and_the_template_named() {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: slow\nversion: 1.0.0\n"),
            (
                "templates/a.yaml",
                "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}",
            ),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        let chart = Chart::from_folder(&files.into()).unwrap();
        let mut options = Options::default();
        // More than the computer can do until the end of the test.
        options.rendering.limits.steps = u64::MAX;
        let found = discover_within(Duration::ZERO, chart, Map::new(), options).await.unwrap();
        let problem = &found.problems[0];
        assert_eq!(problem.file.as_deref(), Some("slow/templates/a.yaml"));
        let reason = "rendering takes too long".to_owned();
        assert_eq!(problem.cause, Cause::Limit { reason });
    }
}
