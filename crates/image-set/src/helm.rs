//! `helm`: which charts to mirror with their images.

use std::path::PathBuf;

use oci::Platform;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::finding::{EntryPosition, Problem};
use crate::image::platform;
use crate::section::{LocatedValue, Section};

/// The `helm` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Helm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<HelmRepository>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<LocalChart>,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A chart repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepository {
    pub name: String,
    /// `https://`, `http://` or `oci://`.
    pub url: String,
    /// Empty means every version of every chart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
    /// Where `charts` is empty: only the newest version of every chart.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub newest_only: bool,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A chart, as it is requested from a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chart {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where in the rendered chart images are named, beside the usual places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_paths: Vec<String>,
    /// Environment variables of containers whose values are images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment_variables: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// Files with values to render the chart with; each wins over those before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<PathBuf>,
    /// Values to render the chart with; they win over those of the files.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// Whether to mirror what only looks like an image in the values, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guess_images: bool,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A chart in a directory or a package file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalChart {
    #[serde(flatten)]
    pub chart: Chart,
    pub path: PathBuf,
}

impl Helm {
    /// Every chart that is named, of repositories and local ones.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        let listed = self.repositories.iter().flat_map(|repository| &repository.charts);
        listed.chain(self.local.iter().map(|local| &local.chart))
    }

    pub(crate) fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section =
            Section::open(place, |_| "write `repositories:` or `local:` below it".to_owned())?;
        let at = section.at;
        let repositories = section.list("repositories", HelmRepository::read);
        let local = section.list("local", LocalChart::read);
        section.finish();
        Some(Self { repositories, local, at })
    }
}

impl HelmRepository {
    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `url: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "podinfo");
        let url = section.required("url", "https://stefanprodan.github.io/podinfo");
        let url = url.and_then(|url| url.parse(|_, text| address(text)));
        let charts = section.list("charts", |place| {
            let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
            let chart = Chart::read(&mut section);
            section.refuse("path", "it is for charts below helm.local");
            section.finish();
            chart
        });
        let newest_only = section.flag("newestOnly");
        if newest_only && !charts.is_empty() {
            let (key, section_name) =
                ("newestOnly".to_owned(), "a repository with `charts`".to_owned());
            let instead = "leave out `version` of a chart to get its newest";
            section.report_key(
                "newestOnly",
                Problem::RefusedKey { key, section: section_name, instead },
            );
        }
        section.finish();
        Some(Self { name: name?.owned(), url: url?, charts, newest_only, at })
    }
}

impl Chart {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let at = section.at;
        let name = section.required("name", "podinfo");
        let version = section.text("version").map(|text| text.owned());
        let image_paths = section.list("imagePaths", |place| Some(place.text()?.owned()));
        let environment_variables =
            section.list("environmentVariables", |place| Some(place.text()?.owned()));
        let platforms = section.list("platforms", platform);
        let values_files = section.list("valuesFiles", |place| Some(place.text()?.text.into()));
        let values = section.place("values").and_then(|place| values(&place)).unwrap_or_default();
        let guess_images = section.flag("guessImages");
        Some(Self {
            name: name?.owned(),
            version,
            image_paths,
            environment_variables,
            platforms,
            values_files,
            values,
            guess_images,
            at,
        })
    }
}

impl LocalChart {
    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `path: {text}`"))?;
        let chart = Chart::read(&mut section);
        let path = section.required("path", "/charts/podinfo-5.0.0.tgz");
        section.finish();
        Some(Self { chart: chart?, path: path?.text.into() })
    }
}

fn values(place: &LocatedValue<'_>) -> Option<Map<String, Value>> {
    match place.node.to_json() {
        Value::Object(entries) => Some(entries),
        _ => {
            let (what, found) = (place.path.clone(), place.node.shape());
            let hint =
                Some("write `KEY: VALUE` below it, or list files in `valuesFiles`".to_owned());
            place.report(Problem::Shape { what, expected: "a map", found, hint });
            None
        }
    }
}

fn address(text: &str) -> Result<String, Problem> {
    let host =
        ["https://", "http://", "oci://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        _ => Err(Problem::Url(text.to_owned())),
    }
}
