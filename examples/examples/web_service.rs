//! A web service whose requests lock: an invoice is charged once, on any number of machines.
//!
//! `cargo run -p redlock-examples --example web_service`
#![allow(clippy::print_stdout)] // prints each step

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::{Router, http::StatusCode, routing::post};
use redlock_examples::{Nodes, send};
use redlock_redis_rs::{ErrorKind, Lease, Redlock};
use tokio::sync::{Semaphore, watch};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};

/// A bank that completes a charge when it has a permit.
struct Bank {
    permits: Semaphore,
    charged: Mutex<BTreeSet<u64>>,
}

impl Bank {
    fn new(permits: usize) -> Self {
        Self { permits: Semaphore::new(permits), charged: Mutex::default() }
    }

    fn has_charged(&self, invoice: u64) -> bool {
        self.charged.lock().expect("no request panics").contains(&invoice)
    }

    async fn charge(&self, invoice: u64) {
        self.permits.acquire().await.expect("the semaphore is open").forget();
        let is_first = self.charged.lock().expect("no request panics").insert(invoice);
        assert!(is_first, "invoice {invoice} is charged twice");
    }
}

#[derive(Clone)]
struct App {
    redlock: Redlock,
    bank: Arc<Bank>,
}

async fn charge(State(app): State<App>, Path(invoice): Path<u64>) -> StatusCode {
    let work = async move |_lease: Lease| {
        // The lock only puts requests in an order. The one before may have charged the invoice.
        if !app.bank.has_charged(invoice) {
            app.bank.charge(invoice).await;
        }
    };
    let lock = app.redlock.lock(format!("invoice:{invoice}"), Duration::from_secs(5));
    match lock.max_wait(Duration::from_millis(200)).run(work).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) if error.kind() == ErrorKind::Contended => StatusCode::CONFLICT,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Serves until `stop`. Then it completes the requests in progress and releases their locks.
async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let redlock = app.redlock.clone();
    let router = Router::new().route("/invoices/{invoice}/charge", post(charge)).with_state(app);
    axum::serve(listener, router).with_graceful_shutdown(stop).await?;
    // This blocks only while a node is unreachable; pending cleanup on that node is then left to the TTL.
    match timeout(Duration::from_secs(5), redlock.close()).await {
        Ok(0) => Ok(()),
        _ => Err(io::Error::other("some keys stay until they expire")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, bank) = (Nodes::new(), Arc::new(Bank::new(0)));
    let (mut machines, mut requests) = (JoinSet::new(), JoinSet::new());
    let (stop, stopped) = watch::channel(());
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        requests.spawn(async move { send(address, "POST /invoices/42/charge", "", "").await });
        let (app, mut stopped) = (App { redlock: nodes.program()?, bank: bank.clone() }, stopped.clone());
        machines.spawn(serve(listener, app, async move { drop(stopped.changed().await) }));
    }

    // One of the two requests holds the lock while the bank is busy.
    let response = timeout(Duration::from_secs(10), requests.join_next());
    let conflict = response.await?.ok_or("there are two requests")???;
    println!("other request: {conflict}");
    assert_eq!("HTTP/1.1 409 Conflict", conflict);

    // Both machines stop. The one with the request in progress completes it first.
    drop(stop);
    bank.permits.add_permits(1);
    let charged = requests.join_next().await.ok_or("there are two requests")???;
    println!("request with the lock: {charged}");
    assert_eq!("HTTP/1.1 204 No Content", charged);
    machines.join_all().await.into_iter().collect::<Result<(), _>>()?;
    assert!(nodes.are_empty(), "no key is left");
    Ok(())
}

#[test]
fn one_request_charges_and_the_other_returns_a_conflict() {
    main().expect("the example succeeds");
}

/// The bank is so fast that the second request waits for the first one.
#[tokio::test]
async fn an_invoice_is_charged_once() {
    let nodes = Nodes::new();
    let app = App { redlock: nodes.program().expect("the nodes are valid"), bank: Arc::new(Bank::new(2)) };
    let both = [(); 2].map(|()| charge(State(app.clone()), Path(42)));
    for charged in both {
        assert_eq!(StatusCode::NO_CONTENT, charged.await);
    }
    assert_eq!(1, app.bank.permits.available_permits());
}

#[test]
fn the_documentation_shows_this_code() {
    let (before, _) =
        include_str!("web_service.rs").split_once("\n#[tokio::main").expect("the file has a main function");
    let (_, shown) = before.split_once("#[derive(Clone)]").expect("it has a state");
    assert!(include_str!("../../docs/patterns.md").contains(shown), "docs/patterns.md shows something else");
}
