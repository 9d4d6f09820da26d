//! What core costs by itself: on nodes in memory that answer at once.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use redlock_core::{LockNode, Redlock, TokioRuntime};
use redlock_testkit::MemoryNode;

const TTL: Duration = Duration::from_secs(30);

fn redlock(nodes: usize) -> Redlock {
    let node = |number| Arc::new(MemoryNode::new(format!("memory-{number}"))) as Arc<dyn LockNode>;
    Redlock::builder(TokioRuntime::new())
        .nodes((0..nodes).map(node))
        .build()
        .expect("nodes with labels of their own")
}

fn core(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = criterion.benchmark_group("core");
    for nodes in [1, 3, 5, 9] {
        let redlock = redlock(nodes);
        group.bench_function(BenchmarkId::new("lock and release", nodes), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let guard = redlock.lock("a", TTL).await.expect("nobody else has it");
                    guard.release().await.expect("all nodes answer")
                })
            });
        });
        let guard = runtime.block_on(async { redlock.lock("b", TTL).await }).expect("nobody else has it");
        group.bench_function(BenchmarkId::new("refused", nodes), |bencher| {
            bencher.iter(|| {
                runtime
                    .block_on(async { redlock.try_lock("b", TTL).await.expect("all nodes answer").is_none() })
            });
        });
        drop(guard);
    }
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
