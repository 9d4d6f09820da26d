//! What operators see: events through `tracing`, counters and histograms through `metrics`. `docs/observability.md` has
//! all names. The nodes are fake ones; a real service differs in where the output goes.
#![allow(clippy::print_stdout)] // an example shows what it does
#![allow(clippy::disallowed_methods)] // an application asks its runtime itself

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
    assert!(redlock.try_lock("invoice:42", TTL).await?.is_none());
    tokio::time::sleep(TTL).await; // it is renewed meanwhile
    nodes.iter().for_each(MemoryNode::clear); // somebody deletes it
    println!("{}", guard.lost().await);
    redlock.close().await;

    for (key, _, _, value) in metrics.snapshot().into_vec() {
        println!("{}: {value:?}", key.key());
    }
    Ok(())
}

/// In place of an exporter, such as `metrics-exporter-prometheus`.
fn record() -> Snapshotter {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("it is the first recorder");
    redlock_core::describe_metrics();
    snapshotter
}
