//! Helm charts: from the `helm` section of a configuration to the charts and the images they use.
//!
//! ```text
//! section ──repository, local──▶ chart ──render──▶ images ──transferred──▶ wanted images
//!                                  └──chart_image──▶ the chart as an image
//! ```
//!
//! The connected sides fetch and render. What they found travels as a document for each entry of the
//! section; the disconnected side reads those, and renders nothing.

mod carried;
mod chart_error;
mod chart_image;
mod helm_program;
mod local;
mod lookup;
mod of_oc_mirror_v2;
mod render;
mod repository;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use helm::discover::{Cause, Options};
use helm::repository::{ChartVersion, Index, SelectError};
use image_set::{EntryPosition, Helm, HelmRepository, LocalChart};
use mirror_plan::{BlobRef, Destination, Exit, Kind, Origin, Plan, Wanted};
use oci::{Digest, Platform};
use registry::Client;
use serde::{Deserialize, Serialize};
use workspace::Holdings;

use super::built_images::BuiltImages;
use super::documents::Documents;
use super::pairs;
use super::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::EngineError;
use crate::gather::Collector;
use crate::report::Failure;
use crate::settings::{Attachments, DryRun, Workflow};
use carried::{Carried, CarriedChart, CarriedChartError};
use chart_error::ChartError;
use repository::{Fetched, Repository, RepositoryError};

pub(crate) use carried::entry_of;
pub use lookup::{
    CandidateLine, ChartImageLine, ChartImages, ChartLookup, ChartLookupError, ChartSearch,
    OriginLine,
};
pub use uses::{ChartEntry, ChartUse};

/// Charts that are fetched and rendered at once.
const AT_ONCE: usize = 4;

/// What the `helm` section of a configuration results in. A stored plan has what is not skipped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Charts {
    /// The images of all charts, and the charts.
    #[serde(skip)]
    pub(crate) wanted: Vec<Wanted>,
    #[serde(skip)]
    pub(crate) failures: Vec<Failure>,
    #[serde(skip)]
    pub(crate) notes: Vec<String>,
    /// What was selected, for the disconnected side.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    #[serde(skip)]
    pub(crate) made: BuiltImages,
    /// Which version was selected for a chart of a repository, by their places in the section.
    #[serde(with = "pairs")]
    pub(crate) versions: BTreeMap<(usize, usize), String>,
    /// Which charts need an image.
    #[serde(with = "pairs")]
    pub(crate) uses: BTreeMap<Origin, BTreeSet<ChartUse>>,
    /// The charts by the name they get, to notice two with the same.
    #[serde(skip)]
    named: BTreeMap<Destination, (Digest, String)>,
}

/// Turns the `helm` section of a run's configuration into images. A chart that fails affects only
/// itself.
pub(crate) async fn collect(context: &Context, source: Source<'_>) -> Charts {
    let Some(section) = &context.settings.configuration.set.mirror.helm else {
        return Charts::default();
    };
    let work = async {
        match source {
            Source::Remote(client) => fetch(context, section, client).await,
            Source::Held(holdings) => read(context, section, holdings).await,
        }
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Charts::default(),
        charts = work => charts,
    }
}

/// Reads what the connected side selected.
async fn read(context: &Context, section: &Helm, holdings: &Holdings) -> Charts {
    let mut charts = Charts::default();
    for (at, repository) in section.repositories.iter().enumerate() {
        if repository.charts.is_empty() {
            let document = carried::repository_document(repository);
            let entry = Entry::of_repository(at, repository);
            charts.take_carried(context, carried::read(holdings, &document), &entry);
        }
        for (place, chart) in repository.charts.iter().enumerate() {
            let read = carried::read_chart(holdings, repository, chart);
            let entry = Entry::of_chart((at, place), repository, chart);
            charts.take_held(context, holdings, (&entry, chart), read).await;
        }
    }
    for (at, local) in section.local.iter().enumerate() {
        let read = carried::read(holdings, &carried::local_document(local));
        if read.is_err() && holdings.distribution().is_some() && local.path.exists() {
            // oc-mirror v2 does not archive these charts; it reads them on both sides.
            charts.take_local(context, (at, local), &mut Documents::default()).await;
            continue;
        }
        let entry = Entry::of_local(at, local);
        charts.take_held(context, holdings, (&entry, &local.chart), read).await;
    }
    charts
}

