//! The stories, and the choices and bounds of forms.

use std::ops::RangeInclusive;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::search::{self, MOST_SEEDS};
use crate::setup::{self, Kind, Setup};
use crate::stories::stories;
use crate::subject::Subject;

pub(super) async fn catalog() -> impl IntoResponse {
    let stories = stories().into_iter().map(|story| {
        let (id, title) = (story.id, story.title);
        json!({ "id": id, "title": title, "address": Subject::Story(story).address() })
    });
    let kinds = Kind::ALL.map(|(name, kind)| {
        json!({ "name": name, "label": kind.label(), "node": kind.has_node(), "client": kind.has_client() })
    });
    let searches = search::KINDS.map(|(name, label)| json!({ "name": name, "label": label }));
    let catalog = json!({
        "stories": stories.collect::<Vec<_>>(),
        "kinds": kinds,
        "searches": searches,
        "blank": Setup::default(),
        "attempts": setup::attempts(),
        "bounds": {
            "nodes": bounds(&setup::NODES),
            "clients": bounds(&setup::CLIENTS),
            "ttl": bounds(&setup::TTL),
            "delay": bounds(&setup::DELAY),
            "drift": bounds(&setup::DRIFT),
            "lasts": bounds(&setup::LASTS),
            "waits": bounds(&setup::WAITS),
            "rests": bounds(&setup::RESTS),
            "step": bounds(&setup::STEP),
            "seeds": bounds(&(1..=MOST_SEEDS)),
        },
    });
    ([(header::CONTENT_TYPE, "application/json")], catalog.to_string())
}

fn bounds<T: Copy + Into<Value>>(bounds: &RangeInclusive<T>) -> [Value; 2] {
    [(*bounds.start()).into(), (*bounds.end()).into()]
}
