//! Prints events from `tracing`, and counters and histograms from `metrics`.
//!
//! `docs/monitoring.md` lists all names. The nodes are fake ones. A real service differs only in the destination of the
//! output.
#![allow(clippy::print_stdout)] // an example shows what it does
#![allow(clippy::disallowed_methods)] // an application uses its runtime directly

use std::time::Duration;

use metrics_util::debugging::{DebuggingRecorder, Snapshotter};
use redlock_core::{Error, KeepAlive, Redlock, TokioRuntime};
use redlock_testkit::MemoryNode;

const TTL: Duration = Duration::from_millis(300);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false).init();
    let metrics = record();

    let nodes = ["a", "b", "c"].map(MemoryNode::new);
    let redlock = Redlock::builder(TokioRuntime::new())
        .nodes(nodes.iter().cloned().map(Into::into))
        .owner("host-1:4242")
        .build()?;
    let guard = redlock.lock("invoice:42", TTL).keep_alive(KeepAlive::new()).await?;
    assert!(redlock.lock("invoice:42", TTL).try_now().await?.is_none());
    tokio::time::sleep(TTL).await; // keep-alive renews the lock meanwhile
    nodes.iter().for_each(MemoryNode::clear); // another client deletes the key
    println!("{}", guard.lost().await);
    redlock.close().await;

    for (key, _, _, value) in metrics.snapshot().into_vec() {
        println!("{}: {value:?}", key.key());
    }
    Ok(())
}

/// Installs a recorder in place of an exporter such as `metrics-exporter-prometheus`.
fn record() -> Snapshotter {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("no other recorder is installed");
    redlock_core::describe_metrics();
    snapshotter
}
