//! `helm`: which charts to find images in.

use std::path::PathBuf;

use oci::Platform;
use serde::Serialize;

use crate::finding::{Position, Problem};
use crate::image::platform;
use crate::section::{Place, Section};

/// The `helm` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Helm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<HelmRepository>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<LocalChart>,
    #[serde(skip)]
    pub at: Position,
}

/// A chart repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepository {
    pub name: String,
    pub url: String,
    /// Empty means every version of every chart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
    #[serde(skip)]
    pub at: Position,
}

/// A chart, as it is asked for from a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chart {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where in the rendered chart images are named, beside the usual places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_paths: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    #[serde(skip)]
    pub at: Position,
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
    pub(crate) fn read(place: Place<'_>) -> Option<Self> {
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
    fn read(place: Place<'_>) -> Option<Self> {
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
        section.finish();
        Some(Self { name: name?.owned(), url: url?, charts, at })
    }
}

impl Chart {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let at = section.at;
        let name = section.required("name", "podinfo");
        let version = section.text("version").map(|text| text.owned());
        let image_paths = section.list("imagePaths", |place| Some(place.text()?.owned()));
        let platforms = section.list("platforms", platform);
        Some(Self { name: name?.owned(), version, image_paths, platforms, at })
    }
}

impl LocalChart {
    fn read(place: Place<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `path: {text}`"))?;
        let chart = Chart::read(&mut section);
        let path = section.required("path", "/charts/podinfo-5.0.0.tgz");
        section.finish();
        Some(Self { chart: chart?, path: path?.text.into() })
    }
}

fn address(text: &str) -> Result<String, Problem> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        _ => Err(Problem::Url(text.to_owned())),
    }
}
