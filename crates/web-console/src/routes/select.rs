//! Pages to select from: catalogs, releases, single images.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use image_set::ImageSource;
use oci::ImageRef;
use serde::Deserialize;

use super::configurations::{EMPTY, EditedText, editor_page};
use super::package_sizes;
use super::respond::{SectionResponder, blocking};
use crate::additions::{Addition, add};
use crate::app::App;
use crate::catalogs::{CatalogKey, CatalogState};
use crate::pages::charts::{self, ChartRow};
use crate::pages::configurations::Message;
use crate::pages::layout::Section;
use crate::pages::operators::{self, CatalogAddress};
use crate::pages::parts::address;
use crate::pages::releases::{self, FoundReleases, ReleaseChoice};
use crate::shell_line::ShellLine;
use crate::view::Fault;
use crate::view::configurations::{self, ConfigurationName};
use crate::view::operators::CatalogView;
use crate::view::paging::Page;

/// For images of others: no script in them runs, whatever opens them.
const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CatalogQuery {
    catalog: String,
    carried: bool,
    retry: bool,
    pub(super) name: String,
    pub(super) channel: String,
    q: String,
    page: String,
}

impl CatalogQuery {
    pub(super) fn is_carried(&self) -> bool {
        self.carried
    }

    /// The page of the package.
    pub(super) fn package_address(&self) -> String {
        let carried = if self.carried { "true" } else { "" };
        let query = [("catalog", &*self.catalog), ("carried", carried), ("name", &self.name)];
        address("/operator", &query)
    }

    fn address(&self) -> CatalogAddress<'_> {
        CatalogAddress { catalog: &self.catalog, is_carried: self.carried }
    }

    pub(super) fn key(&self) -> Result<CatalogKey, String> {
        Ok(CatalogKey { source: source(&self.catalog)?, is_carried: self.carried })
    }

    fn command(&self, app: &App, more: &[&str]) -> ShellLine {
        let mut words = vec!["list".to_owned(), "operators".to_owned()];
        words.push(format!("--catalog={}", self.catalog));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.extend(lookup_flags(app, self.carried, "--from"));
        ShellLine::oc_mirror(words)
    }
}

/// An image with tag or digest, or an image layout.
pub(super) fn source(text: &str) -> Result<ImageSource, String> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("oci://").filter(|path| !path.is_empty()) {
        return Ok(ImageSource::Layout(path.into()));
    }
    let name = text.strip_prefix("docker://").unwrap_or(text);
    let image: ImageRef =
        name.parse().map_err(|error| format!("expected an image, found {text:?}: {error}"))?;
    match image.pointer() {
        Some(_) => Ok(ImageSource::Registry(image)),
        None => Err(format!("expected an image with tag or digest, found {text:?}")),
    }
}

/// How a command looks something up: in the workspace, or at registries.
pub(super) fn lookup_flags(app: &App, is_carried: bool, flag: &str) -> Vec<String> {
    match is_carried {
        true => vec![flag.to_owned(), app.place.argument.clone()],
        false => app.registries.source_arguments(),
    }
}

pub(super) async fn packages(
    State(app): State<Arc<App>>,
    Query(query): Query<CatalogQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Operators };
    let at = query.address();
    let key = match query.key() {
        Ok(key) => key,
        Err(problem) => {
            let problem = Some(problem).filter(|_| !query.catalog.is_empty());
            let carried = blocking(&app, |app| {
                app.catalogs.carried(app.place.directory()).map_err(Fault::Failed)
            });
            // A workspace without catalogs offers none.
            let carried: Vec<String> =
                carried.await.unwrap_or_default().iter().map(ToString::to_string).collect();
            let command =
                ShellLine::oc_mirror(["list", "operators", "--catalogs", "--version", "4.20"]);
            let content = operators::choose(at, &carried, problem.as_deref());
            return responder.page("Operators", vec![command], content);
        }
    };
    let command = vec![query.command(&app, &[])];
    match app.catalogs.open(&key, app.place.directory(), query.retry) {
        CatalogState::Loading => responder.page("Operators", command, operators::loading(at)),
        CatalogState::Failed(why) => responder.with_status(
            StatusCode::BAD_GATEWAY,
            "Operators",
            command,
            operators::failed(at, &why),
        ),
        CatalogState::Ready(view) => {
            let page = view.find(&query.q, query.page.parse().unwrap_or(1));
            responder.page("Operators", command, operators::list(at, &view, &page, &query.q))
        }
    }
}

