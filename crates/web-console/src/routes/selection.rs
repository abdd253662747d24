//! Changes of the text in the editor by buttons beside it. Nothing is saved.

use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;

use super::configurations::{EditedText, editor_page, unix_lines};
use super::respond::blocking;
use super::select::{changed_message, existence, has_comments, source};
use crate::additions::{Addition, add};
use crate::app::App;
use crate::pages::configurations::Message;
use crate::selection::{ItemPlace, remove};
use crate::sizes::Wanted;
use crate::view::Fault;
use crate::view::configurations::selected;

/// The form of the editor, sent by one of its buttons.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Changed {
    name: String,
    base: String,
    text: String,
    image: String,
    /// `image`, or `remove PLACE NAME`.
    change: String,
}

enum Change {
    AddImage,
    Remove(ItemPlace, String),
}

impl Changed {
    fn split(self) -> (EditedText, Result<Change, String>, String) {
        let Self { name, base, text, image, change } = self;
        let words: Vec<&str> = change.splitn(3, ' ').collect();
        let parsed = match words.as_slice() {
            ["image"] => Ok(Change::AddImage),
            ["remove", place, name] => match place.parse() {
                Ok(place) => Ok(Change::Remove(place, (*name).to_owned())),
                Err(()) => Err(format!("unknown place {place:?}")),
            },
            _ => Err(format!("unknown change {change:?}")),
        };
        (unix_lines(EditedText { name, base, text }), parsed, image)
    }
}

/// Adds an image to the text, or removes an item from it.
pub(super) async fn change(State(app): State<Arc<App>>, Form(form): Form<Changed>) -> Response {
    let (edited, change, image) = form.split();
    let had_comments = has_comments(&edited.text);
    let text = edited.text.clone();
    let changed = blocking(&app, move |app| {
        let changed = match change.map_err(Fault::Failed)? {
            Change::AddImage => {
                let image = source(&image).map_err(Fault::Failed)?;
                let checked = existence(app, &image);
                let text = add(&text, Addition::Image(image)).map_err(Fault::Failed)?;
                (text, "Added, not saved yet.", checked)
            }
            Change::Remove(place, name) => {
                let text = remove(&text, place, &name).map_err(Fault::Failed)?;
                (text, "Removed, not saved yet.", None)
            }
        };
        Ok(changed)
    });
    match changed.await {
        Ok((text, what, checked)) => {
            let edited = EditedText { text, ..edited };
            let message = changed_message(what, checked, had_comments);
            editor_page(&app, StatusCode::OK, &edited, Some(Message::Draft(&message))).await
        }
        Err(Fault::Failed(why) | Fault::Absent(why)) => {
            let why = format!("not changed: {why}");
            let message = Some(Message::NotSaved(&why));
            editor_page(&app, StatusCode::BAD_REQUEST, &edited, message).await
        }
    }
}

/// Determines the sizes of what the text selects, saved or not.
pub(super) async fn measure(
    State(app): State<Arc<App>>,
    Form(edited): Form<EditedText>,
) -> Response {
    let edited = unix_lines(edited);
    let set = selected(&edited.name, &edited.text);
    let started = blocking(&app, move |app| {
        let set = set.ok_or_else(|| Fault::Failed("the configuration has errors".to_owned()))?;
        app.sizes.start(&set, Wanted::All).map_err(Fault::Failed)
    });
    match started.await {
        Ok(()) => {
            let message = "Sizes are being determined. The text is not saved by this.";
            editor_page(&app, StatusCode::OK, &edited, Some(Message::Draft(message))).await
        }
        Err(Fault::Failed(why) | Fault::Absent(why)) => {
            let why = format!("sizes are not determined: {why}");
            let message = Some(Message::NotSaved(&why));
            editor_page(&app, StatusCode::BAD_REQUEST, &edited, message).await
        }
    }
}
