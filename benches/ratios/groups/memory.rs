//! The memory of a held lock.

use redlock_benches::InstantNode;
use redlock_core::Redlock;
use tokio::runtime::Builder;

use crate::contender::TTL;
use crate::report::Row;

const LOCKS: usize = 10_000;

pub(crate) fn run() -> Vec<Row> {
    let bytes = [1, 3, 5, 9]
        .map(|nodes| (nodes, bytes_per_lock(&InstantNode::redlock(InstantNode::granting(nodes)))));
    let (_, of_one) = bytes[0];
    let row = |(nodes, bytes)| Row {
        group: "Memory",
        what: format!("held lock, N = {nodes}"),
        against: "N = 1".to_owned(),
        ratios: vec![bytes / of_one],
        figure: format!("{bytes:.0} bytes"),
        goal: None,
        charted: false,
    };
    bytes.into_iter().map(row).collect()
}

#[allow(clippy::cast_precision_loss)] // a few megabytes
fn bytes_per_lock(redlock: &Redlock) -> f64 {
    let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
    let mut guards = Vec::with_capacity(LOCKS);
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            for number in 0..LOCKS {
                guards.push(redlock.lock(format!("lock-{number}"), TTL).await.expect("the lock is free"));
            }
        });
    });
    let bytes = counted.bytes_current as f64 / LOCKS as f64;
    runtime.block_on(async { drop(guards) });
    bytes
}
