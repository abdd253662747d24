//! Pauses, resumes and stops the run in progress, through its control socket.

use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::Response;
use serde::Deserialize;
use workspace::ControlRequest;

use super::respond::{SectionResponder, blocking, see_other};
use crate::app::App;
use crate::pages::layout::Section;
use crate::view::Fault;

#[derive(Deserialize)]
pub(super) struct Control {
    request: Request,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Request {
    Pause,
    Resume,
    Stop,
}

pub(super) async fn control(State(app): State<Arc<App>>, Form(form): Form<Control>) -> Response {
    let request = match form.request {
        Request::Pause => ControlRequest::Pause,
        Request::Resume => ControlRequest::Resume,
        Request::Stop => ControlRequest::Stop,
    };
    let sent = blocking(&app, move |app| {
        let sent = app.place.workspace.control(request);
        sent.map_err(|error| Fault::failed("sending the request to the run", &error))
    });
    match sent.await {
        Ok(_) => see_other("/"),
        Err(fault) => {
            SectionResponder { app: &app, section: Section::Overview }.fault("Run", &fault)
        }
    }
}