async fn fetch(context: &Context, section: &Helm, client: &Client) -> Charts {
    let mut charts = Charts::default();
    let mut documents = Documents::default();
    let store = match context.settings.dry_run {
        DryRun::No => Some(context.workspace.blobs().clone()),
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    let collector =
        Collector::new(client.clone(), store, Attachments::Remove, Arc::clone(&context.turns));
    for (at, repository) in section.repositories.iter().enumerate() {
        let opened = Repository::open(&repository.url, client, &collector);
        let remote = match opened {
            Ok(remote) => remote,
            Err(error) => {
                let entry = Entry::of_repository(at, repository);
                charts.failures.push(entry.failure(context, &error));
                continue;
            }
        };
        match repository.charts.is_empty() {
            true => charts.take_all(context, (at, repository), &remote, &mut documents).await,
            false => charts.take_listed(context, (at, repository), &remote, &mut documents).await,
        }
    }
    for (at, local) in section.local.iter().enumerate() {
        charts.take_local(context, (at, local), &mut documents).await;
    }
    match documents.save(context) {
        Ok(saved) => charts.documents = saved,
        Err(error) => {
            let message = format!("keeping the images of charts: {}", chain(&error));
            charts.failures.push(Failure::new(Exit::GENERIC, message));
        }
    }
    charts
}

/// A part of the section that selects charts, as messages name it.
struct Entry<'a> {
    at: EntryPosition,
    name: String,
    place: ChartEntry,
    platforms: &'a [Platform],
}

impl<'a> Entry<'a> {
    fn of_repository(at: usize, repository: &HelmRepository) -> Self {
        let name = format!("the repository {}", repository::without_login(&repository.url));
        Self { at: repository.at, name, place: ChartEntry::Repository(at), platforms: &[] }
    }

    fn of_chart(
        (at, place): (usize, usize),
        repository: &HelmRepository,
        chart: &'a image_set::Chart,
    ) -> Self {
        let url = repository::without_login(&repository.url);
        let name = format!("the chart {} of {url}", chart.name);
        let place = ChartEntry::Chart(at, place);
        Self { at: chart.at, name, place, platforms: &chart.platforms }
    }

    fn of_local(at: usize, local: &'a LocalChart) -> Self {
        let name = format!("the chart {}", local.path.display());
        let (place, platforms) = (ChartEntry::Local(at), &local.chart.platforms);
        Self { at: local.chart.at, name, place, platforms }
    }

    fn describe(&self, context: &Context, why: &str) -> String {
        let file = context.settings.configuration.path.display();
        format!("{file}:{}: {}: {why}", self.at, self.name)
    }

    fn failure(&self, context: &Context, error: &impl EngineError) -> Failure {
        let failure = Failure::new(Exit::HELM, self.describe(context, &chain(error)));
        failure.with_remedy(error.remedy())
    }

    /// A failure of one of several charts that the entry selects.
    fn chart_failure(&self, context: &Context, chart: &str, error: &impl EngineError) -> Failure {
        let why = format!("{chart}: {}", chain(error));
        Failure::new(Exit::HELM, self.describe(context, &why)).with_remedy(error.remedy())
    }
}

/// How the charts of an entry are searched for images.
struct Search {
    values: serde_json::Map<String, serde_json::Value>,
    options: Options,
    guess_images: bool,
}

impl Search {
    fn of(chart: &image_set::Chart) -> Result<Self, ChartError> {
        Ok(Self {
            values: render::given_values(&chart.values_files, &chart.values)?,
            options: Options {
                image_paths: chart.image_paths.clone(),
                environment: chart.environment_variables.clone(),
                ..Options::default()
            },
            guess_images: chart.guess_images,
        })
    }

    fn with_defaults() -> Self {
        Self { values: Default::default(), options: Options::default(), guess_images: false }
    }
}

impl Charts {
    /// Takes a chart and its images.
    fn want(&mut self, entry: &Entry<'_>, chart: &CarriedChart) {
        let (name, version) = (chart.name.clone(), chart.version.clone());
        let user = ChartUse { name, version, entry: entry.place };
        for wanted in chart.wanted(entry.platforms) {
            self.uses.entry(wanted.origin.clone()).or_default().insert(user.clone());
            self.wanted.push(wanted);
        }
    }

