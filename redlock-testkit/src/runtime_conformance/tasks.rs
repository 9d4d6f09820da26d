//! Background tasks: [`Runtime::spawn`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use redlock_core::runtime::Runtime;

const SHORT: Duration = Duration::from_millis(5);

fn signal(done: oneshot::Sender<()>) {
    // An error means that the case has failed already.
    let _ = done.send(());
}

pub(super) async fn a_spawned_task_runs(runtime: Arc<dyn Runtime>) {
    let (done, finished) = oneshot::channel();
    runtime.spawn(Box::pin(async { signal(done) }));
    assert!(finished.await.is_ok(), "spawn: the future runs in the background");
}

pub(super) async fn a_spawned_task_runs_without_any_handle(runtime: Arc<dyn Runtime>) {
    let (go, waiting) = oneshot::channel();
    let (done, finished) = oneshot::channel();
    runtime.spawn(Box::pin(async {
        let _ = waiting.await;
        signal(done);
    }));
    drop(runtime);
    signal(go);
    assert!(finished.await.is_ok(), "spawn: a task continues when the handle of the runtime is dropped");
}

pub(super) async fn a_spawned_task_sleeps_and_spawns(runtime: Arc<dyn Runtime>) {
    let (done, finished) = oneshot::channel();
    let outer = Arc::clone(&runtime);
    runtime.spawn(Box::pin(async move {
        outer.sleep(SHORT).await;
        let inner = Arc::clone(&outer);
        outer.spawn(Box::pin(async move {
            inner.sleep(SHORT).await;
            signal(done);
        }));
    }));
    assert!(finished.await.is_ok(), "spawn: a task can sleep, and spawn another task");
}

pub(super) async fn spawn_does_not_run_the_task_itself(runtime: Arc<dyn Runtime>) {
    let (done, finished) = oneshot::channel();
    let is_spawning = Arc::new(AtomicBool::new(true));
    let (caller, during) = (thread::current().id(), Arc::clone(&is_spawning));
    runtime.spawn(Box::pin(async move {
        let is_inside = during.load(Ordering::SeqCst) && thread::current().id() == caller;
        let _ = done.send(is_inside);
    }));
    is_spawning.store(false, Ordering::SeqCst);
    assert_eq!(Ok(false), finished.await, "spawn: does not block, so it does not poll the future");
}

pub(super) async fn spawn_on_another_thread_runs_or_drops_the_task(runtime: Arc<dyn Runtime>) {
    let (done, finished) = oneshot::channel();
    let spawned = thread::spawn(move || {
        runtime.spawn(Box::pin(async { signal(done) }));
    });
    assert!(spawned.join().is_ok(), "spawn: does not panic outside the runtime");
    // The end of the case proves it: the channel completes in both cases.
    let _ = finished.await;
}

/// A future that owns a value until it is dropped, even after its completion.
struct Owns(#[allow(dead_code)] oneshot::Sender<()>); // dropped with the future

impl Future for Owns {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

pub(super) async fn a_completed_task_is_dropped(runtime: Arc<dyn Runtime>) {
    let (owned, dropped) = oneshot::channel();
    runtime.spawn(Box::pin(Owns(owned)));
    // A runtime that leaks its tasks never completes this.
    assert!(dropped.await.is_err(), "the sender is only dropped");
}
