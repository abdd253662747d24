//! Which images a chart uses, with their origins: the chart is rendered for several sets of APIs, and
//! what any of them names counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use oci::ImageRef;
use serde_json::{Map, Value};

use crate::capabilities::{ApiSet, Capabilities, DEFAULT_KUBE_VERSION};
use crate::chart::Chart;
use crate::dependencies::{self, DependencyError};
use crate::documents::{self, Definitions, DocumentError};
use crate::images::{self, Candidate, Images, Origin, place, traced};
use crate::json_path::{JsonPath, JsonPathError};
use crate::rendering::{self, FileDocument, Rendering, Settings, render};
use crate::values::{self, ValuesError};
use crate::version::{Constraint, VersionError, version};

/// What to search for, and under which circumstances.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kubernetes JSONPaths that lead to images, beside pod specs.
    pub image_paths: Vec<String>,
    /// Environment variables of containers whose values are images.
    pub environment: Vec<String>,
    pub kube_version: String,
    /// The chart is rendered once for each.
    pub api_sets: Vec<ApiSet>,
    pub rendering: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            image_paths: Vec::new(),
            environment: Vec::new(),
            kube_version: DEFAULT_KUBE_VERSION.to_owned(),
            api_sets: vec![ApiSet::Plain, ApiSet::OpenShift],
            rendering: Settings::default(),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    pub images: Images,
    /// Values that look like images, without those that are in `images`.
    pub candidates: Vec<Candidate>,
    /// In the order of files and lines.
    pub problems: Vec<Problem>,
}

/// What keeps a chart from being searched at all.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("imagePaths: {path:?} is not a JSONPath")]
    ImagePath { path: String, source: JsonPathError },
    #[error("the Kubernetes version is not valid")]
    KubeVersion(#[source] VersionError),
    #[error(transparent)]
    Dependencies(#[from] DependencyError),
    #[error(transparent)]
    Values(#[from] ValuesError),
}

/// Something that may hide images, or that Helm would warn about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From the root chart's folder.
    pub file: Option<String>,
    pub line: Option<usize>,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A template failed: its images are not known.
    Template { reason: String },
    /// A template requires values that are not set.
    Required { reason: String, values: Vec<String> },
    /// A template looped or grew beyond the limits.
    Limit { reason: String },
    /// Rendered text is not YAML: its images are not known.
    Yaml { reason: String },
    /// A place that must name an image has other text.
    NotAnImage { path: String, text: String, reason: String },
    /// An object or a setting that Helm ignores.
    Ignored { reason: String },
    /// The chart is not made for this version of Kubernetes.
    KubeVersion { wanted: String, version: String },
}

impl Cause {
    /// Whether images may be missing from the result because of it.
    pub fn hides_images(&self) -> bool {
        match self {
            Self::Template { .. }
            | Self::Required { .. }
            | Self::Limit { .. }
            | Self::Yaml { .. }
            | Self::NotAnImage { .. } => true,
            Self::Ignored { .. } | Self::KubeVersion { .. } => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template { reason } => write!(f, "the template cannot be rendered: {reason}"),
            Self::Required { reason, values } if values.is_empty() => {
                write!(f, "the chart requires a value: {reason}")
            }
            Self::Required { reason, values } => {
                write!(f, "the chart requires values ({}): {reason}", values.join(", "))
            }
            Self::Limit { reason } => write!(f, "the template exceeds a limit: {reason}"),
            Self::Yaml { reason } => f.write_str(reason),
            Self::NotAnImage { path, text, reason } => {
                write!(f, "{path} is {text:?}, which is not an image: {reason}")
            }
            Self::Ignored { reason } => f.write_str(reason),
            Self::KubeVersion { wanted, version } => {
                write!(f, "the chart requires Kubernetes {wanted}, rendered for {version}")
            }
        }
    }
}

/// `file:line: cause`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{}", self.cause)
    }
}

