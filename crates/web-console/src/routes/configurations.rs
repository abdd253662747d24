//! Configurations: listed, edited, checked, saved.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use release::channel::{ChannelName, Minor};
use serde::Deserialize;

use super::respond::{SectionResponder, blocking, html_page, see_other};
use crate::app::App;
use crate::pages::configurations::{Editor, Message};
use crate::pages::parts::address;
use crate::pages::selection::SelectionView;
use crate::pages::{self, layout::Section};
use crate::selection;
use crate::shell_line::ShellLine;
use crate::sizes::Wanted;
use crate::view::Fault;
use crate::view::configurations::{
    self, Checked, ConfigurationName, ConfigurationRow, Saved, StartOrigin, check,
};

pub(super) const EMPTY: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  additionalImages: []\n";
/// A minor version to start from; the reader replaces it.
const MINOR: &str = "4.20";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    name: String,
    saved: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NewQuery {
    run: Option<u64>,
    archive: bool,
    minor: String,
    delete: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EditedText {
    pub(super) name: String,
    pub(super) base: String,
    pub(super) text: String,
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Configurations };
    let found = blocking(&app, |app| {
        let workspace = &app.place.workspace;
        let sized = |row: ConfigurationRow| {
            let stored = configurations::read(workspace, &row.name)?;
            let set = configurations::selected("", &stored.text);
            let estimate = set.and_then(|set| app.sizes.estimate(&set).ok());
            Ok((row, estimate))
        };
        let rows: Result<Vec<_>, Fault> =
            configurations::list(workspace)?.into_iter().map(sized).collect();
        Ok((rows?, configurations::starts(workspace)?))
    });
    match found.await {
        Ok((rows, starts)) => {
            let init = ShellLine::oc_mirror(["init", "--version", MINOR]);
            responder.page(
                "Configurations",
                vec![init],
                pages::configurations::list(&rows, &starts, MINOR),
            )
        }
        Err(fault) => responder.fault("Configurations", &fault),
    }
}

/// What is wrong with a text, and what it selects if nothing is.
async fn judged(app: &Arc<App>, edited: &EditedText) -> (Checked, Option<SelectionView>) {
    let checked = check(&edited.name, &edited.text);
    let set = configurations::selected(&edited.name, &edited.text);
    let Some(set) = set else { return (checked, None) };
    let view = blocking(app, move |app| {
        Ok(SelectionView {
            items: selection::items(&set),
            estimate: app.sizes.estimate(&set).map_err(Fault::Failed)?,
            free: workspace::free_space(app.place.directory()).ok(),
            archive_size: set.archive_size,
        })
    });
    (checked, view.await.ok())
}

pub(super) async fn editor_page(
    app: &Arc<App>,
    status: StatusCode,
    edited: &EditedText,
    message: Option<Message<'_>>,
) -> Response {
    let (checked, selection) = judged(app, edited).await;
    let editor = Editor {
        name: &edited.name,
        text: &edited.text,
        base: &edited.base,
        checked: &checked,
        selection: selection.as_ref(),
        message,
    };
    let commands = ConfigurationName::from_str(&edited.name).ok().map(|name| {
        let path = configurations::path(&app.place.workspace, &name).display().to_string();
        ShellLine::oc_mirror(["-c", &path, "--dry-run", &app.place.argument])
    });
    let title = if edited.name.is_empty() { "New configuration" } else { &edited.name };
    let responder = SectionResponder { app, section: Section::Configurations };
    let content = pages::configurations::editor(&editor);
    responder.with_status(status, title, commands.into_iter().collect(), content)
}

/// For names that no configuration can have. They are not repeated on the page.
fn not_found() -> Fault {
    Fault::Absent("configuration not found".to_owned())
}

pub(super) async fn edit(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Configurations };
    let Ok(name) = ConfigurationName::from_str(&named.name) else {
        return responder.fault("Configuration", &not_found());
    };
    let found = blocking(&app, move |app| {
        let stored = configurations::read(&app.place.workspace, &name)?;
        // Not on a disconnected side: no server would respond.
        if let Some(set) = configurations::selected("", &stored.text)
            && app.place.is_connected().unwrap_or(false)
            && let Err(why) = app.sizes.start(&set, Wanted::New)
        {
            tracing::debug!("sizes are not determined: {why}");
        }
        Ok(stored)
    });
    match found.await {
        Ok(stored) => {
            let base = stored.digest.to_string();
            let edited = EditedText { name: named.name, base, text: stored.text };
            let message = named.saved.then_some(Message::Saved);
            editor_page(&app, StatusCode::OK, &edited, message).await
        }
        Err(fault) => responder.fault("Configuration", &fault),
    }
}

