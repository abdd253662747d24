//! Pages that show the workspace.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::respond::{SectionResponder, blocking};
use crate::app::App;
use crate::pages::{self, layout::Section, parts::OUTCOMES};
use crate::shell_line::ShellLine;
use crate::view::images::{self, ImageQuery, KINDS};
use crate::view::live::Follower;
use crate::view::paging::Page;
use crate::view::runs::RunQuery;
use crate::view::{Fault, archives, overview, resources, runs};

/// What lists are searched for. Anything that is not understood is as if it were not there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    pub(super) q: String,
    page: String,
    /// The page of a second list.
    pub(super) kept: String,
    kind: String,
    outcome: String,
}

impl ListQuery {
    pub(super) fn page(&self) -> usize {
        self.page.parse().unwrap_or(1)
    }
}

fn status(app: &App) -> ShellLine {
    ShellLine::oc_mirror(["status", &app.place.argument])
}

pub(super) async fn overview(State(app): State<Arc<App>>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Overview };
    match blocking(&app, |app| overview::read(&app.place)).await {
        Ok(found) => {
            responder.page("Overview", vec![status(&app)], pages::overview::content(&found))
        }
        Err(fault) => responder.fault("Overview", &fault),
    }
}

pub(super) async fn runs(State(app): State<Arc<App>>, Query(query): Query<ListQuery>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Runs };
    match blocking(&app, |app| runs::list(&app.place.workspace)).await {
        Ok(list) => {
            let page = Page::of(list, query.page());
            responder.page("Runs", vec![status(&app)], pages::runs::list(&page))
        }
        Err(fault) => responder.fault("Runs", &fault),
    }
}

pub(super) async fn run(
    State(app): State<Arc<App>>,
    Path(number): Path<u64>,
    Query(query): Query<ListQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Runs };
    let title = format!("Run {number}");
    let outcome = OUTCOMES.iter().find(|(_, key, _)| *key == query.outcome);
    let page = query.page();
    let query = RunQuery { words: query.q, outcome: outcome.map(|(known, ..)| *known), page };
    let found = blocking(&app, move |app| {
        let workspace = &app.place.workspace;
        let detail = runs::read(workspace, number, &query)?;
        let now = Follower::new(workspace.clone()).read()?;
        Ok((detail, now, query))
    });
    match found.await {
        Ok((detail, now, query)) => {
            // The run itself, as it was started; else the command that shows it.
            let command = match detail.arguments.split_first() {
                Some((_, arguments)) => ShellLine::oc_mirror(arguments.iter().cloned()),
                None => status(&app),
            };
            let is_newest = now.run.as_ref().is_some_and(|run| run.record.number == number);
            let live = is_newest.then_some(&now).filter(|now| now.is_running());
            responder.page(&title, vec![command], pages::runs::detail(&detail, &query, live))
        }
        Err(fault) => responder.fault(&title, &fault),
    }
}

pub(super) async fn images(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Images };
    let kind = KINDS.iter().find(|(_, key, _)| *key == query.kind).map(|(kind, ..)| *kind);
    let page = query.page();
    let query = ImageQuery { words: query.q, kind, page };
    match blocking(&app, |app| Ok((app.images()?, app.users()?))).await {
        Ok((index, users)) => {
            let page = index.find(&query);
            let list = ShellLine::oc_mirror(["verify", &app.place.argument, "-o", "json"]);
            responder.page("Images", vec![list], pages::images::list(&index, &page, &query, &users))
        }
        Err(fault) => responder.fault("Images", &fault),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    origin: String,
    name: String,
}

pub(super) async fn image(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Images };
    let origin = named.origin;
    let found = blocking(&app, {
        let origin = origin.clone();
        move |app| {
            let detail = images::detail(&app.place.workspace, &*app.images()?, &origin)?;
            Ok((detail, app.users()?))
        }
    });
    match found.await {
        Ok((detail, users)) => {
            let command = match &detail.layout {
                Some(layout) => {
                    ShellLine::new("skopeo", ["inspect", &format!("oci:{}", layout.display())])
                }
                None => ShellLine::oc_mirror(["verify", &app.place.argument, "-o", "json"]),
            };
            responder.page(
                &origin,
                vec![command],
                pages::images::detail(&detail, users.of(&detail.row.origin)),
            )
        }
        Err(fault) => responder.fault("Image", &fault),
    }
}

pub(super) async fn archives(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Archives };
    match blocking(&app, |app| archives::read(&app.place.workspace)).await {
        Ok(list) => {
            let page = Page::of(list.archives.clone(), query.page());
            let verify = ShellLine::oc_mirror(["verify", &app.place.argument]);
            responder.page("Archives", vec![verify], pages::archives::content(&list, &page))
        }
        Err(fault) => responder.fault("Archives", &fault),
    }
}

pub(super) async fn resources(State(app): State<Arc<App>>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Resources };
    match blocking(&app, |app| resources::list(&app.place.workspace)).await {
        Ok(list) => {
            let directory = list.directory.display().to_string();
            let show = ShellLine::new("ls", [directory]);
            responder.page("Cluster resources", vec![show], pages::resources::list(&list))
        }
        Err(fault) => responder.fault("Cluster resources", &fault),
    }
}

pub(super) async fn resource(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Resources };
    let name = named.name.clone();
    match blocking(&app, move |app| resources::read(&app.place.workspace, &name)).await {
        Ok(text) => {
            let show = ShellLine::new("cat", [text.path.display().to_string()]);
            responder.page(&named.name, vec![show], pages::resources::text(&text))
        }
        Err(fault) => responder.fault("Cluster resource", &fault),
    }
}

pub(super) async fn absent(State(app): State<Arc<App>>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Overview };
    let fault = Fault::Absent("Page not found.".to_owned());
    responder.fault("Not found", &fault)
}
