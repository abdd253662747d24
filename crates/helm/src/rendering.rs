//! Renders the templates of a chart, and splits the result into documents.

use std::collections::BTreeMap;
use std::rc::Rc;

use go_template::{Limits, Names, Piece, Reads, Reason, Stop, Value};

use crate::capabilities::Capabilities;
use crate::chart::{Chart, File};
use crate::discover::{Cause, Problem};
use crate::documents::{self, Definitions, Document, DocumentError};
use crate::engine::{self, ApiReads, ApiVersions};
use crate::functions::Environment;
use crate::images::values_in;
use crate::values::{Table, Tree};

/// What templates get for the time: fixed, so that the same chart always renders to the same text.
const NOW: i128 = 1_767_225_600_000_000_000;

/// The release that templates can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub name: String,
    pub namespace: String,
}

impl Default for Release {
    /// As `helm template` has it.
    fn default() -> Self {
        Self { name: "release-name".to_owned(), namespace: "default".to_owned() }
    }
}

/// What a rendering may read and use.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub release: Release,
    /// For all templates together.
    pub limits: Limits,
    /// Ends the rendering when it is raised, such as after a timeout.
    pub stop: Stop,
}

/// The text that each template rendered to, by its path from the root chart's folder.
#[derive(Debug, Clone, Default)]
pub struct Rendering {
    pub texts: BTreeMap<String, String>,
    /// Templates that could not be rendered.
    pub failures: Vec<Problem>,
    /// Where the texts came from.
    pub sources: BTreeMap<String, TextSource>,
    /// What templates read of the cluster's APIs: everything else is the same for all clusters of a
    /// version.
    pub api_reads: ApiReads,
}

/// Where a rendered text came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextSource {
    pub pieces: Vec<Piece>,
    /// The values that variables of the template were set from.
    pub assigned: Reads,
}

/// A document of a chart, or the file and the reason why it cannot be read.
pub type FileDocument = Result<Document, (String, DocumentError)>;

impl Rendering {
    /// The documents of all files in order, those of CRD files first. Notes are left out.
    pub fn documents(&self, chart: &Chart) -> impl Iterator<Item = FileDocument> {
        crd_documents(chart, Definitions::Read).chain(self.rendered_documents())
    }

    /// The documents of rendered files only.
    pub fn rendered_documents(&self) -> impl Iterator<Item = FileDocument> {
        let files = self.texts.iter().filter(|(file, _)| documents::holds_objects(file));
        files.flat_map(|(file, text)| of_file(file, documents::read(file, text)))
    }

    /// Removes files that another rendering of the chart has as well, with the same text from the
    /// same sources: what they name is known from there.
    pub fn remove_known(&mut self, other: &Self) {
        let Self { texts, sources, .. } = self;
        texts.retain(|file, text| {
            other.texts.get(file) != Some(text) || other.sources.get(file) != sources.get(file)
        });
    }
}

/// The documents of a chart's CRD files, which are not rendered.
pub fn crd_documents(
    chart: &Chart,
    definitions: Definitions,
) -> impl Iterator<Item = FileDocument> {
    let files = chart.crds().into_iter();
    files.flat_map(move |(path, file)| {
        of_file(&path, documents::read_crds(&path, &file.text(), definitions))
    })
}

fn of_file(
    file: &str,
    read: Vec<Result<Document, DocumentError>>,
) -> impl Iterator<Item = FileDocument> + use<> {
    let file = file.to_owned();
    read.into_iter().map(move |document| document.map_err(|error| (file.clone(), error)))
}