pub(super) async fn create(State(app): State<Arc<App>>, Query(query): Query<NewQuery>) -> Response {
    match blocking(&app, move |app| new_text(app, &query)).await {
        Ok((name, text)) => {
            let edited = EditedText { name, base: String::new(), text };
            let message = Some(Message::Draft("Not saved yet."));
            editor_page(&app, StatusCode::OK, &edited, message).await
        }
        Err(fault) => SectionResponder { app: &app, section: Section::Configurations }
            .fault("New configuration", &fault),
    }
}

/// A name to suggest, and the text to start with.
fn new_text(app: &App, query: &NewQuery) -> Result<(String, String), Fault> {
    let workspace = &app.place.workspace;
    if let Ok(name) = ConfigurationName::from_str(&query.delete) {
        let stored = configurations::read(workspace, &name)?;
        let set = image_set::parse_image_set(&query.delete, &stored.text)
            .map_err(|findings| Fault::Failed(findings.to_string()))?;
        let text = set.to_delete().to_yaml();
        let text = text.map_err(|error| Fault::failed("writing the configuration", &error))?;
        return Ok((format!("delete-{name}"), text));
    }
    Ok(match query {
        NewQuery { run: Some(number), .. } => {
            (String::new(), configurations::start_text(workspace, StartOrigin::Run(*number))?)
        }
        NewQuery { archive: true, .. } => {
            (String::new(), configurations::start_text(workspace, StartOrigin::Archive)?)
        }
        NewQuery { minor, .. } if !minor.is_empty() => {
            (String::new(), image_set_draft::starter(parse_minor(minor)?))
        }
        _ => (String::new(), EMPTY.to_owned()),
    })
}

fn parse_minor(text: &str) -> Result<Minor, Fault> {
    let channel = format!("stable-{text}");
    let name = ChannelName::parse(&channel);
    name.map(|name| name.minor)
        .ok_or_else(|| Fault::Absent("expected a minor version such as 4.20".to_owned()))
}

pub(super) async fn save(State(app): State<Arc<App>>, Form(edited): Form<EditedText>) -> Response {
    let edited = unix_lines(edited);
    let not_saved = async |edited: &EditedText, status, why: &str| {
        editor_page(&app, status, edited, Some(Message::NotSaved(why))).await
    };
    let name = match ConfigurationName::from_str(&edited.name) {
        Ok(name) => name,
        Err(error) => {
            let why = format!("not saved: {error}");
            return not_saved(&edited, StatusCode::BAD_REQUEST, &why).await;
        }
    };
    let base = edited.base.parse().ok();
    let text = edited.text.clone();
    let saved =
        blocking(&app, move |app| configurations::save(&app.place.workspace, &name, &text, base));
    match saved.await {
        Ok(Saved::Done) => {
            see_other(&address("/configuration", &[("name", &edited.name), ("saved", "true")]))
        }
        Ok(Saved::Changed(stored)) => {
            let why = "not saved: the file was changed elsewhere since you opened it. Save again to replace it with the text below, or open it to see the other text";
            let edited = EditedText { base: stored.digest.to_string(), ..edited };
            not_saved(&edited, StatusCode::CONFLICT, why).await
        }
        Err(Fault::Absent(why) | Fault::Failed(why)) => {
            let why = format!("not saved: {why}");
            not_saved(&edited, StatusCode::INTERNAL_SERVER_ERROR, &why).await
        }
    }
}

/// Forms send the line ends of Windows.
pub(super) fn unix_lines(edited: EditedText) -> EditedText {
    EditedText { text: edited.text.replace("\r\n", "\n"), ..edited }
}

/// The findings and the selection alone, for the script of the editor.
pub(super) async fn findings(
    State(app): State<Arc<App>>,
    Form(edited): Form<EditedText>,
) -> Response {
    let (checked, selection) = judged(&app, &unix_lines(edited)).await;
    html_page(StatusCode::OK, pages::configurations::parts(&checked, selection.as_ref()))
}

/// The same as a whole page, for browsers without scripts.
pub(super) async fn check_page(
    State(app): State<Arc<App>>,
    Form(edited): Form<EditedText>,
) -> Response {
    let message = Message::Draft("Checked, not saved.");
    editor_page(&app, StatusCode::OK, &unix_lines(edited), Some(message)).await
}

pub(super) async fn download(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    let responder = SectionResponder { app: &app, section: Section::Configurations };
    let Ok(name) = ConfigurationName::from_str(&named.name) else {
        return responder.fault("Configuration", &not_found());
    };
    let file = format!("attachment; filename=\"{name}\"");
    match blocking(&app, move |app| configurations::read(&app.place.workspace, &name)).await {
        Ok(stored) => {
            let headers =
                [(CONTENT_TYPE, "application/yaml".to_owned()), (CONTENT_DISPOSITION, file)];
            (headers, stored.text).into_response()
        }
        Err(fault) => responder.fault("Configuration", &fault),
    }
}
