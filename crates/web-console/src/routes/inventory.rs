//! A configuration for what a cluster needs next, from its inventory.

use std::io::Write as _;
use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::configurations::{EditedText, editor_page};
use super::respond::SectionResponder;
use super::select::lookup_flags;
use crate::app::App;
use crate::pages::configurations::Message;
use crate::pages::layout::Section;
use crate::view::Fault;

/// An inventory has up to 32 MiB; forms write some letters as three.
pub(super) const MAX_BODY: usize = 100 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InventoryForm {
    inventory: String,
    to: String,
    carried: bool,
}

/// Makes a configuration as `oc-mirror init --for` does, and opens it in the editor.
pub(super) async fn draft(
    State(app): State<Arc<App>>,
    Form(form): Form<InventoryForm>,
) -> Response {
    match text(&app, form).await {
        Ok(text) => {
            let edited = EditedText { text, ..EditedText::default() };
            let message = "Created from the inventory, not saved yet. The comments name the reasons, and what you have to decide.";
            editor_page(&app, StatusCode::OK, &edited, Some(Message::Draft(message))).await
        }
        Err(why) => {
            let responder = SectionResponder { app: &app, section: Section::Configurations };
            responder.fault("For a cluster", &Fault::Failed(why))
        }
    }
}

async fn text(app: &App, form: InventoryForm) -> Result<String, String> {
    let keep = |error: std::io::Error| format!("keeping the inventory: {error}");
    // Readable by this user alone: it names what a cluster runs.
    let mut file = NamedTempFile::with_prefix("inventory-").map_err(keep)?;
    file.write_all(form.inventory.as_bytes()).and_then(|()| file.flush()).map_err(keep)?;
    let mut words = vec!["init".to_owned(), format!("--for={}", file.path().display())];
    let to = form.to.trim();
    if !to.is_empty() {
        words.push(format!("--to={to}"));
    }
    words.extend(lookup_flags(app, form.carried, "--from"));
    let text = app.commands.output(&words).await;
    // The name of the file means nothing to the reader.
    let text =
        text.map_err(|why| why.replace(&file.path().display().to_string(), "the inventory"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
