//! The metrics of a program, as Prometheus scrapes them.
//!
//! `cargo run -p redlock-examples --example prometheus`
//!
//! `PrometheusBuilder::install`, with the feature `http-listener` of the exporter, serves the page by itself. Here the
//! program serves it with axum, on the same port as everything else.
#![allow(clippy::print_stdout)] // prints the page

use std::error::Error;
use std::time::Duration;

use axum::{Router, routing::get};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use redlock_examples::Nodes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves the metrics. Prometheus scrapes them every few seconds, which also frees the memory of old samples.
fn router(recorder: PrometheusHandle) -> Router {
    let page = async move || {
        recorder.run_upkeep();
        recorder.render()
    };
    Router::new().route("/metrics", get(page))
}

/// Requests the page, as Prometheus does.
async fn scrape(listener: TcpListener, router: Router) -> Result<String, Box<dyn Error>> {
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    let server = tokio::spawn(async { axum::serve(listener, router).await });
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut page = String::new();
    client.read_to_string(&mut page).await?;
    server.abort();
    Ok(page)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let recorder = PrometheusBuilder::new().install_recorder()?;
    redlock_redis_rs::describe_metrics();

    let redlock = Nodes::new().program()?;
    let ttl = Duration::from_secs(10);
    let guard = redlock.lock("invoice:42", ttl).await?;
    assert!(redlock.lock("invoice:42", ttl).try_now().await?.is_none());
    redlock.lock("invoice:43", ttl).await?.release().await?;

    let page = scrape(TcpListener::bind("127.0.0.1:0").await?, router(recorder)).await?;
    println!("{page}");
    for line in [
        "# HELP redlock_locks_held Guards that exist",
        "redlock_locks_held{kind=\"exclusive\"} 1",
        "redlock_attempts_total{outcome=\"granted\"} 2",
        "redlock_releases_total{outcome=\"released\"} 1",
    ] {
        assert!(page.contains(line), "{line}");
    }
    guard.release().await?;
    Ok(())
}

#[test]
fn the_page_contains_the_metrics() {
    main().expect("the example succeeds");
}
