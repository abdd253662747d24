//! The second phase of a deletion: a preview, and its confirmation.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Form, Query, State};
use axum::response::Response;
use http::StatusCode;
use mirror_plan::Target;
use serde::Deserialize;

use super::browse::ListQuery;
use super::respond::{SectionResponder, blocking, see_other};
use super::start::begin;
use crate::action::Action;
use crate::app::App;
use crate::pages::{self, layout::Section};
use crate::shell_line::ShellLine;
use crate::view::deletion::{self, Preview, PreviewQuery};
use crate::view::{Fault, chain};

#[derive(Debug, Deserialize)]
pub(super) struct Confirmation {
    digest: String,
    target: String,
}

async fn page(
    app: &Arc<App>,
    status: StatusCode,
    query: PreviewQuery,
    problem: Option<&str>,
) -> Response {
    let responder = SectionResponder { app, section: Section::Start };
    let found = blocking(app, {
        let query = query.clone();
        move |app| deletion::read(&app.place.workspace, &query)
    });
    match found.await {
        Ok(preview) => {
            let commands = preview.iter().map(|preview| line(app, preview)).collect();
            let content = pages::deletion::content(preview.as_ref(), &query, problem);
            responder.with_status(status, "Deletion", commands, content)
        }
        Err(fault) => responder.fault("Deletion", &fault),
    }
}

fn line(app: &App, preview: &Preview) -> ShellLine {
    let list = preview.list.display().to_string();
    let target = format!("docker://{}", preview.target);
    let words =
        ["delete", "--delete-yaml-file", &list, "--workspace", &app.place.argument, &target];
    ShellLine::oc_mirror(words)
}

pub(super) async fn preview(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Response {
    let page_number = query.page();
    let kept_page = query.kept.parse().unwrap_or(1);
    let query = PreviewQuery { words: query.q, page: page_number, kept_page };
    page(&app, StatusCode::OK, query, None).await
}

/// Deletes what was displayed, if the list is unchanged and the target was typed.
pub(super) async fn confirm(
    State(app): State<Arc<App>>,
    Form(form): Form<Confirmation>,
) -> Response {
    let found = blocking(&app, move |app| {
        let preview = deletion::read(&app.place.workspace, &PreviewQuery::default())?;
        let preview = preview.ok_or_else(|| Fault::Absent("plan not found".to_owned()))?;
        Ok(confirmed(&preview, &form))
    });
    let action = match found.await {
        Ok(action) => action,
        Err(fault) => {
            return SectionResponder { app: &app, section: Section::Start }
                .fault("Deletion", &fault);
        }
    };
    let problem = match action {
        Ok(action) => match begin(&app, action).await {
            Ok(number) => return see_other(&format!("/jobs/{number}")),
            Err(Fault::Absent(problem) | Fault::Failed(problem)) => problem,
        },
        Err(problem) => problem,
    };
    page(&app, StatusCode::BAD_REQUEST, PreviewQuery::default(), Some(&problem)).await
}

fn confirmed(preview: &Preview, form: &Confirmation) -> Result<Action, String> {
    if preview.digest.to_string() != form.digest {
        return Err(
            "the plan changed since this page was opened; review it again. Nothing was deleted"
                .to_owned(),
        );
    }
    let typed = form.target.trim();
    if typed.strip_prefix("docker://").unwrap_or(typed) != preview.target {
        return Err(format!("expected {}, found {typed:?}. Nothing was deleted", preview.target));
    }
    let target = Target::from_str(&preview.target).map_err(|error| chain(&error))?;
    Ok(Action::Delete { list: preview.list.clone(), target })
}
