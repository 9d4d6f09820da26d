//! The routes of the page, and the bounds of a request.
//!
//! | Route | Reply |
//! |---|---|
//! | `GET /` and the files of the page | embedded in the program |
//! | `GET /api/catalog` | the stories, and the choices and bounds of forms |
//! | `POST /api/run` | a [`View`]; the body has an address or a setup |
//! | `GET /api/history?ADDRESS` | the history as text, byte for byte as from `scripts/simulate` |
//! | `POST /api/search` | the [`Progress`], one line each |
//!
//! The server accepts requests for a loopback name only, so that no web site can reach it by another name. It computes at
//! most two runs and one search at a time.

mod assets;
mod catalog;
mod guard;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::search::{Progress, Search};
use crate::setup::{Setup, within};
use crate::subject::Subject;
use crate::view::View;

/// The longest body of a request.
const LONGEST_BODY: usize = 64 * 1024;

/// The widths of pictures.
const WIDTHS: std::ops::RangeInclusive<f64> = 240.0..=2_400.0;

/// The number of seeds between two lines of progress.
const STEP: u64 = 5;

/// The limits of concurrent work.
#[derive(Clone, Debug)]
struct Bounds {
    runs: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

/// A request that is not carried out, with a sentence for the page.
#[derive(Debug)]
struct Rejection(StatusCode, String);

/// A request to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    /// The query of an address.
    address: Option<String>,
    /// A setup that was edited.
    setup: Option<Setup>,
    /// The width of the picture.
    width: f64,
}

/// Serves the page until the program ends.
///
/// # Errors
///
/// Errors of the listener.
pub async fn serve(listener: TcpListener) -> std::io::Result<()> {
    axum::serve(listener, routes()).await
}

/// Returns all routes.
fn routes() -> Router {
    let bounds = Bounds { runs: Arc::new(Semaphore::new(2)), searches: Arc::new(Semaphore::new(1)) };
    Router::new()
        .route("/api/catalog", get(catalog::catalog))
        .route("/api/run", post(run))
        .route("/api/history", get(history))
        .route("/api/search", post(search))
        .fallback(get(assets::asset))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(from_fn(guard::guard))
        .with_state(bounds)
}

async fn run(State(bounds): State<Bounds>, body: Bytes) -> Result<Response, Rejection> {
    let request: RunRequest = read(&body)?;
    within("the width of the picture", request.width, &WIDTHS).map_err(bad_request)?;
    let subject = match (request.address, request.setup) {
        (Some(address), None) => Subject::parse(&address).map_err(bad_request)?,
        (None, Some(setup)) => {
            setup.check().map_err(bad_request)?;
            Subject::Own(setup)
        }
        _ => return Err(bad_request("a run needs either an address or a setup".into())),
    };
    let permit = acquire_permit(&bounds.runs).await;
    let view =
        compute(permit, move || View::of(&subject, request.width).map(|view| serde_json::to_vec(&view)));
    let json = view.await?.map_err(bad_request)?.map_err(|error| failed(&error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

async fn history(State(bounds): State<Bounds>, RawQuery(query): RawQuery) -> Result<String, Rejection> {
    let subject = Subject::parse(&query.unwrap_or_default()).map_err(bad_request)?;
    let permit = acquire_permit(&bounds.runs).await;
    compute(permit, move || subject.run().map(|report| report.history.to_string()))
        .await?
        .map_err(bad_request)
}

async fn search(State(bounds): State<Bounds>, body: Bytes) -> Result<Response, Rejection> {
    let search: Search = read(&body)?;
    within("the width of the picture", search.width, &WIDTHS).map_err(bad_request)?;
    search.check().map_err(bad_request)?;
    let Ok(permit) = Arc::clone(&bounds.searches).try_acquire_owned() else {
        let text = "another search is running: stop it, or wait until it ends";
        return Err(Rejection(StatusCode::TOO_MANY_REQUESTS, text.into()));
    };
    let (sender, mut receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        search.run(|progress| match progress {
            Progress::Tried(tried) if tried % STEP != 0 => !sender.is_closed(),
            progress => sender.blocking_send(line(&progress)).is_ok(),
        });
    });
    let lines = stream::poll_fn(move |context| receiver.poll_recv(context)).map(Ok::<_, Infallible>);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

fn line(progress: &Progress) -> Bytes {
    let mut line = serde_json::to_vec(progress).expect("progress has only strings and finite numbers");
    line.push(b'\n');
    line.into()
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Rejection> {
    serde_json::from_slice(body).map_err(|error| bad_request(format!("the request is not readable: {error}")))
}

async fn acquire_permit(bound: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(bound).acquire_owned().await.expect("the semaphore is never closed")
}

/// Computes a result on another thread. The permit is returned when the work has ended, even if the request was dropped.
async fn compute<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Rejection> {
    let work = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    });
    work.await.map_err(|error| failed(&error.to_string()))
}

fn bad_request(text: String) -> Rejection {
    Rejection(StatusCode::BAD_REQUEST, text)
}

fn failed(error: &str) -> Rejection {
    Rejection(StatusCode::INTERNAL_SERVER_ERROR, format!("the run failed: {error}"))
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}
