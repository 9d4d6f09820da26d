//! The files of the page, embedded in the program.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

macro_rules! page {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../../page/", $name)))),*]
    };
}

/// The files with their contents.
const FILES: [(&str, &str); 10] = page![
    "index.html",
    "style.css",
    "main.js",
    "api.js",
    "editor.js",
    "elements.js",
    "incidents.js",
    "picture.js",
    "player.js",
    "search.js"
];

pub(super) async fn asset(uri: Uri) -> Response {
    let name = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    match FILES.iter().find(|(other, _)| *other == name) {
        Some((name, text)) => ([(header::CONTENT_TYPE, content_type(name))], *text).into_response(),
        None => (StatusCode::NOT_FOUND, format!("there is no page /{name}")).into_response(),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    }
}
