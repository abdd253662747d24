//! A chart in memory: loaded from the files of a folder or from an archive.
//!
//! The caller provides the bytes. Charts are untrusted: their size, their number of files and the
//! depth of charts within charts are bounded, and no name may lead out of the chart.

mod archive;
mod ignore;
mod metadata;
mod pack;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::yaml::{self, YamlError};

pub use archive::{ArchiveError, unpack};
pub use ignore::{IgnoreError, IgnoreRules};
pub use metadata::{Dependency, ImportValue, Kind, Maintainer, Metadata, MetadataError};
pub use pack::pack;

/// How deep charts may be nested. Real ones reach four.
const MAX_DEPTH: usize = 16;
/// How many files a chart may have, its sub-charts included.
pub const MAX_FILES: usize = 20_000;
/// How large one file may be, as in Helm.
pub const MAX_FILE_BYTES: u64 = 5 << 20;
/// How large all files may be together, as in Helm.
pub const MAX_CHART_BYTES: u64 = 100 << 20;

/// A chart with its sub-charts.
#[derive(Debug, Clone)]
pub struct Chart {
    pub metadata: Metadata,
    /// The content of `values.yaml`; processing dependencies may change it.
    pub values: Map<String, Value>,
    /// `values.schema.json`: kept, not enforced.
    pub schema: Option<Arc<[u8]>>,
    /// Below `templates/`, in the order of their names.
    pub templates: Vec<File>,
    /// What `.Files` offers to templates: everything that has no other place.
    pub files: Vec<File>,
    /// Below `charts/`, in the order of their names.
    pub charts: Vec<Chart>,
}