/// The catalog of a request, if it was opened before.
pub(super) fn opened(app: &App, query: &CatalogQuery) -> Result<Arc<CatalogView>, Fault> {
    let key = query.key().map_err(Fault::Absent)?;
    match app.catalogs.open(&key, app.place.directory(), false) {
        CatalogState::Ready(view) => Ok(view),
        CatalogState::Failed(why) => Err(Fault::Failed(why)),
        CatalogState::Loading => {
            Err(Fault::Absent("the catalog is being read; open its list of packages".to_owned()))
        }
    }
}

pub(super) async fn package(
    State(app): State<Arc<App>>,
    Query(query): Query<CatalogQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Operators };
    let found = opened(&app, &query).and_then(|view| match view.package(&query.name) {
        Some(package) => Ok(package.clone()),
        None => Err(Fault::Absent("the catalog has no such package".to_owned())),
    });
    let package = match found {
        Ok(package) => package,
        Err(fault) => return responder.fault("Operator", &fault),
    };
    let read = blocking(&app, move |app| {
        let sizes = package_sizes::known(app, &query, &package);
        Ok((configurations::list(&app.place.workspace)?, sizes, query, package))
    });
    match read.await {
        Ok((rows, sizes, query, package)) => {
            let name = package.shown_name();
            let mut commands = vec![query.command(&app, &["--package", &query.name])];
            if !query.channel.is_empty() {
                commands.push(ShellLine::oc_mirror(diagram_words(&app, &query)));
            }
            let content =
                operators::detail(query.address(), &package, &query.channel, sizes.as_ref(), &rows);
            responder.page(&name, commands, content)
        }
        Err(fault) => responder.fault("Operator", &fault),
    }
}

