//! What a part of the `helm` section was resolved to: charts and their images, as they travel in an
//! archive. The disconnected side reads this and renders nothing.

use std::collections::{BTreeMap, BTreeSet};

use image_set::{Helm, HelmRepository, LocalChart};
use mirror_plan::{Kind, Origin, Wanted};
use oci::{Digest, ImageRef, Platform, Repository, Tag};
use serde::{Deserialize, Serialize};
use workspace::{DiskError, DocumentError, Holdings};

use super::repository::without_login;
use crate::fault::{EngineError, Fault};

/// Below `working-dir`.
const FOLDER: &str = "helm/selected";
/// How many charts of an archive are named where one is missing.
const NAMED: usize = 5;

/// Why it is not known what was selected for a chart.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarriedChartError {
    /// With charts that are here.
    #[error(
        "no archive here has it with these settings: mirror it to disk on the connected side with the same version, values and imagePaths{known}"
    )]
    Absent { known: String },
    #[error("reading {name}")]
    Json { name: String, source: serde_json::Error },
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for CarriedChartError {
    fn fault(&self) -> Fault {
        match self {
            Self::Absent { .. } => Fault::NotHeld,
            Self::Json { .. } => Fault::Content,
            Self::Document(error) => Fault::of_document(error),
            Self::Disk(_) => Fault::Disk,
        }
    }
}

/// The charts that one request selects.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Carried {
    pub(crate) charts: Vec<CarriedChart>,
}

/// A chart and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedChart {
    pub(crate) name: String,
    pub(crate) version: String,
    /// None where the chart has a name that no registry accepts.
    pub(crate) artifact: Option<CarriedArtifact>,
    /// Each with the places that name it.
    pub(crate) images: BTreeMap<ImageRef, Vec<String>>,
}

/// The chart itself, as a registry stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedArtifact {
    pub(crate) origin: Origin,
    pub(crate) repository: Repository,
    pub(crate) tag: Tag,
}

impl CarriedArtifact {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            kind: Kind::Chart,
            origin: self.origin.clone(),
            target_repository: Some(self.repository.clone()),
            target_tag: Some(self.tag.clone()),
            platforms: Vec::new(),
        }
    }
}

impl CarriedChart {
    /// The chart and its images.
    pub(crate) fn wanted(&self, platforms: &[Platform]) -> Vec<Wanted> {
        let image = |image: &ImageRef| Wanted {
            kind: Kind::Helm,
            origin: Origin::Registry(image.clone()),
            target_repository: None,
            target_tag: None,
            platforms: platforms.to_vec(),
        };
        let artifact = self.artifact.iter().map(CarriedArtifact::wanted);
        artifact.chain(self.images.keys().map(image)).collect()
    }
}

/// The name of the document for a repository of which every chart is selected.
pub(crate) fn repository_document(repository: &HelmRepository) -> String {
    let key = HelmRepository {
        name: String::new(),
        url: without_login(&repository.url),
        charts: Vec::new(),
        ..repository.clone()
    };
    document_name(&repository.name, &key)
}

/// The name of the document for one chart of a repository.
pub(crate) fn chart_document(repository: &HelmRepository, chart: &image_set::Chart) -> String {
    let chart = image_set::Chart { platforms: Vec::new(), ..chart.clone() };
    document_name(&chart.name, &(without_login(&repository.url), &chart))
}

/// The name of the document for a chart on the machine that mirrors to disk.
pub(crate) fn local_document(local: &LocalChart) -> String {
    let chart = image_set::Chart { platforms: Vec::new(), ..local.chart.clone() };
    document_name(&local.chart.name, &LocalChart { chart, path: local.path.clone() })
}

/// A name that people recognise, made unique by all settings that decide about images. Platforms do
/// not: they are selected when images are pushed.
fn document_name(name: &str, settings: &impl Serialize) -> String {
    let settings = serde_json::to_vec(settings).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    format!("{FOLDER}/{name}-{}.json", &Digest::of(&settings).hex()[..16])
}

/// Reads what the connected side selected.
pub(crate) fn read(holdings: &Holdings, name: &str) -> Result<Carried, CarriedChartError> {
    let Some(bytes) = holdings.document(name)? else {
        return Err(absent(holdings));
    };
    let read = serde_json::from_slice(&bytes);
    read.map_err(|source| CarriedChartError::Json { name: name.to_owned(), source })
}

/// Reads what was selected for one chart of a repository: by itself, or with the whole repository.
pub(crate) fn read_chart(
    holdings: &Holdings,
    repository: &HelmRepository,
    chart: &image_set::Chart,
) -> Result<Carried, CarriedChartError> {
    let failure = match read(holdings, &chart_document(repository, chart)) {
        Ok(carried) => return Ok(carried),
        Err(error) => error,
    };
    // Whole repositories are rendered with the defaults of each chart.
    let name = image_set::Chart { version: None, platforms: Vec::new(), ..chart.clone() };
    let defaults = image_set::Chart { name: chart.name.clone(), at: chart.at, ..defaults() };
    let (true, Some(version)) = (name == defaults, &chart.version) else { return Err(failure) };
    for newest_only in [false, true] {
        let whole = HelmRepository { newest_only, ..repository.clone() };
        let Ok(carried) = read(holdings, &repository_document(&whole)) else { continue };
        let found = carried.charts.into_iter();
        let mut found = found.filter(|held| held.name == chart.name && held.version == *version);
        if let Some(found) = found.next() {
            return Ok(Carried { charts: vec![found] });
        }
    }
    Err(failure)
}