/// Renders every template of the chart. `values` are those that the root chart sees; templates change
/// them in place.
pub fn render(
    chart: &Chart,
    values: &Table,
    capabilities: &Capabilities,
    settings: &Settings,
) -> Rendering {
    let capabilities = engine::Capabilities {
        major: capabilities.kube_version.major.clone(),
        minor: capabilities.kube_version.minor.clone(),
        version: capabilities.kube_version.version.clone(),
        api_versions: ApiVersions::new(capabilities.api_versions.clone()),
    };
    let Release { name, namespace } = settings.release.clone();
    let release = engine::Release { name, namespace };
    let mut scopes =
        Scopes { capabilities: &capabilities, release: &release, templates: Vec::new() };
    let values = converted(values);
    // Templates change values in place; names are those before that.
    let names = Names::of(&values);
    scopes.enter(chart, values, chart.name(), true);
    let environment = Environment { now: NOW, seed: 0 };
    let (limits, stop) = (settings.limits, settings.stop.clone());
    let options = engine::Options { environment, limits, stop };
    let mut rendering = Rendering::default();
    let sources = chart.template_files();
    for rendered in engine::render_traced(&scopes.templates, &options, Some(&names)) {
        if let Some(trace) = rendered.trace {
            let (pieces, assigned) = trace.into_parts();
            let source = TextSource { pieces, assigned };
            rendering.sources.insert(rendered.path.clone(), source);
        }
        match rendered.output {
            Ok(text) => {
                rendering.texts.insert(rendered.path, text);
            }
            Err(error) => rendering.failures.push(failure(&rendered.path, &error, &sources)),
        }
    }
    rendering.api_reads = capabilities.api_versions.reads();
    rendering
}

/// The templates of a chart and its sub-charts, each with what it sees as `.`.
struct Scopes<'a> {
    capabilities: &'a engine::Capabilities,
    release: &'a engine::Release,
    templates: Vec<engine::Template>,
}

impl Scopes<'_> {
    fn enter(
        &mut self,
        chart: &Chart,
        values: go_template::Map,
        path: &str,
        is_root: bool,
    ) -> Value {
        let mut subcharts = BTreeMap::new();
        for child in &chart.charts {
            let below = values.borrow().get(child.name()).and_then(Value::as_map);
            let path = format!("{path}/charts/{}", child.name());
            let scope = self.enter(child, below.unwrap_or_default(), &path, false);
            subcharts.insert(child.name().to_owned(), scope);
        }
        let files = chart.files.iter().map(|file| (file.name.clone(), file.data.to_vec()));
        let metadata = serde_json::to_value(&chart.metadata).unwrap_or_default();
        let scope = engine::Scope {
            values,
            metadata: &metadata,
            is_root,
            files: engine::Files::new(files),
            release: self.release,
            capabilities: self.capabilities,
            subcharts,
        };
        let scope = scope.value();
        for file in &chart.templates {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            if chart.is_library() && !name.starts_with('_') {
                continue;
            }
            self.templates.push(engine::Template {
                path: format!("{path}/{}", file.name),
                text: file.text().into_owned(),
                base_path: format!("{path}/templates"),
                scope: scope.clone(),
            });
        }
        scope
    }
}

/// The same tables as values of templates. Tables that are shared stay shared.
fn converted(table: &Table) -> go_template::Map {
    fn convert(
        table: &Table,
        known: &mut BTreeMap<*const (), go_template::Map>,
    ) -> go_template::Map {
        let address = Rc::as_ptr(table).cast::<()>();
        if let Some(map) = known.get(&address) {
            return Rc::clone(map);
        }
        let map = go_template::Map::default();
        known.insert(address, Rc::clone(&map));
        for (key, value) in table.borrow().iter() {
            let value = match value {
                Tree::Table(table) => Value::Map(convert(table, known)),
                Tree::Leaf(value) => Value::from_json(value),
            };
            map.borrow_mut().insert(key.clone(), value);
        }
        map
    }
    convert(table, &mut BTreeMap::new())
}

/// Where a template failed, and why. The place is that of the failure itself, which may be in a partial.
fn failure(path: &str, error: &go_template::Error, sources: &BTreeMap<String, &File>) -> Problem {
    let place = error.place();
    let file = place.map_or(path, |place| place.name.as_str());
    let line = place.map(|place| place.line);
    let source = sources.get(file).map(|file| file.text());
    let source_line = source.as_deref().zip(line).and_then(|(s, line)| s.lines().nth(line - 1));
    let mut reason = error.reason.to_string();
    if file != path {
        reason = format!("{reason} (rendering {path})");
    }
    let cause = match &error.reason {
        Reason::Stopped(_) => {
            let values = source_line.map(values_in).unwrap_or_default();
            Cause::Required { reason, values }
        }
        Reason::Limit(_) => Cause::Limit { reason },
        Reason::Syntax(_) | Reason::Execution(_) => Cause::Template { reason },
    };
    Problem { file: Some(file.to_owned()), line, cause }
}
