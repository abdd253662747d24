//! Responses.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use maud::{Markup, html};

use crate::app::App;
use crate::pages::layout::{self, Document, Section};
use crate::shell_line::ShellLine;
use crate::view::Fault;

pub(super) fn html_page(status: StatusCode, markup: Markup) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], markup.into_string()).into_response()
}

/// After a change: the page to show. `path` is one of the console's own.
pub(super) fn see_other(path: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response()
}

/// A page of a section, or why there is none.
pub(super) struct SectionResponder<'a> {
    pub(super) app: &'a App,
    pub(super) section: Section,
}

impl SectionResponder<'_> {
    pub(super) fn page(&self, title: &str, commands: Vec<ShellLine>, content: Markup) -> Response {
        self.with_status(StatusCode::OK, title, commands, content)
    }

    pub(super) fn fault(&self, title: &str, fault: &Fault) -> Response {
        let status = match fault {
            Fault::Absent(_) => StatusCode::NOT_FOUND,
            Fault::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        self.with_status(status, title, Vec::new(), html! { (layout::fault(fault)) })
    }

    pub(super) fn with_status(
        &self,
        status: StatusCode,
        title: &str,
        commands: Vec<ShellLine>,
        content: Markup,
    ) -> Response {
        let (section, place) = (self.section, &self.app.place);
        let document = Document { title, section, place, commands, content };
        html_page(status, layout::page(&document))
    }
}

/// Runs what reads the disk on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    read: impl FnOnce(&App) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || read(&app)).await;
    done.unwrap_or_else(|error| Err(Fault::failed("preparing the page", &error)))
}
