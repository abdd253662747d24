//! Starts commands as processes of their own.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Form, Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use mirror_plan::{Mode, Target};
use serde::Deserialize;

use super::browse::ListQuery;
use super::respond::{SectionResponder, blocking, see_other};
use crate::action::Action;
use crate::app::App;
use crate::pages::layout::Section;
use crate::pages::{self, jobs::JobDetail, start::StartForms};
use crate::shell_line::ShellLine;
use crate::view::configurations::{self, ConfigurationName, ConfigurationRow};
use crate::view::paging::Page;
use crate::view::plan::{self, PlanQuery, PlanView};
use crate::view::{Fault, chain, runs};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StartForm {
    workflow: String,
    config: String,
    target: String,
    dry_run: bool,
}

/// What a form requests, or what is wrong with it.
fn action(
    form: &StartForm,
    config: impl Fn(&ConfigurationName) -> PathBuf,
) -> Result<Action, String> {
    let config = || match ConfigurationName::from_str(&form.config) {
        Ok(name) => Ok(config(&name)),
        Err(_) if form.config.is_empty() => Err("expected a configuration, found none".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let target = || Target::from_str(form.target.trim()).map_err(|error| chain(&error));
    let dry_run = form.dry_run;
    Ok(match form.workflow.as_str() {
        "mirrorToDisk" => Action::MirrorToDisk { config: config()?, dry_run },
        "diskToMirror" => Action::DiskToMirror { config: config()?, target: target()?, dry_run },
        "mirrorToMirror" => {
            Action::MirrorToMirror { config: config()?, target: target()?, dry_run }
        }
        "verify" => Action::Verify,
        "repair" => Action::Repair,
        "planDeletion" => Action::PlanDeletion { config: config()?, target: target()? },
        other => return Err(format!("unknown workflow {other:?}")),
    })
}

struct Offered {
    configurations: Vec<ConfigurationRow>,
    target: String,
    is_busy: bool,
}

fn offered(app: &App) -> Result<Offered, Fault> {
    let workspace = &app.place.workspace;
    let target = runs::list(workspace)?.into_iter().find_map(|run| run.target);
    let holder =
        workspace.is_locked().map_err(|error| Fault::failed("reading the lock", &error))?;
    Ok(Offered {
        configurations: configurations::list(workspace)?,
        target: target.unwrap_or_default(),
        is_busy: holder,
    })
}

async fn form_page(
    app: &Arc<App>,
    status: StatusCode,
    problem: Option<&str>,
    target: &str,
) -> Response {
    let responder = SectionResponder { app, section: Section::Start };
    match blocking(app, offered).await {
        Ok(offered) => {
            let forms = StartForms {
                configurations: &offered.configurations,
                target: if target.is_empty() { &offered.target } else { target },
                problem,
                is_busy: offered.is_busy,
            };
            let place = &app.place.argument;
            let lines = [
                vec!["-c", "FILE", place],
                vec!["-c", "FILE", "--from", place, "docker://REGISTRY"],
                vec!["-c", "FILE", "--workspace", place, "docker://REGISTRY"],
                vec!["verify", place],
                vec!["repair", place],
                vec![
                    "delete",
                    "--generate",
                    "-c",
                    "FILE",
                    "--workspace",
                    place,
                    "docker://REGISTRY",
                ],
            ];
            let commands = lines.into_iter().map(ShellLine::oc_mirror).collect();
            responder.with_status(status, "Start", commands, pages::start::content(&forms))
        }
        Err(fault) => responder.fault("Start", &fault),
    }
}

pub(super) async fn forms(State(app): State<Arc<App>>) -> Response {
    form_page(&app, StatusCode::OK, None, "").await
}

pub(super) async fn start(State(app): State<Arc<App>>, Form(form): Form<StartForm>) -> Response {
    let path = |name: &ConfigurationName| configurations::path(&app.place.workspace, name);
    let action = match action(&form, path) {
        Ok(action) => action,
        Err(problem) => {
            return form_page(&app, StatusCode::BAD_REQUEST, Some(&problem), &form.target).await;
        }
    };
    match begin(&app, action).await {
        Ok(number) => see_other(&format!("/jobs/{number}")),
        Err(Fault::Failed(problem) | Fault::Absent(problem)) => {
            form_page(&app, StatusCode::INTERNAL_SERVER_ERROR, Some(&problem), &form.target).await
        }
    }
}

/// Starts an action; the number of its job.
pub(super) async fn begin(app: &Arc<App>, action: Action) -> Result<u64, Fault> {
    blocking(app, move |app| {
        let arguments = action.arguments(&app.place.argument, &app.registries);
        let started = app.jobs.start(action.name(), &arguments);
        started.map_err(|error| Fault::failed("starting the command", &error))
    })
    .await
}

pub(super) async fn jobs(State(app): State<Arc<App>>, Query(query): Query<ListQuery>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Start };
    let list =
        |app: &App| app.jobs.list().map_err(|error| Fault::failed("reading the jobs", &error));
    match blocking(&app, list).await {
        Ok(jobs) => {
            let page = Page::of(jobs, query.page());
            let status = ShellLine::oc_mirror(["status", &app.place.argument]);
            responder.page("Jobs", vec![status], pages::jobs::list(&page))
        }
        Err(fault) => responder.fault("Jobs", &fault),
    }
}

/// What the newest dry run planned.
pub(super) async fn plan(State(app): State<Arc<App>>, Query(query): Query<ListQuery>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Start };
    let page = query.page();
    let query = PlanQuery { words: query.q, page };
    let found = blocking(&app, {
        let query = query.clone();
        move |app| {
            let free = workspace::free_space(app.place.directory()).ok();
            Ok((plan::read(&app.place.workspace, &query)?, free))
        }
    });
    match found.await {
        Ok((found, free)) => {
            let commands = found.iter().map(|plan| execution(&app, plan)).collect();
            responder.page("Plan", commands, pages::plan::content(found.as_ref(), &query, free))
        }
        Err(fault) => responder.fault("Plan", &fault),
    }
}

