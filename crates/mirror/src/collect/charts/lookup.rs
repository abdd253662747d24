//! Reads chart repositories and charts without mirroring anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helm::chart::{Chart, Metadata};
use helm::discover::{Discovery, Options};
use helm::images::Origin;
use helm::repository::Index;
use oci::ImageRef;
use registry::Client;
use serde::Serialize;
use workspace::archive::{Archives, OpenError};
use workspace::{Holdings, Workspace};

use super::chart_error::ChartError;
use super::repository::{Fetched, Repository, RepositoryError};
use super::{Search, carried, helm_program, local, render, repository};
use crate::error_chain::chain;
use crate::gather::Collector;
use crate::settings::Attachments;

/// Where charts are looked up.
#[derive(Debug)]
pub struct ChartLookup {
    client: Client,
    collector: Collector,
}

#[derive(Debug, thiserror::Error)]
pub enum ChartLookupError {
    #[error(transparent)]
    Settings(#[from] registry::SettingsError),
    #[error("reading the transferred content in {}", directory.display())]
    Open { directory: PathBuf, source: OpenError },
    /// Why a repository or a chart cannot be read, with the causes.
    #[error("{0}")]
    Chart(String),
}

/// How a chart is searched for images.
#[derive(Debug, Clone, Default)]
pub struct ChartSearch {
    /// The repository that has the chart; without it, the chart is a path or a URL.
    pub repository: Option<String>,
    /// A version or a range.
    pub version: Option<String>,
    pub values_files: Vec<PathBuf>,
    pub image_paths: Vec<String>,
    /// Environment variables of containers whose values are images.
    pub environment: Vec<String>,
    /// Helm, to compare with.
    pub helm_program: Option<PathBuf>,
}

/// What was found in a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChartImages {
    pub chart: String,
    pub version: String,
    pub images: Vec<ChartImageLine>,
    /// Values that look like images, which no template uses.
    pub candidates: Vec<CandidateLine>,
    /// What could not be rendered, and other notes.
    pub problems: Vec<String>,
}

/// An image and every place that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChartImageLine {
    pub image: ImageRef,
    pub origins: Vec<OriginLine>,
}

/// A place that names an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OriginLine {
    /// From the chart's folder.
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// `Deployment/web`, or the annotation.
    pub object: String,
    /// The values that the line uses.
    pub values: Vec<String>,
}

/// A value that looks like an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CandidateLine {
    pub image: ImageRef,
    pub values: Vec<String>,
}

impl ChartLookup {
    /// Sends requests to repositories and registries.
    pub fn remote(settings: registry::Settings) -> Result<Self, ChartLookupError> {
        let client = Client::open(settings)?;
        let collector = Collector::new(client.clone(), None, Attachments::Remove, Arc::default());
        Ok(Self { client, collector })
    }

    /// Names and versions of the charts that were transferred.
    pub fn carried(directory: &Path) -> Result<Vec<(String, String)>, ChartLookupError> {
        let archives = match Archives::open(directory) {
            Ok(archives) => Some(archives),
            Err(OpenError::None(_)) => None,
            Err(source) => {
                return Err(ChartLookupError::Open { directory: directory.to_owned(), source });
            }
        };
        let holdings = Holdings::new(Some(Workspace::open(directory)), archives);
        carried::all(&holdings).map_err(|e| ChartLookupError::Chart(chain(&e)))
    }

    /// The charts of a repository; of a registry, the versions of one chart.
    pub async fn index(
        &self,
        repository: &str,
        chart: Option<&str>,
    ) -> Result<Index, ChartLookupError> {
        let repository = self.repository(repository)?;
        repository.index(chart).await.map_err(|e| ChartLookupError::Chart(chain(&e)))
    }