/// The part of a `helm` section that selects the chart with this origin, by its exact version, and the
/// images of the chart. None where the section does not select it, or what was selected is not held
/// any more.
pub(crate) fn entry_of(
    holdings: &Holdings,
    section: &Helm,
    origin: &Origin,
) -> Option<(Helm, Vec<ImageRef>)> {
    let is_it = |chart: &CarriedChart| {
        chart.artifact.as_ref().is_some_and(|artifact| artifact.origin == *origin)
    };
    let images = |read: Result<Carried, CarriedChartError>| {
        let found = read.ok()?.charts.into_iter().find(is_it)?;
        Some(found.images.into_keys().collect::<Vec<_>>())
    };
    for local in &section.local {
        if let Some(images) = images(read(holdings, &local_document(local))) {
            return Some((Helm { local: vec![local.clone()], ..Helm::default() }, images));
        }
    }
    let names = holdings.document_list().ok()?.into_keys();
    let documents = names.filter(|name| name.starts_with(FOLDER));
    let mut charts = documents.filter_map(|name| read(holdings, &name).ok()).flat_map(|c| c.charts);
    let CarriedChart { name, version, .. } = charts.find(is_it)?;
    for repository in &section.repositories {
        let whole = image_set::Chart { name: name.clone(), ..defaults() };
        let entries = match repository.charts.is_empty() {
            true => vec![&whole],
            false => repository.charts.iter().filter(|chart| chart.name == name).collect(),
        };
        for entry in entries {
            let chart = image_set::Chart { version: Some(version.clone()), ..entry.clone() };
            if let Some(images) = images(read_chart(holdings, repository, &chart)) {
                let charts = vec![chart];
                let repository =
                    HelmRepository { charts, newest_only: false, ..repository.clone() };
                let section = Helm { repositories: vec![repository], ..Helm::default() };
                return Some((section, images));
            }
        }
    }
    None
}

/// A chart without settings.
fn defaults() -> image_set::Chart {
    image_set::Chart {
        name: String::new(),
        version: None,
        image_paths: Vec::new(),
        environment_variables: Vec::new(),
        platforms: Vec::new(),
        values_files: Vec::new(),
        values: Default::default(),
        guess_images: false,
        at: Default::default(),
    }
}

/// Names and versions of all charts that are held, each once.
pub(crate) fn all(holdings: &Holdings) -> Result<Vec<(String, String)>, CarriedChartError> {
    let mut found = BTreeSet::new();
    for name in holdings.document_list()?.into_keys() {
        if name.starts_with(FOLDER) {
            let carried = read(holdings, &name)?;
            found.extend(carried.charts.into_iter().map(|chart| (chart.name, chart.version)));
        }
    }
    Ok(found.into_iter().collect())
}

/// Nothing was selected with these settings; with the charts that are here.
fn absent(holdings: &Holdings) -> CarriedChartError {
    let known = all(holdings).unwrap_or_default().into_iter();
    let mut known: Vec<String> = known.map(|(name, version)| format!("{name} {version}")).collect();
    let is_cut = known.len() > NAMED;
    known.truncate(NAMED);
    let more = if is_cut { ", …" } else { "" };
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(" (here are: {}{more})", known.join(", ")),
    };
    CarriedChartError::Absent { known }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str) -> image_set::Chart {
        image_set::Chart { name: name.to_owned(), ..defaults() }
    }

    fn repository(url: &str) -> HelmRepository {
        let (name, url) = ("r".to_owned(), url.to_owned());
        HelmRepository { name, url, charts: Vec::new(), newest_only: false, at: Default::default() }
    }

    #[test]
    fn a_document_is_named_by_what_decides_about_images() {
        let web = chart("web");
        let name = chart_document(&repository("https://h/c"), &web);
        assert!(name.starts_with("helm/selected/web-") && name.ends_with(".json"), "{name}");
        let with_login = repository("https://me:secret@h/c?token=1");
        assert_eq!(chart_document(&with_login, &web), name);
        let platform =
            image_set::Chart { platforms: vec!["linux/amd64".parse().unwrap()], ..web.clone() };
        assert_eq!(chart_document(&repository("https://h/c"), &platform), name);
        let pinned = image_set::Chart { version: Some("1.0.0".to_owned()), ..web.clone() };
        assert_ne!(chart_document(&repository("https://h/c"), &pinned), name);
        assert_ne!(chart_document(&repository("https://h/d"), &web), name);
    }

    #[test]
    fn a_name_stays_in_its_folder() {
        let name = chart_document(&repository("https://h/c"), &chart("../../x"));
        assert!(name.starts_with("helm/selected/______x-"), "{name}");
    }
}
