//! A service that refuses requests of who comes too late: every request under the lock carries the fencing token in a
//! header, those that only read too.
//!
//! Requests and responses are plain values here, and stand for those of any protocol.
//!
//! `cargo run -p redlock-examples --example fenced_service`
#![allow(clippy::print_stdout)] // it tells the story

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlock_examples::Nodes;
use redlock_redis_rs::FencingToken;

const TTL: Duration = Duration::from_millis(500);

/// `GET /document` or `PUT /document`, with the header `Fencing-Token`.
struct Request<'a> {
    fencing_token: Option<&'a str>,
    /// Of a `PUT`.
    body: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Response {
    Ok(String),
    /// 412: greater tokens have been here.
    PreconditionFailed,
    /// 428: a request without a token cannot be told from one that comes too late.
    PreconditionRequired,
}

/// The document, and the greatest token that has been here: under one mutex, so that check and write are one step.
#[derive(Default)]
struct Service(Mutex<(Option<FencingToken>, String)>);

impl Service {
    fn answer(&self, request: &Request<'_>) -> Response {
        let token = request.fencing_token.and_then(|header| header.parse().ok()).and_then(FencingToken::new);
        let Some(token) = token else { return Response::PreconditionRequired };
        // Nothing panics between the two writes below.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, document) = &mut *state;
        if *seen > Some(token) {
            return Response::PreconditionFailed;
        }
        // Of a `GET` too: whoever reads first and writes later has shut out older tokens by its read.
        *seen = Some(token);
        if let Some(body) = request.body {
            body.clone_into(document);
        }
        Response::Ok(document.clone())
    }

    fn get(&self, fencing_token: &str) -> Response {
        self.answer(&Request { fencing_token: Some(fencing_token), body: None })
    }

    fn put(&self, fencing_token: &str, body: &str) -> Response {
        self.answer(&Request { fencing_token: Some(fencing_token), body: Some(body) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, service) = (Nodes::new(), Service::default());
    let (first, second) = (nodes.program()?, nodes.program()?);

    // The first one reads, and is paused: nothing of it runs until the next comment that names it.
    let guard = first.lock("document", TTL).fenced().await?;
    let earlier = guard.fencing_token().ok_or("a fenced lock has a token")?.to_string();
    assert_eq!(Response::Ok(String::new()), service.get(&earlier));

    // Its lock expires, and the second one gets it, and reads.
    let guard = second.lock("document", TTL).fenced().await?;
    let later = guard.fencing_token().ok_or("a fenced lock has a token")?.to_string();
    assert_eq!(Response::Ok(String::new()), service.get(&later));

    // The first one goes on as if it still had the lock.
    let response = service.put(&earlier, "by the first");
    println!("the first one, with {earlier}: {response:?}");
    assert_eq!(Response::PreconditionFailed, response);

    let response = service.put(&later, "by the second");
    println!("the second one, with {later}: {response:?}");
    assert_eq!(Response::Ok("by the second".to_owned()), response);

    let response = service.answer(&Request { fencing_token: None, body: Some("without a lock") });
    assert_eq!(Response::PreconditionRequired, response);
    Ok(())
}

#[test]
fn the_stale_writer_is_refused() {
    main().expect("every step is as it is told");
}
