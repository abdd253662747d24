//! Checks every request before it reaches a page, and adds the headers that every response has.

use std::sync::Arc;

use axum::extract::{Form, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;
use url::form_urlencoded;

use super::respond::html_page;
use crate::access::Refusal;
use crate::app::App;
use crate::pages::login;

/// Nothing is loaded from elsewhere, nothing inline runs, no other site shows a page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    // Not `no-referrer`: browsers would send `Origin: null` with forms.
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

pub(super) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let token = match (request.method(), path) {
        (&Method::GET, "/") => token_of(request.uri().query().unwrap_or_default()),
        _ => None,
    };
    let is_public = path == "/login" || path.starts_with("/assets/") || token.is_some();
    let mut response = match app.access.check(request.method(), request.headers(), is_public) {
        Ok(()) => match token {
            Some(token) => logged_in(&app, &token),
            None => next.run(request).await,
        },
        Err(refusal) => {
            tracing::debug!(method = %request.method(), path, ?refusal, "request refused");
            let status = match refusal {
                Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
                Refusal::Origin => StatusCode::FORBIDDEN,
                Refusal::Session => StatusCode::UNAUTHORIZED,
            };
            html_page(status, login::refused(refusal))
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

fn token_of(query: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

fn logged_in(app: &App, token: &str) -> Response {
    let cookie = app.access.log_in(token).and_then(|cookie| HeaderValue::from_str(&cookie).ok());
    match cookie {
        Some(cookie) => {
            let mut response = html_page(StatusCode::OK, login::accepted());
            response.headers_mut().insert(SET_COOKIE, cookie);
            response
        }
        None => html_page(StatusCode::UNAUTHORIZED, login::form(true)),
    }
}

#[derive(Deserialize)]
pub(super) struct Login {
    token: String,
}

pub(super) async fn log_in(State(app): State<Arc<App>>, Form(form): Form<Login>) -> Response {
    logged_in(&app, form.token.trim())
}