/// Finds the images of a chart with the user's values.
pub fn images(
    chart: &Chart,
    given: &Map<String, Value>,
    options: &Options,
) -> Result<Discovery, DiscoverError> {
    let paths = image_paths(&options.image_paths)?;
    let mut discovery = Discovery::default();
    // A library chart is not rendered by itself; what it offers shows in the charts that use it.
    if chart.is_library() {
        return Ok(discovery);
    }
    let mut chart = chart.clone();
    let mut problems: BTreeSet<Problem> = BTreeSet::new();
    for warning in dependencies::process(&mut chart, given)? {
        let cause = Cause::Ignored { reason: warning.to_string() };
        problems.insert(Problem { file: None, line: None, cause });
    }
    let mut found: BTreeMap<ImageRef, BTreeSet<Origin>> = BTreeMap::new();
    let search = Search { chart: &chart, paths: &paths, environment: &options.environment };
    let nothing = Rendering::default();
    // A path of the user may lead into a definition.
    let definitions = if paths.is_empty() { Definitions::Skip } else { Definitions::Read };
    let documents = rendering::crd_documents(&chart, definitions);
    search.collect(documents, &nothing, &mut found, &mut problems);
    // Most templates render to the same text for every set of APIs. Reading that text takes longer
    // than rendering it.
    let mut first: Option<Rendering> = None;
    for set in &options.api_sets {
        let capabilities = Capabilities::new(*set, &options.kube_version);
        let capabilities = capabilities.map_err(DiscoverError::KubeVersion)?;
        problems.extend(kube_version_problem(&chart, &capabilities));
        // Renderings are deterministic: the same reads give the same text.
        let has = |wanted: &str| capabilities.has(wanted);
        if first.as_ref().is_some_and(|first| first.api_reads.hold_for(has)) {
            continue;
        }
        // Templates may change values in place, so that each rendering has its own.
        let scope = values::coalesce(&chart, given)?;
        let mut rendering = render(&chart, &scope, &capabilities, &options.rendering);
        problems.extend(rendering.failures.iter().cloned());
        if let Some(first) = &first {
            rendering.remove_known(first);
        }
        search.collect(rendering.rendered_documents(), &rendering, &mut found, &mut problems);
        first.get_or_insert(rendering);
    }
    collect_annotated(&chart, &mut found, &mut problems);
    let candidates = images::candidates(&chart, &values::coalesce(&chart, given)?);
    let used: BTreeSet<&String> = found.values().flatten().flat_map(Origin::values).collect();
    discovery.candidates = candidates
        .into_iter()
        .filter(|candidate| {
            !found.contains_key(&candidate.image) && !is_used(&candidate.paths, &used)
        })
        .collect();
    discovery.images =
        found.into_iter().map(|(image, origins)| (image, origins.into_iter().collect())).collect();
    discovery.problems = problems.into_iter().collect();
    Ok(discovery)
}

/// Whether an image that templates use consists of the values of a candidate: templates combine
/// them differently than assumed.
fn is_used(paths: &[String], used: &BTreeSet<&String>) -> bool {
    paths.iter().all(|path| {
        let is_below = |value: &&&String| {
            value
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        used.iter().any(|value| is_below(&value))
    })
}

/// The images that text from another renderer names: the documents of a whole chart.
pub fn rendered_images(text: &str, options: &Options) -> Result<BTreeSet<ImageRef>, DiscoverError> {
    let paths = image_paths(&options.image_paths)?;
    let documents = documents::read("", text).into_iter().flatten();
    let mut found = BTreeSet::new();
    for document in documents {
        let named = images::named(&document, &paths, &options.environment);
        found.extend(named.iter().filter_map(|named| named.text.parse::<ImageRef>().ok()));
    }
    Ok(found)
}

fn image_paths(texts: &[String]) -> Result<Vec<(String, JsonPath)>, DiscoverError> {
    let parse = |text: &String| match JsonPath::parse(text) {
        Ok(path) => Ok((text.clone(), path)),
        Err(source) => Err(DiscoverError::ImagePath { path: text.clone(), source }),
    };
    texts.iter().map(parse).collect()
}

fn kube_version_problem(chart: &Chart, capabilities: &Capabilities) -> Option<Problem> {
    let wanted = &chart.metadata.kube_version;
    let found = &capabilities.kube_version.version;
    let fits = || Some(Constraint::parse(wanted).ok()?.matches(&version(found).ok()?));
    if wanted.is_empty() || fits().unwrap_or(false) {
        return None;
    }
    let cause = Cause::KubeVersion { wanted: wanted.clone(), version: found.clone() };
    Some(Problem { file: Some(format!("{}/Chart.yaml", chart.name())), line: None, cause })
}

/// What is searched for in documents.
struct Search<'a> {
    chart: &'a Chart,
    paths: &'a [(String, JsonPath)],
    environment: &'a [String],
}