/// A file of a chart. Copies share the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative to the chart, with `/`.
    pub name: String,
    pub data: Arc<[u8]>,
}

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the file {0:?} leads out of the chart")]
    Path(String),
    #[error("the file {0:?} is larger than {max} MiB", max = MAX_FILE_BYTES >> 20)]
    FileSize(String),
    #[error("the chart is larger than {max} MiB", max = MAX_CHART_BYTES >> 20)]
    Size,
    #[error("the chart has more than {MAX_FILES} files")]
    Files,
    #[error("charts are nested more than {MAX_DEPTH} deep")]
    Depth,
    #[error(".helmignore is not valid")]
    Ignore(#[from] IgnoreError),
    #[error("Chart.yaml is missing")]
    NoMetadata,
    #[error("{file} is not UTF-8 text")]
    Encoding { file: &'static str },
    #[error("{file} cannot be read")]
    Yaml { file: &'static str, source: YamlError },
    #[error("{file} is not valid")]
    Metadata { file: &'static str, source: MetadataError },
    #[error("values.yaml is {0}, expected a map")]
    Values(&'static str),
    #[error("packing the chart")]
    Packing(#[source] std::io::Error),
    #[error("loading the sub-chart {name:?}")]
    SubChart { name: String, source: Box<ChartError> },
}

impl Chart {
    /// Loads the chart from the files of its folder; their names are relative to it. What
    /// `.helmignore` excludes is left out.
    pub fn from_folder(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, ChartError> {
        for (name, data) in files {
            if !is_inside(name) {
                return Err(ChartError::Path(name.clone()));
            }
            if data.len() as u64 > MAX_FILE_BYTES {
                return Err(ChartError::FileSize(name.clone()));
            }
        }
        let rules = match files.get(".helmignore") {
            Some(text) => IgnoreRules::parse(&String::from_utf8_lossy(text))?,
            None => IgnoreRules::default(),
        };
        let kept = files.iter().filter(|(name, _)| !rules.excludes(name));
        let files = kept
            .map(|(name, data)| File { name: name.clone(), data: without_mark(data).into() })
            .collect();
        load(files, &mut Budget::default(), 0)
    }

    /// Loads the chart from a .tgz archive.
    pub fn from_archive(bytes: &[u8]) -> Result<Self, ChartError> {
        let mut budget = Budget::default();
        load(archive::unpack_within(bytes, &budget)?, &mut budget, 0)
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// A chart that only offers templates to others: it is never rendered by itself.
    pub fn is_library(&self) -> bool {
        self.metadata.kind == Kind::Library
    }

    pub fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name)
    }

    /// The files below `crds/`, which are applied as they are, with the path of each from the root
    /// chart's folder. Those of sub-charts follow.
    pub fn crds(&self) -> Vec<(String, &File)> {
        let mut found = Vec::new();
        self.collect_crds(self.name(), &mut found);
        found
    }

    /// The templates of the chart and its sub-charts that Helm uses, by their path from the root
    /// chart's folder. A library chart offers its partials only.
    pub fn template_files(&self) -> BTreeMap<String, &File> {
        let mut found = BTreeMap::new();
        self.collect_templates(self.name(), &mut found);
        found
    }

    fn collect_templates<'c>(&'c self, path: &str, found: &mut BTreeMap<String, &'c File>) {
        for file in &self.templates {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            if !self.is_library() || name.starts_with('_') {
                found.insert(format!("{path}/{}", file.name), file);
            }
        }
        for chart in &self.charts {
            chart.collect_templates(&format!("{path}/charts/{}", chart.name()), found);
        }
    }

    fn collect_crds<'c>(&'c self, path: &str, found: &mut Vec<(String, &'c File)>) {
        let is_manifest = |name: &str| {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        };
        let crds = self.files.iter();
        let crds = crds.filter(|file| file.name.starts_with("crds/") && is_manifest(&file.name));
        found.extend(crds.map(|file| (format!("{path}/{}", file.name), file)));
        for chart in &self.charts {
            chart.collect_crds(&format!("{path}/charts/{}", chart.name()), found);
        }
    }
}

impl File {
    /// The content as text; what is not UTF-8 is replaced, as Go does when it prints it.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

/// What a chart and all charts in it may still use.
#[derive(Debug)]
pub(crate) struct Budget {
    files: usize,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { files: MAX_FILES, bytes: MAX_CHART_BYTES }
    }
}

impl Budget {
    fn take(&mut self, bytes: u64) -> Result<(), ChartError> {
        self.files = self.files.checked_sub(1).ok_or(ChartError::Files)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(ChartError::Size)?;
        Ok(())
    }
}

fn load(files: Vec<File>, budget: &mut Budget, depth: usize) -> Result<Chart, ChartError> {
    if depth > MAX_DEPTH {
        return Err(ChartError::Depth);
    }
    let mut metadata = None;
    if let Some(file) = files.iter().find(|file| file.name == "Chart.yaml") {
        let read = Metadata::parse(text_of(file, "Chart.yaml")?);
        metadata = Some(read.map_err(|source| source.in_file("Chart.yaml"))?);
    }
    let mut metadata = metadata.ok_or(ChartError::NoMetadata)?;
    let mut chart_values = Map::new();
    let mut schema = None;
    let (mut templates, mut others) = (Vec::new(), Vec::new());
    let mut below_charts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in files {
        budget.take(file.data.len() as u64)?;
        match file.name.as_str() {
            "Chart.yaml" | "Chart.lock" => {}
            "values.yaml" => {
                let read = yaml::read_map(text_of(&file, "values.yaml")?)
                    .map_err(|source| ChartError::Yaml { file: "values.yaml", source })?;
                chart_values = read.map_err(ChartError::Values)?;
            }
            "values.schema.json" => schema = Some(file.data),
            "requirements.yaml" => {
                let text = text_of(&file, "requirements.yaml")?;
                metadata
                    .add_requirements(text)
                    .map_err(|source| source.in_file("requirements.yaml"))?;
                if metadata.is_v1() {
                    others.push(file);
                }
            }
            "requirements.lock" => {
                if metadata.is_v1() {
                    others.push(file);
                }
            }
            name if name.starts_with("templates/") => templates.push(file),
            name if name.starts_with("charts/") && !name.ends_with(".prov") => {
                let below = name["charts/".len()..].to_owned();
                let first = below.split('/').next().unwrap_or_default().to_owned();
                let file = File { name: below, data: file.data };
                below_charts.entry(first).or_default().push(file);
            }
            _ => others.push(file),
        }
    }
    metadata.check().map_err(|source| source.in_file("Chart.yaml"))?;
    let mut charts = Vec::new();
    for (name, files) in below_charts {
        if !name.starts_with(['_', '.']) {
            let loaded = sub_chart(&name, files, budget, depth + 1);
            charts.push(loaded.map_err(|e| ChartError::SubChart { name, source: Box::new(e) })?);
        }
    }
    Ok(Chart { metadata, values: chart_values, schema, templates, files: others, charts })
}

fn sub_chart(
    name: &str,
    files: Vec<File>,
    budget: &mut Budget,
    depth: usize,
) -> Result<Chart, ChartError> {
    if depth > MAX_DEPTH {
        return Err(ChartError::Depth);
    }
    if name.ends_with(".tgz") {
        let packed = files.first().filter(|file| file.name == name);
        let packed = packed.ok_or(ChartError::NoMetadata)?;
        return load(archive::unpack_within(&packed.data, budget)?, budget, depth);
    }
    let inside = |file: File| {
        let (_, rest) = file.name.split_once('/')?;
        Some(File { name: rest.to_owned(), data: file.data })
    };
    load(files.into_iter().filter_map(inside).collect(), budget, depth)
}

/// Whether a path stays below the folder it is relative to.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\\')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn without_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}

fn text_of<'f>(file: &'f File, name: &'static str) -> Result<&'f str, ChartError> {
    std::str::from_utf8(&file.data).map_err(|_| ChartError::Encoding { file: name })
}

#[cfg(test)]
mod tests;
