//! The cost of the core alone, on nodes that reply at once.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use redlock_benches::InstantNode;
use redlock_core::node::Token;

const TTL: Duration = Duration::from_secs(30);

fn core(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = criterion.benchmark_group("core");
    for nodes in [1, 3, 5, 9] {
        let redlock = InstantNode::redlock(InstantNode::granting(nodes));
        group.bench_function(BenchmarkId::new("lock and release", nodes), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let guard = redlock.lock("a", TTL).await.expect("the lock is free");
                    guard.release().await.expect("all nodes reply")
                })
            });
        });
        let redlock = InstantNode::redlock(InstantNode::denying(nodes, &Token::from_bytes("other")));
        group.bench_function(BenchmarkId::new("denied", nodes), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    redlock.lock("b", TTL).try_now().await.expect("all nodes reply").is_none()
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
