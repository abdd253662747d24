//! Style sheet, scripts and icon, which are part of the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

const ASSETS: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../assets/console.js")),
    ("editor.js", "text/javascript; charset=utf-8", include_str!("../assets/editor.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
