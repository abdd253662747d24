//! Turns requests into pages. Thin: `view` decides what is displayed, `pages` how.

mod assets;
mod browse;
mod configurations;
mod control;
mod deletion;
mod events;
mod guard;
mod inventory;
mod job_events;
mod package_sizes;
mod respond;
mod select;
mod selection;
mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};

use crate::app::App;

/// All pages, behind the check of every request.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(browse::overview))
        .route("/login", post(guard::log_in))
        .route("/assets/{name}", get(assets::asset))
        .route("/events", get(events::events))
        .route("/control", post(control::control))
        .route("/configurations", get(configurations::list))
        .route("/configuration", get(configurations::edit))
        .route("/configuration/new", get(configurations::create))
        .route("/configuration/save", post(configurations::save))
        .route("/configuration/check", post(configurations::findings))
        .route("/configuration/check-page", post(configurations::check_page))
        .route("/configuration/download", get(configurations::download))
        .route("/configuration/add", post(select::add_selection))
        .route("/configuration/change", post(selection::change))
        .route("/configuration/measure", post(selection::measure))
        .route(
            "/configuration/inventory",
            post(inventory::draft).layer(DefaultBodyLimit::max(inventory::MAX_BODY)),
        )
        .route("/operators", get(select::packages))
        .route("/operator", get(select::package))
        .route("/operator/measure", post(package_sizes::measure))
        .route("/operator/icon", get(select::icon))
        .route("/operator/diagram", get(select::operator_diagram))
        .route("/charts", get(select::chart_page))
        .route("/releases", get(select::release_page))
        .route("/releases/diagram", get(select::release_diagram))
        .route("/start", get(start::forms).post(start::start))
        .route("/jobs", get(start::jobs))
        .route("/jobs/{number}", get(start::job))
        .route("/jobs/{number}/stop", post(start::stop))
        .route("/jobs/{number}/events", get(job_events::events))
        .route("/plan", get(start::plan))
        .route("/deletion", get(deletion::preview).post(deletion::confirm))
        .route("/runs", get(browse::runs))
        .route("/runs/{number}", get(browse::run))
        .route("/images", get(browse::images))
        .route("/image", get(browse::image))
        .route("/archives", get(browse::archives))
        .route("/resources", get(browse::resources))
        .route("/resource", get(browse::resource))
        .fallback(browse::absent)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}
