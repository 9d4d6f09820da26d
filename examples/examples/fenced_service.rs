//! A service that rejects stale writers: every request under the lock carries the fencing token in a header, including
//! requests that only read.
//!
//! Requests and responses are plain values here. They represent those of any protocol.
//!
//! `cargo run -p redlock-examples --example fenced_service`
#![allow(clippy::print_stdout)] // prints each step

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlock_examples::Nodes;
use redlock_redis_rs::FencingToken;

const TTL: Duration = Duration::from_millis(500);

/// A `GET /document` or `PUT /document`, with the header `Fencing-Token`.
struct Request<'a> {
    fencing_token: Option<&'a str>,
    /// The new content of a `PUT`.
    body: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Response {
    Ok(String),
    /// 412: the service has seen a greater token.
    PreconditionFailed,
    /// 428: a request without a token cannot be distinguished from a stale one.
    PreconditionRequired,
}

/// The document and the greatest token so far, under one mutex, so check and write are one step.
#[derive(Default)]
struct Service(Mutex<(Option<FencingToken>, String)>);

impl Service {
    fn respond(&self, request: &Request<'_>) -> Response {
        let token = request.fencing_token.and_then(|header| header.parse().ok()).and_then(FencingToken::new);
        let Some(token) = token else { return Response::PreconditionRequired };
        // No code between the two writes below can panic.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, document) = &mut *state;
        if *seen > Some(token) {
            return Response::PreconditionFailed;
        }
        // This applies to a `GET` too: a client that reads first rejects older tokens from then on.
        *seen = Some(token);
        if let Some(body) = request.body {
            body.clone_into(document);
        }
        Response::Ok(document.clone())
    }

    fn get(&self, fencing_token: &str) -> Response {
        self.respond(&Request { fencing_token: Some(fencing_token), body: None })
    }

    fn put(&self, fencing_token: &str, body: &str) -> Response {
        self.respond(&Request { fencing_token: Some(fencing_token), body: Some(body) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, service) = (Nodes::new(), Service::default());
    let (first, second) = (nodes.program()?, nodes.program()?);

    // The first client reads and is paused. It does not run until the comment "continues".
    let guard = first.lock("document", TTL).fenced().await?;
    let earlier = guard.fencing_token().ok_or("a fenced lock has a token")?.to_string();
    assert_eq!(Response::Ok(String::new()), service.get(&earlier));

    // Its lock expires. The second client acquires it and reads.
    let guard = second.lock("document", TTL).fenced().await?;
    let later = guard.fencing_token().ok_or("a fenced lock has a token")?.to_string();
    assert_eq!(Response::Ok(String::new()), service.get(&later));

    // The first client continues as if it still held the lock.
    let response = service.put(&earlier, "by the first");
    println!("first client, with {earlier}: {response:?}");
    assert_eq!(Response::PreconditionFailed, response);

    let response = service.put(&later, "by the second");
    println!("second client, with {later}: {response:?}");
    assert_eq!(Response::Ok("by the second".to_owned()), response);

    let response = service.respond(&Request { fencing_token: None, body: Some("without a lock") });
    assert_eq!(Response::PreconditionRequired, response);
    Ok(())
}

#[test]
fn the_stale_writer_is_rejected() {
    main().expect("the example succeeds");
}