    fn take_carried(
        &mut self,
        context: &Context,
        carried: Result<Carried, CarriedChartError>,
        entry: &Entry<'_>,
    ) {
        match carried {
            Ok(Carried { charts }) => {
                charts.iter().for_each(|chart| self.want(entry, chart));
            }
            Err(error) => self.failures.push(entry.failure(context, &error)),
        }
    }

    /// Takes what was selected for a chart, else the chart in an archive of oc-mirror v2.
    async fn take_held(
        &mut self,
        context: &Context,
        holdings: &Holdings,
        (entry, chart): (&Entry<'_>, &image_set::Chart),
        carried: Result<Carried, CarriedChartError>,
    ) {
        let found = match &carried {
            Ok(_) => Ok(None),
            Err(_) => of_oc_mirror_v2::read(holdings, chart),
        };
        let taken = match found {
            Ok(None) => return self.take_carried(context, carried, entry),
            Ok(Some(fetched)) => Search::of(chart).map(|search| (fetched, search)),
            Err(error) => Err(error.into()),
        };
        match taken {
            Ok((fetched, search)) => drop(self.take(context, entry, fetched, &search).await),
            Err(error) => self.failures.push(entry.failure(context, &error)),
        }
    }

    /// The charts that are named below a repository.
    async fn take_listed(
        &mut self,
        context: &Context,
        (at, repository): (usize, &HelmRepository),
        remote: &Repository<'_>,
        documents: &mut Documents,
    ) {
        let mut listed: Option<Result<Index, Arc<RepositoryError>>> = None;
        for (place, chart) in repository.charts.iter().enumerate() {
            let entry = Entry::of_chart((at, place), repository, chart);
            let selected = async {
                // A registry lists one chart at a time; a web server all of them at once.
                let by_chart = repository.url.starts_with("oci://");
                let known = match listed.take() {
                    Some(known) if !by_chart => known,
                    _ => remote.index(Some(&chart.name)).await.map_err(Arc::new),
                };
                let index = match listed.insert(known) {
                    Ok(index) => &*index,
                    Err(error) => return Err(ChartError::Index(Arc::clone(error))),
                };
                for skipped in index.skipped.iter().filter(|skipped| skipped.chart == chart.name) {
                    let why = format!("an entry of index.yaml is skipped: {}", skipped.reason);
                    context.warn(entry.describe(context, &why));
                }
                let version = index.select(&chart.name, chart.version.as_deref())?;
                let fetched =
                    remote.fetch(version, |version| chart_image::kept(context, version)).await?;
                Ok((version.metadata.version.clone(), fetched, Search::of(chart)?))
            };
            let (version, fetched, search) = match selected.await {
                Ok(selected) => selected,
                Err(error) => {
                    self.failures.push(entry.failure(context, &error));
                    continue;
                }
            };
            let Some(found) = self.take(context, &entry, fetched, &search).await else { continue };
            let pinned = image_set::Chart { version: Some(version.clone()), ..chart.clone() };
            for chart in [chart, &pinned] {
                keep(documents, carried::chart_document(repository, chart), vec![found.clone()]);
            }
            self.versions.insert((at, place), version);
        }
    }

    /// Every chart of a repository.
    async fn take_all(
        &mut self,
        context: &Context,
        (at, repository): (usize, &HelmRepository),
        remote: &Repository<'_>,
        documents: &mut Documents,
    ) {
        let entry = Entry::of_repository(at, repository);
        let index = match remote.index(None).await {
            Ok(index) => index,
            Err(error) => return self.failures.push(entry.failure(context, &error)),
        };
        for skipped in &index.skipped {
            let why =
                format!("index.yaml: an entry of {} is skipped: {}", skipped.chart, skipped.reason);
            context.warn(entry.describe(context, &why));
        }
        let versions = all_versions(&index, repository.newest_only);
        if !repository.newest_only {
            context.warn(entry.describe(
                context,
                &format!(
                    "no charts are named, so that all {} versions of {} charts are mirrored with their images; name `charts`, or set `newestOnly: true`",
                    versions.len(),
                    versions.iter().map(|version| &version.metadata.name).collect::<BTreeSet<_>>().len()
                ),
            ));
        }
        let search = Search::with_defaults();
        let fetched = stream::iter(versions).map(|version| async move {
            let held = |version: &ChartVersion| chart_image::kept(context, version);
            (version, remote.fetch(version, held).await)
        });
        let mut fetched = fetched.buffered(AT_ONCE);
        let mut found = Vec::new();
        while let Some((version, fetched)) = fetched.next().await {
            let name = format!("{} {}", version.metadata.name, version.metadata.version);
            match fetched {
                Ok(fetched) => found.extend(self.take(context, &entry, fetched, &search).await),
                Err(error) => {
                    self.failures.push(entry.chart_failure(context, &name, &error));
                }
            }
        }
        keep(documents, carried::repository_document(repository), found);
    }

    /// A chart on this machine.
    async fn take_local(
        &mut self,
        context: &Context,
        (at, local): (usize, &LocalChart),
        documents: &mut Documents,
    ) {
        let entry = Entry::of_local(at, local);
        let read = local::read(&local.path).map_err(ChartError::from);
        let read = read.and_then(|fetched| {
            check_local(context, &entry, local, &fetched)?;
            Ok((fetched, Search::of(&local.chart)?))
        });
        match read {
            Ok((fetched, search)) => {
                let found = self.take(context, &entry, fetched, &search).await;
                let name = carried::local_document(local);
                found.into_iter().for_each(|found| keep(documents, name.clone(), vec![found]));
            }
            Err(error) => self.failures.push(entry.failure(context, &error)),
        }
    }

    /// Renders a chart and takes its images, and the chart itself.
    async fn take(
        &mut self,
        context: &Context,
        entry: &Entry<'_>,
        fetched: Fetched,
        search: &Search,
    ) -> Option<CarriedChart> {
        let metadata = &fetched.chart.metadata;
        let (name, version) = (metadata.name.clone(), metadata.version.clone());
        let options = search.options.clone();
        let discovery =
            render::discover(fetched.chart.clone(), search.values.clone(), options).await;
        let discovery = match discovery {
            Ok(discovery) => discovery,
            Err(error) => {
                let (chart, error) = (format!("{name} {version}"), ChartError::from(error));
                self.failures.push(entry.chart_failure(context, &chart, &error));
                return None;
            }
        };
        for problem in &discovery.problems {
            let why = format!("{name} {version}: {problem}");
            match &problem.cause {
                // Text that is not an image cannot be pulled, either.
                Cause::NotAnImage { .. } => context.warn(entry.describe(context, &why)),
                cause if cause.hides_images() => {
                    self.failures.push(Failure::new(Exit::HELM, entry.describe(context, &why)));
                }
                _ => context.warn(entry.describe(context, &why)),
            }
        }
        if !search.guess_images && !discovery.candidates.is_empty() {
            let images: Vec<String> =
                discovery.candidates.iter().map(|found| found.image.to_string()).collect();
            let why = format!(
                "{name} {version}: values look like images that no template uses, and are not mirrored without `guessImages: true`: {}",
                images.join(", ")
            );
            self.notes.push(entry.describe(context, &why));
        }
        let mut images = render::images(&discovery, search.guess_images);
        if let Some(program) = &context.settings.helm_program {
            let archive = fetched.packed.archive().to_vec();
            let compared = helm_program::compare(program, archive, search, &discovery).await;
            match compared {
                Ok(difference) => {
                    for image in difference.only_helm {
                        let place = program.display().to_string();
                        images.entry(render::tagged(&image)).or_default().push(place);
                        let why = format!(
                            "{name} {version}: only {} finds the image {image}, which is mirrored, too",
                            program.display()
                        );
                        context.warn(entry.describe(context, &why));
                    }
                    for image in difference.only_ours {
                        let why = format!(
                            "{name} {version}: {} does not find the image {image}, which is mirrored",
                            program.display()
                        );
                        context.warn(entry.describe(context, &why));
                    }
                }
                Err(error) => {
                    let why = format!("{name} {version}: {}: {}", program.display(), chain(&error));
                    context.warn(entry.describe(context, &why));
                }
            }
        }
        let artifact = match self.artifact(context, entry, fetched) {
            Ok(artifact) => Some(artifact),
            Err(error) => {
                let chart = format!("{name} {version}");
                self.failures.push(entry.chart_failure(context, &chart, &error));
                None
            }
        };
        let chart = CarriedChart { name, version, artifact, images };
        self.want(entry, &chart);
        Some(chart)
    }

    fn artifact(
        &mut self,
        context: &Context,
        entry: &Entry<'_>,
        fetched: Fetched,
    ) -> Result<carried::CarriedArtifact, ChartError> {
        let (artifact, tree) = chart_image::make(context, fetched)?;
        let Some(tree) = tree else { return Ok(artifact) };
        let wanted = artifact.wanted();
        let place = Destination::of(&wanted)?;
        let digest = tree.root().digest;
        match self.named.get(&place) {
            Some((known, _)) if *known == digest => {}
            Some((_, other)) => {
                return Err(ChartError::SameName { other: other.clone(), place });
            }
            None => {
                self.named.insert(place, (digest, entry.name.clone()));
            }
        }
        self.made.insert_read(&wanted, tree);
        Ok(artifact)
    }
}

fn keep(documents: &mut Documents, name: String, charts: Vec<CarriedChart>) {
    let bytes = serde_json::to_vec_pretty(&Carried { charts });
    documents.keep(name, bytes.expect("names and images are text"));
}

/// Warns how much the charts of whole repositories and their images come to, once that is known.
pub(crate) fn warn_of_whole_repositories(context: &Context, plan: &Plan) {
    let settings = &context.settings;
    let Some(section) = &settings.configuration.set.mirror.helm else { return };
    let is_whole = |r: &&HelmRepository| r.charts.is_empty() && !r.newest_only;
    let mut repositories = section.repositories.iter().enumerate();
    let Some((at, repository)) = repositories.find(|(_, r)| is_whole(r)) else { return };
    if matches!(settings.workflow, Workflow::DiskToMirror { .. }) {
        return;
    }
    let mut content: BTreeMap<Digest, u64> = BTreeMap::new();
    let (mut charts, mut images) = (0_usize, 0_usize);
    for image in &plan.images {
        match image.kind {
            Kind::Chart => charts += 1,
            Kind::Helm => images += 1,
            _ => continue,
        }
        content.extend(plan.tree(image).blobs());
    }
    let size = content.values().sum::<u64>().div_ceil(1 << 20);
    let why = format!(
        "the `helm` section selects {charts} charts with {images} images, {size} MiB in total, because it names no charts of this repository"
    );
    context.warn(Entry::of_repository(at, repository).describe(context, &why));
}

/// Versions of all charts that can be installed. Library charts cannot.
fn all_versions(index: &Index, newest_only: bool) -> Vec<&ChartVersion> {
    let mut all = Vec::new();
    for (name, versions) in index.charts() {
        if newest_only {
            let newest = match index.select(name, None) {
                Err(SelectError::PreReleases { .. }) => versions.first(),
                selected => selected.ok(),
            };
            all.extend(newest.filter(|version| !version.is_library()));
        } else {
            all.extend(versions.iter().filter(|version| !version.is_library()));
        }
    }
    all
}

/// Checks that a chart on this machine has the name and version of the configuration.
fn check_local(
    context: &Context,
    entry: &Entry<'_>,
    local: &LocalChart,
    fetched: &Fetched,
) -> Result<(), ChartError> {
    let metadata = &fetched.chart.metadata;
    if metadata.name != local.chart.name {
        let (expected, found) = (&local.chart.name, &metadata.name);
        let why = format!("expected the name {expected:?}, found {found:?}, which is used");
        context.warn(entry.describe(context, &why));
    }
    let Some(wanted) = &local.chart.version else { return Ok(()) };
    let constraint = helm::version::Constraint::parse(wanted)?;
    let version = helm::version::version(&metadata.version)?;
    match *wanted == metadata.version || constraint.matches(&version) {
        true => Ok(()),
        false => Err(ChartError::OtherVersion {
            expected: wanted.clone(),
            found: metadata.version.clone(),
        }),
    }
}