impl Search<'_> {
    fn collect(
        &self,
        documents: impl Iterator<Item = FileDocument>,
        rendering: &Rendering,
        found: &mut BTreeMap<ImageRef, BTreeSet<Origin>>,
        problems: &mut BTreeSet<Problem>,
    ) {
        let templates = self.chart.template_files();
        for document in documents {
            let document = match document {
                Ok(document) => document,
                Err((file, error)) => {
                    problems.insert(document_problem(file, &error));
                    continue;
                }
            };
            let object = images::object_name(&document);
            for named in images::named(&document, self.paths, self.environment) {
                let file = document.file.clone();
                let at = match (templates.get(&file), rendering.texts.get(&file)) {
                    (Some(template), Some(text)) => {
                        let template = template.text();
                        let source = rendering.sources.get(&file);
                        source
                            .and_then(|s| traced(&template, text, named.line, named.text, s))
                            .unwrap_or_else(|| place(&template, text, named.line))
                    }
                    // A CRD file is not rendered: its lines are what they are.
                    _ => images::TemplatePlace { line: Some(named.line), values: Vec::new() },
                };
                match named.text.parse::<ImageRef>() {
                    Ok(image) => {
                        let (path, reason) = (named.path, named.reason);
                        let (line, object, values) = (at.line, object.clone(), at.values);
                        let origin = Origin::Document { file, line, object, path, values, reason };
                        found.entry(image).or_default().insert(origin);
                    }
                    Err(error) => {
                        let (path, text, reason) =
                            (named.path, named.text.to_owned(), error.to_string());
                        let cause = Cause::NotAnImage { path, text, reason };
                        problems.insert(Problem { file: Some(file), line: at.line, cause });
                    }
                }
            }
        }
    }
}

fn document_problem(file: String, error: &DocumentError) -> Problem {
    let reason = error.to_string();
    let cause = match error {
        // The line is that of the rendered text, which only the reason may contain.
        DocumentError::Yaml { .. } | DocumentError::Many => Cause::Yaml { reason },
        DocumentError::Hook(_) => Cause::Ignored { reason },
    };
    Problem { file: Some(file), line: None, cause }
}

fn collect_annotated(
    chart: &Chart,
    found: &mut BTreeMap<ImageRef, BTreeSet<Origin>>,
    problems: &mut BTreeSet<Problem>,
) {
    let (listed, errors) = images::annotated(chart);
    for (chart, key, text) in listed {
        match text.parse::<ImageRef>() {
            Ok(image) => {
                found.entry(image).or_default().insert(Origin::Annotation { chart, key });
            }
            Err(error) => {
                let path = format!("annotations[{key:?}]");
                let cause = Cause::NotAnImage { path, text, reason: error.to_string() };
                let file = Some(format!("{chart}/Chart.yaml"));
                problems.insert(Problem { file, line: None, cause });
            }
        }
    }
    for error in errors {
        let file = Some(format!("{}/Chart.yaml", error.chart));
        let cause = Cause::Ignored { reason: error.to_string() };
        problems.insert(Problem { file, line: None, cause });
    }
}