/// The command line that executes a plan.
fn execution(app: &App, plan: &PlanView) -> ShellLine {
    let mut words = vec!["--plan".to_owned(), plan.path.display().to_string()];
    let place = app.place.argument.clone();
    match (&plan.target, plan.mode) {
        (None, _) => words.push(place),
        (Some(target), mode) => {
            let flag = if mode == Mode::DiskToMirror { "--from" } else { "--workspace" };
            words.extend([flag.to_owned(), place, format!("docker://{target}")]);
        }
    }
    ShellLine::oc_mirror(words)
}

pub(super) async fn job(State(app): State<Arc<App>>, Path(number): Path<u64>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Start };
    let title = format!("Job {number}");
    let read = move |app: &App| super::job_events::read(&app.jobs, number);
    match blocking(&app, read).await {
        Ok((job, output, is_cut)) => {
            let line = ShellLine::oc_mirror(job.record.arguments.iter().cloned());
            let detail = JobDetail { job: &job, output: &output, is_cut };
            responder.page(&title, vec![line], pages::jobs::detail(&detail))
        }
        Err(fault) => responder.fault(&title, &fault),
    }
}

pub(super) async fn stop(State(app): State<Arc<App>>, Path(number): Path<u64>) -> Response {
    let stop = move |app: &App| {
        app.jobs.stop(number).map_err(|error| Fault::failed("stopping the job", &error))
    };
    match blocking(&app, stop).await {
        Ok(()) => see_other(&format!("/jobs/{number}")),
        Err(fault) => SectionResponder { app: &app, section: Section::Start }.fault("Job", &fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(workflow: &str, config: &str, target: &str) -> Result<Action, String> {
        let form = StartForm {
            workflow: workflow.into(),
            config: config.into(),
            target: target.into(),
            dry_run: false,
        };
        action(&form, |name| PathBuf::from(format!("/c/{name}")))
    }

    #[test]
    fn a_form_becomes_an_action_or_the_reason_why_not() {
        assert_eq!(parsed("verify", "", ""), Ok(Action::Verify));
        let pushed = parsed("diskToMirror", "isc.yaml", " reg:5000/ocp ").unwrap();
        let Action::DiskToMirror { config, target, .. } = pushed else { panic!("{pushed:?}") };
        assert_eq!((config, target.to_string()), ("/c/isc.yaml".into(), "reg:5000/ocp".into()));
        for (workflow, config, target, expected) in [
            ("mirrorToDisk", "", "", "expected a configuration, found none"),
            ("mirrorToDisk", "../../etc/passwd", "", "invalid name"),
            ("mirrorToDisk", "--help.yaml", "", "/c/--help.yaml"),
            ("diskToMirror", "isc.yaml", "", "the target is empty"),
            ("diskToMirror", "isc.yaml", "reg/ns:tag", "names an image"),
            ("diskToMirror", "isc.yaml", "file:///x", "is not a registry"),
            ("reboot", "", "", "unknown workflow"),
        ] {
            let result = format!("{:?}", parsed(workflow, config, target));
            assert!(result.contains(expected), "{workflow}: {result}");
        }
    }
}
