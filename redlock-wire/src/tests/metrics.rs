//! Tests of the gauge of connected nodes.

use std::cell::Cell;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::*;

/// The recorder of this test, which returns the change of a gauge since the last look.
struct Seen {
    recorder: Snapshotter,
    value: Cell<Option<f64>>,
}

impl Seen {
    /// Returns the value for the fake server; `None` if it was never set.
    fn connected(&self) -> Option<f64> {
        let metrics = self.recorder.snapshot().into_vec();
        let found = metrics.into_iter().find(|(key, ..)| key.key().name() == "redlock_node_connected");
        if let Some((key, .., DebugValue::Gauge(change))) = found {
            let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!(vec![("node", "fake")], labels);
            self.value.set(Some(self.value.get().unwrap_or_default() + change.into_inner()));
        }
        self.value.get()
    }
}

#[test]
fn the_gauge_counts_the_connections_of_a_node() {
    let recorder = DebuggingRecorder::new();
    let seen = Seen { recorder: recorder.snapshotter(), value: Cell::new(None) };
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    ::metrics::with_local_recorder(&recorder, || {
        paused.block_on(async {
            let (fake, one) = node();
            assert_eq!(None, seen.connected(), "no connection was attempted");
            fake.is(|behavior| behavior.accepts = Err("refused"));
            unavailable(lock(&one).await);
            assert_eq!(Some(0.0), seen.connected(), "a node that was never up has a value");
            fake.is(|behavior| behavior.accepts = Ok(true));
            fake.until(|fake| fake.open() == 1).await;
            lock(&one).await.unwrap();
            assert_eq!(Some(1.0), seen.connected());
            let other = Node::new(fake.clone(), &Options::new(Arc::new(TokioRuntime::new())));
            lock(&other).await.unwrap();
            assert_eq!(Some(2.0), seen.connected(), "of another client in the same process");
            fake.is(|behavior| behavior.accepts = Err("refused"));
            fake.cut();
            settles(|| seen.connected() == Some(0.0)).await;
            fake.is(|behavior| behavior.accepts = Ok(true));
            settles_in_time(&fake, 2).await;
            assert_eq!(Some(2.0), seen.connected());
            drop((one, other));
            settles(|| seen.connected() == Some(0.0)).await;
        });
    });
}

/// Waits until the nodes have reconnected and published their connections.
async fn settles_in_time(fake: &Fake, open: usize) {
    fake.until(|fake| fake.open() == open).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}