pub(super) async fn icon(
    State(app): State<Arc<App>>,
    Query(query): Query<CatalogQuery>,
) -> Response {
    let found = opened(&app, &query).ok();
    let icon = found.and_then(|view| view.package(&query.name)?.icon.clone());
    match icon {
        Some(icon) => {
            let headers = [(CONTENT_TYPE, icon.kind), (CONTENT_SECURITY_POLICY, SANDBOX)];
            (headers, icon.bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) async fn operator_diagram(
    State(app): State<Arc<App>>,
    Query(query): Query<CatalogQuery>,
) -> Response {
    svg(&app, &with_output(&diagram_words(&app, &query), "svg"), Section::Operators).await
}

/// The arguments that show the updates of a channel.
fn diagram_words(app: &App, query: &CatalogQuery) -> Vec<String> {
    let mut words = ["upgrade-path", "operator"].map(str::to_owned).to_vec();
    words.push(format!("--catalog={}", query.catalog));
    words.push(format!("--package={}", query.name));
    words.push(format!("--channel={}", query.channel));
    words.extend(lookup_flags(app, query.carried, "--workspace"));
    words
}

/// The drawing that a command writes.
async fn svg(app: &App, words: &[String], section: Section) -> Response {
    match app.commands.output(words).await {
        Ok(drawing) => {
            let headers = [(CONTENT_TYPE, "image/svg+xml"), (CONTENT_SECURITY_POLICY, SANDBOX)];
            (headers, drawing).into_response()
        }
        Err(why) => SectionResponder { app, section }.fault("Diagram", &Fault::Failed(why)),
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReleaseQuery {
    channel: String,
    arch: String,
    from: String,
    to: String,
    carried: bool,
}

impl ReleaseQuery {
    fn choice(&self) -> ReleaseChoice {
        ReleaseChoice {
            channel: self.channel.trim().to_owned(),
            architecture: match self.arch.as_str() {
                "" => "amd64".to_owned(),
                arch => arch.to_owned(),
            },
            from: self.from.trim().to_owned(),
            to: self.to.trim().to_owned(),
            is_carried: self.carried,
        }
    }
}

/// The arguments that list the releases of a channel. Values follow `=`, so that none of them is
/// taken for a flag.
fn list_words(app: &App, choice: &ReleaseChoice) -> Vec<String> {
    let mut words = ["list", "releases"].map(str::to_owned).to_vec();
    words.push(format!("--channel={}", choice.channel));
    words.push(format!("--filter-by-archs={}", choice.architecture));
    words.extend(lookup_flags(app, choice.is_carried, "--from"));
    words
}

/// The arguments that show a path, if one end of it is known.
fn path_words(app: &App, choice: &ReleaseChoice) -> Option<Vec<String>> {
    let ends = [("--from", &choice.from), ("--to", &choice.to)];
    let mut words = ["upgrade-path", "release"].map(str::to_owned).to_vec();
    let known = ends.iter().filter(|(_, version)| !version.is_empty());
    words.extend(known.map(|(flag, version)| format!("{flag}={version}")));
    if words.len() == 2 {
        return None;
    }
    words.push(format!("--channel={}", choice.channel));
    words.push(format!("--arch={}", choice.architecture));
    words.extend(lookup_flags(app, choice.is_carried, "--workspace"));
    Some(words)
}

fn with_output(words: &[String], format: &str) -> Vec<String> {
    words.iter().cloned().chain(["-o".to_owned(), format.to_owned()]).collect()
}

pub(super) async fn release_page(
    State(app): State<Arc<App>>,
    Query(query): Query<ReleaseQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Releases };
    let choice = query.choice();
    let rows = match blocking(&app, |app| configurations::list(&app.place.workspace)).await {
        Ok(rows) => rows,
        Err(fault) => return responder.fault("Releases", &fault),
    };
    let mut commands = Vec::new();
    let mut found = None;
    if !choice.channel.is_empty() {
        let list = list_words(&app, &choice);
        commands.push(ShellLine::oc_mirror(list.clone()));
        let releases = find_releases(&app, &choice, &list).await;
        if let Ok(FoundReleases { ends: Some(ends), .. }) = &releases {
            commands.extend(path_words(&app, ends).map(ShellLine::oc_mirror));
        }
        found = Some(releases);
    }
    let content = releases::content(&choice, found.as_ref(), &rows);
    responder.page("Releases", commands, content)
}

async fn find_releases(
    app: &App,
    choice: &ReleaseChoice,
    list: &[String],
) -> Result<FoundReleases, String> {
    #[derive(Deserialize)]
    struct Listed {
        versions: Vec<String>,
    }
    let listed = app.commands.output(&with_output(list, "json")).await?;
    let listed: Vec<Listed> = serde_json::from_slice(&listed).map_err(|error| error.to_string())?;
    let mut versions: Vec<String> = listed.into_iter().flat_map(|list| list.versions).collect();
    versions.reverse();
    // Without ends: how the newest release is reached.
    let ends = match (choice.from.is_empty() && choice.to.is_empty(), versions.first()) {
        (true, Some(newest)) => Some(ReleaseChoice { to: newest.clone(), ..choice.clone() }),
        (true, None) => None,
        (false, _) => Some(choice.clone()),
    };
    let path = match ends.as_ref().and_then(|ends| path_words(app, ends)) {
        Some(words) => {
            let text = app.commands.output(&words).await;
            Some(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
        }
        None => None,
    };
    let diagram = ends.as_ref().map(|ends| {
        let carried = if ends.is_carried { "true" } else { "" };
        let query = [
            ("channel", &*ends.channel),
            ("arch", &ends.architecture),
            ("from", &ends.from),
            ("to", &ends.to),
            ("carried", carried),
        ];
        address("/releases/diagram", &query)
    });
    Ok(FoundReleases { versions, path, diagram: diagram.unwrap_or_default(), ends })
}

pub(super) async fn release_diagram(
    State(app): State<Arc<App>>,
    Query(query): Query<ReleaseQuery>,
) -> Response {
    match path_words(&app, &query.choice()) {
        Some(words) => svg(&app, &with_output(&words, "svg"), Section::Releases).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChartQuery {
    repository: String,
    chart: String,
    page: String,
}

/// The charts of a repository, or the versions of one of them.
pub(super) async fn chart_page(
    State(app): State<Arc<App>>,
    Query(query): Query<ChartQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Charts };
    let rows = match blocking(&app, |app| configurations::list(&app.place.workspace)).await {
        Ok(rows) => rows,
        Err(fault) => return responder.fault("Charts", &fault),
    };
    let mut commands = Vec::new();
    let mut found = None;
    if !query.repository.is_empty() {
        let mut words = ["list", "charts"].map(str::to_owned).to_vec();
        words.push(format!("--repository={}", query.repository.trim()));
        if !query.chart.is_empty() {
            words.push(format!("--chart={}", query.chart));
        }
        words.extend(app.registries.source_arguments());
        commands.push(ShellLine::oc_mirror(words.clone()));
        let listed = app.commands.output(&with_output(&words, "json")).await;
        let listed = listed.and_then(|text| {
            serde_json::from_slice::<Vec<ChartRow>>(&text).map_err(|error| error.to_string())
        });
        let number = query.page.parse().unwrap_or(1);
        found = Some(listed.map(|list| Page::of(list, number)));
    }
    let content = charts::content(&query.repository, &query.chart, found.as_ref(), &rows);
    responder.page("Charts", commands, content)
}

/// A selection to add. One form for all kinds: each has some of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AddForm {
    name: String,
    kind: String,
    image: String,
    catalog: String,
    carried: bool,
    package: String,
    repository: String,
    version: String,
    channel: String,
    from: String,
    to: String,
    shortest: bool,
}

fn addition(app: &App, form: &AddForm) -> Result<Addition, String> {
    let version = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| format!("expected a release such as 4.20.3, found {text:?}")),
    };
    let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    Ok(match form.kind.as_str() {
        "image" => Addition::Image(source(&form.image)?),
        "package" => {
            let catalog = source(&form.catalog)?;
            let key = CatalogKey { source: catalog.clone(), is_carried: form.carried };
            let default_channel = match app.catalogs.open(&key, app.place.directory(), false) {
                CatalogState::Ready(view) => {
                    view.package(&form.package).map(|p| p.default_channel.clone())
                }
                _ => None,
            };
            Addition::Package {
                catalog,
                package: filled(&form.package).ok_or("expected a package, found none")?,
                channel: filled(&form.channel),
                default_channel: default_channel.unwrap_or_default(),
            }
        }
        "chart" => Addition::Chart {
            repository: filled(&form.repository).ok_or("expected a repository, found none")?,
            name: filled(&form.package).ok_or("expected a chart, found none")?,
            version: filled(&form.version),
        },
        "releases" => Addition::Releases {
            channel: filled(&form.channel).ok_or("expected a channel, found none")?,
            from: version(&form.from)?,
            to: version(&form.to)?,
            shortest_path: form.shortest && !form.from.trim().is_empty(),
        },
        other => return Err(format!("unknown kind {other:?}")),
    })
}

/// Whether the registry of an image has it, in words.
pub(super) fn existence(app: &App, source: &ImageSource) -> Option<String> {
    let ImageSource::Registry(image) = source else { return None };
    Some(match app.catalogs.exists(image) {
        Ok(true) => format!("The registry has {image}."),
        Ok(false) => format!("The registry does not have {image}."),
        Err(why) => format!("Whether {image} exists could not be determined: {why}."),
    })
}

pub(super) fn has_comments(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with('#'))
}

/// What became of a text, and what to know before it is saved.
pub(super) fn changed_message(what: &str, checked: Option<String>, had_comments: bool) -> String {
    let comments = "Comments of the file are not in this text; they are lost if you save it.";
    let comments = had_comments.then(|| comments.to_owned());
    [Some(what.to_owned()), checked, comments].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Adds a selection to a configuration and opens the result in the editor. Nothing is saved yet.
pub(super) async fn add_selection(
    State(app): State<Arc<App>>,
    Form(form): Form<AddForm>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Configurations };
    let drafted = blocking(&app, move |app| {
        let (base, text) = match ConfigurationName::from_str(&form.name) {
            Ok(name) => {
                let stored = configurations::read(&app.place.workspace, &name)?;
                (stored.digest.to_string(), stored.text)
            }
            Err(_) => (String::new(), EMPTY.to_owned()),
        };
        let addition = addition(app, &form).map_err(Fault::Absent)?;
        let checked = match &addition {
            Addition::Image(source) => existence(app, source),
            _ => None,
        };
        let has_comments = has_comments(&text);
        let text = add(&text, addition).map_err(Fault::Absent)?;
        Ok((EditedText { name: form.name, base, text }, has_comments, checked))
    });
    match drafted.await {
        Ok((edited, has_comments, checked)) => {
            let message = changed_message("Added, not saved yet.", checked, has_comments);
            editor_page(&app, StatusCode::OK, &edited, Some(Message::Draft(&message))).await
        }
        Err(fault) => responder.fault("Add to a configuration", &fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_is_an_image_with_tag_or_digest_or_a_layout() {
        assert!(matches!(source("q.io/a/b:1"), Ok(ImageSource::Registry(_))));
        assert!(matches!(source(" docker://q.io/a/b:1 "), Ok(ImageSource::Registry(_))));
        assert!(matches!(source("oci:///data/x"), Ok(ImageSource::Layout(_))));
        for text in ["", "q.io/a/b", "oci://", "<script>", "--help"] {
            assert!(source(text).is_err(), "{text}");
        }
    }
}
