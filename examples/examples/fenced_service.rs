//! A web service that rejects stale writers, with axum: an extractor reads the fencing token from a header of every
//! request under the lock, including requests that only read.
//!
//! `cargo run -p redlock-examples --example fenced_service`
#![allow(clippy::print_stdout)] // prints each step

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::{StatusCode, request::Parts};
use axum::{Router, routing::get};
use redlock_examples::{Nodes, send};
use redlock_redis_rs::FencingToken;
use tokio::net::TcpListener;

const TTL: Duration = Duration::from_millis(500);

/// The fencing token of a request, from its header `Fencing-Token`.
struct Fence(FencingToken);

impl<S: Sync> FromRequestParts<S> for Fence {
    type Rejection = StatusCode;

    /// A request without a token is rejected, because it cannot be distinguished from a stale one.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, StatusCode> {
        let header = parts.headers.get("fencing-token").and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.parse().ok()).and_then(FencingToken::new);
        token.map(Self).ok_or(StatusCode::PRECONDITION_REQUIRED)
    }
}

/// The document and the greatest token so far, under one mutex, so check and write are one step.
#[derive(Default)]
struct Document(Mutex<(Option<FencingToken>, String)>);

impl Document {
    /// Accesses the document, unless it has seen a greater token.
    fn access<T>(
        &self,
        Fence(token): &Fence,
        action: impl FnOnce(&mut String) -> T,
    ) -> Result<T, StatusCode> {
        // No action of this service panics between two writes.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, document) = &mut *state;
        if *seen > Some(*token) {
            return Err(StatusCode::PRECONDITION_FAILED);
        }
        *seen = Some(*token);
        Ok(action(document))
    }
}

/// Registers the token, too: a client that reads first rejects older tokens from then on.
async fn read(fence: Fence, State(document): State<Arc<Document>>) -> Result<String, StatusCode> {
    document.access(&fence, |document| document.clone())
}

async fn write(fence: Fence, State(document): State<Arc<Document>>, body: String) -> Result<(), StatusCode> {
    document.access(&fence, |document| *document = body)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let service = listener.local_addr()?;
    let router = Router::new().route("/document", get(read).put(write)).with_state(Arc::default());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let request = async |method: &str, token: Option<FencingToken>, body: &str| {
        let header = token.map(|token| format!("fencing-token: {token}\r\n")).unwrap_or_default();
        send(service, &format!("{method} /document"), &header, body).await
    };

    let nodes = Nodes::new();
    let (first, second) = (nodes.program()?, nodes.program()?);

    // The first client reads and is paused. It does not run until the comment "continues".
    let guard = first.lock("document", TTL).fenced().await?;
    let earlier = guard.fencing_token();
    assert_eq!("HTTP/1.1 200 OK", request("GET", earlier, "").await?);

    // Its lock expires. The second client acquires it and reads.
    let guard = second.lock("document", TTL).fenced().await?;
    let later = guard.fencing_token();
    assert_eq!("HTTP/1.1 200 OK", request("GET", later, "").await?);

    // The first client continues as if it still held the lock.
    let response = request("PUT", earlier, "by the first").await?;
    println!("first client: {response}");
    assert_eq!("HTTP/1.1 412 Precondition Failed", response);

    let response = request("PUT", later, "by the second").await?;
    println!("second client: {response}");
    assert_eq!("HTTP/1.1 200 OK", response);

    assert_eq!("HTTP/1.1 428 Precondition Required", request("PUT", None, "without a lock").await?);
    Ok(())
}

#[test]
fn the_stale_writer_is_rejected() {
    main().expect("the example succeeds");
}