    /// The images of a chart: the name of a chart in a repository, a path, or a URL.
    pub async fn images(
        &self,
        chart: &str,
        search: &ChartSearch,
    ) -> Result<ChartImages, ChartLookupError> {
        let fail = ChartLookupError::Chart;
        let values = render::given_values(&search.values_files, &Default::default());
        let values = values.map_err(|e| fail(chain(&e)))?;
        let options = Options {
            image_paths: search.image_paths.clone(),
            environment: search.environment.clone(),
            ..Options::default()
        };
        // Only Helm needs the archive.
        let (chart, helm) = match &search.helm_program {
            None => (self.load(chart, search).await.map_err(|e| fail(chain(&e)))?, None),
            Some(program) => {
                let fetched = self.fetch(chart, search).await.map_err(|e| fail(chain(&e)))?;
                let archive = fetched.packed.archive().to_vec();
                (fetched.chart, Some((program, archive)))
            }
        };
        let metadata = chart.metadata.clone();
        let found = render::discover(chart, values.clone(), options.clone()).await;
        let found = found.map_err(|e| fail(chain(&e)))?;
        let mut problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        if let Some((program, archive)) = helm {
            let rendering = Search { values, options, guess_images: false };
            let name = program.display();
            match helm_program::compare(program, archive, &rendering, &found).await {
                Ok(different) => {
                    let only = different.only_helm.iter();
                    problems.extend(only.map(|image| format!("only {name} finds {image}")));
                    let only = different.only_ours.iter();
                    problems.extend(only.map(|image| format!("{name} does not find {image}")));
                }
                Err(error) => problems.push(format!("{name}: {}", chain(&error))),
            }
        }
        Ok(lines(metadata, &found, problems))
    }

    /// The chart alone.
    async fn load(&self, chart: &str, search: &ChartSearch) -> Result<Chart, ChartError> {
        match is_local(chart, search) {
            true => Ok(local::load(Path::new(chart))?),
            false => Ok(self.fetch(chart, search).await?.chart),
        }
    }

    /// The chart with its archive.
    async fn fetch(&self, chart: &str, search: &ChartSearch) -> Result<Fetched, ChartError> {
        if let Some(url) = &search.repository {
            let repository = Repository::open(url, &self.client, &self.collector)?;
            let index = repository.index(Some(chart)).await?;
            let version = index.select(chart, search.version.as_deref())?;
            return Ok(repository.fetch(version, |_| None).await?);
        }
        if let Some(name) = chart.strip_prefix("oci://") {
            return self.stored(name, search.version.as_deref()).await;
        }
        if !is_local(chart, search) {
            let direct = Repository::open(chart, &self.client, &self.collector)?;
            return Ok(direct.fetch_directly().await?);
        }
        Ok(local::read(Path::new(chart))?)
    }

    /// A chart in a registry: with tag or digest, or the version that is selected.
    async fn stored(&self, name: &str, version: Option<&str>) -> Result<Fetched, ChartError> {
        let image: ImageRef = name
            .parse()
            .map_err(|e| RepositoryError::Url { url: format!("oci://{name}"), why: chain(&e) })?;
        if image.pointer().is_some() {
            return Ok(repository::stored(&self.collector, &image).await?);
        }
        let (path, chart) = name.rsplit_once('/').unwrap_or(("", name));
        let url = format!("oci://{path}");
        let repository = Repository::open(&url, &self.client, &self.collector)?;
        let index = repository.index(Some(chart)).await?;
        let version = index.select(chart, version)?;
        Ok(repository.fetch(version, |_| None).await?)
    }

    fn repository(&self, url: &str) -> Result<Repository<'_>, ChartLookupError> {
        let opened = Repository::open(url, &self.client, &self.collector);
        opened.map_err(|e| ChartLookupError::Chart(chain(&e)))
    }
}

/// Whether a chart is a path on this machine.
fn is_local(chart: &str, search: &ChartSearch) -> bool {
    let is_url = ["oci://", "http://", "https://"].iter().any(|scheme| chart.starts_with(scheme));
    search.repository.is_none() && !is_url
}

fn lines(metadata: Metadata, found: &Discovery, problems: Vec<String>) -> ChartImages {
    let image = |(image, origins): (&ImageRef, &Vec<Origin>)| ChartImageLine {
        image: image.clone(),
        origins: origins.iter().map(origin).collect(),
    };
    let candidates = found.candidates.iter().map(|candidate| CandidateLine {
        image: candidate.image.clone(),
        values: candidate.paths.clone(),
    });
    ChartImages {
        chart: metadata.name,
        version: metadata.version,
        images: found.images.iter().map(image).collect(),
        candidates: candidates.collect(),
        problems,
    }
}

fn origin(origin: &Origin) -> OriginLine {
    match origin {
        Origin::Document { file, line, object, values, .. } => OriginLine {
            file: file.clone(),
            line: *line,
            object: object.clone(),
            values: values.clone(),
        },
        Origin::Annotation { chart, key } => OriginLine {
            file: format!("{chart}/Chart.yaml"),
            line: None,
            object: format!("annotation {key}"),
            values: Vec::new(),
        },
    }
}
