//! The ways in which services call `run`. Most of these tests verify that the code compiles.
#![allow(clippy::disallowed_methods)] // the tests spawn tasks as a service does

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::{LockNode, async_trait};
use redlock_core::{Error, KeepAlive, Lease, Redlock, RunError, TokioRuntime};
use redlock_testkit::MemoryNode;

const TTL: Duration = Duration::from_secs(10);

fn redlock() -> Redlock {
    let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    Redlock::builder(TokioRuntime::new()).nodes(nodes).build().unwrap()
}

#[tokio::test]
async fn a_closure_and_an_async_block() {
    let held = redlock().lock("a", TTL).run(|lease| async move { lease.is_held() }).await.unwrap();
    assert!(held);
}

#[tokio::test]
async fn an_async_closure() {
    assert!(redlock().lock("a", TTL).run(async |lease| lease.is_held()).await.unwrap());
    let name = String::from("a");
    // The owner of the name moves into the work.
    let length = redlock().lock(&*name, TTL).run(async move |_| name.len());
    assert_eq!(1, length.await.unwrap());
}

#[tokio::test]
async fn a_function_and_a_method() {
    async fn work(lease: Lease) -> bool {
        tokio::task::yield_now().await;
        lease.is_held()
    }
    struct Job(u32);
    impl Job {
        async fn work(&self, lease: Lease) -> u32 {
            tokio::task::yield_now().await;
            if lease.is_held() { self.0 } else { 0 }
        }
    }
    let (redlock, job) = (redlock(), Job(42));
    assert!(redlock.lock("a", TTL).run(work).await.unwrap());
    assert_eq!(42, redlock.lock("a", TTL).run(|lease| job.work(lease)).await.unwrap());
}

#[tokio::test]
async fn work_that_ignores_the_lease() {
    let work = async { 42 };
    assert_eq!(42, redlock().lock("a", TTL).run(|_| work).await.unwrap());
}

#[tokio::test]
async fn data_of_the_caller_is_borrowed_and_changed() {
    let (rows, mut sum) = (vec![1, 2, 3], 0);
    let redlock = redlock();
    let done = redlock.lock("a", TTL).run(async |_| {
        for row in &rows {
            tokio::task::yield_now().await;
            sum += row;
        }
    });
    done.await.unwrap();
    let add = &mut sum;
    redlock.lock("a", TTL).run(|_| async { *add += rows.len() }).await.unwrap();
    assert_eq!(9, sum);
}

#[tokio::test]
async fn question_marks_in_the_work() {
    async fn parsed(redlock: &Redlock, text: &str) -> Result<u32, Box<dyn std::error::Error>> {
        let doubled = async |_| Ok::<_, std::num::ParseIntError>(text.parse::<u32>()? * 2);
        Ok(redlock.lock("a", TTL).run(doubled).await??)
    }
    assert_eq!(42, parsed(&redlock(), "21").await.unwrap());
    assert!(parsed(&redlock(), "many").await.unwrap_err().is::<std::num::ParseIntError>());
}

/// The runtime has one thread.
#[tokio::test]
async fn work_that_stays_on_its_thread() {
    let shared = Rc::new(42);
    let redlock = redlock();
    let work = |_| {
        let shared = Rc::clone(&shared);
        async move {
            tokio::task::yield_now().await;
            *shared
        }
    };
    assert_eq!(42, redlock.lock("a", TTL).run(work).await.unwrap());
    let tasks = tokio::task::LocalSet::new();
    let task = tasks
        .spawn_local(async move { redlock.lock("a", TTL).run(async |_| Rc::strong_count(&shared)).await });
    tasks.await;
    assert_eq!(1, task.await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spawned() {
    let redlock = redlock();
    let (first, second, third) = (redlock.clone(), redlock.clone(), redlock.clone());
    let text = Arc::new(String::from("abc"));
    let shared = text.clone();
    let tasks = [
        tokio::spawn(async move { first.lock("a", TTL).run(async move |_| text.len()).await }),
        tokio::spawn(async move {
            let borrowed = [1, 2, 3];
            second
                .lock(["b", "c"], TTL)
                .run(async |lease: Lease| borrowed.len() * lease.resources().len() / 2)
                .await
        }),
        tokio::spawn(async move {
            let request = third.lock(String::from("d"), TTL).keep_alive(KeepAlive::new()).wait_unbounded();
            request.run(|_| async move { shared.len() }).await
        }),
        // The future itself is sent to the task. It owns all its data.
        tokio::spawn(redlock.lock("e", TTL).run(|_| async { 3 })),
        tokio::spawn(redlock.lock("f", TTL).run(async |_| 3)),
    ];
    for task in tasks {
        assert_eq!(3, task.await.unwrap().unwrap());
    }
}

/// A wrapper with which a service defines its locking in one place.
async fn with_lock<T, F, W>(redlock: &Redlock, work: F) -> Result<T, RunError<T>>
where
    F: FnOnce(Lease) -> W,
    W: Future<Output = T>,
{
    redlock.lock("a", TTL).run(work).await
}

/// A wrapper for async closures, which may borrow from values that they own.
///
/// It drops the output of work that finished without the lock.
async fn with_lock_async<T>(redlock: &Redlock, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, Error> {
    Ok(redlock.lock("a", TTL).run(async |lease| work(lease).await).await?)
}

/// A type for services with many kinds of work.
type Work<T> = Box<dyn FnOnce(Lease) -> Pin<Box<dyn Future<Output = T> + Send>> + Send>;

fn boxed<'a, T: Send + 'a>(
    redlock: &'a Redlock,
    work: Work<T>,
) -> Pin<Box<dyn Future<Output = Result<T, RunError<T>>> + Send + 'a>> {
    Box::pin(redlock.lock("a", TTL).run(work))
}

#[tokio::test]
async fn wrapped() {
    let redlock = redlock();
    assert!(with_lock(&redlock, |lease| async move { lease.is_held() }).await.unwrap());
    assert!(with_lock(&redlock, async |lease| lease.is_held()).await.unwrap());
    let mut seen = None;
    with_lock_async(&redlock, async |lease| seen = Some(lease.is_held())).await.unwrap();
    assert_eq!(Some(true), seen);
    let work: Work<bool> = Box::new(|lease| Box::pin(async move { lease.is_held() }));
    assert!(boxed(&redlock, work).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrapped_and_spawned() {
    fn in_background<T, F, W>(redlock: &Redlock, work: F) -> tokio::task::JoinHandle<Result<T, RunError<T>>>
    where
        T: Send + 'static,
        F: FnOnce(Lease) -> W + Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let redlock = redlock.clone();
        tokio::spawn(async move { with_lock(&redlock, work).await })
    }
    let redlock = redlock();
    let task = in_background(&redlock, |lease| async move {
        tokio::task::yield_now().await;
        lease.is_held()
    });
    assert!(task.await.unwrap().unwrap());
    assert!(in_background(&redlock, async |lease| lease.is_held()).await.unwrap().unwrap());
    let owned = redlock.clone();
    let task = tokio::spawn(async move { with_lock_async(&owned, async |lease| lease.is_held()).await });
    assert!(task.await.unwrap().unwrap());
    let work: Work<bool> = Box::new(|lease| Box::pin(async move { lease.is_held() }));
    assert!(tokio::spawn(async move { boxed(&redlock, work).await }).await.unwrap().unwrap());
}

/// A trait of a service with two implementations, one of which locks.
#[async_trait]
trait Invoices: Send + Sync {
    async fn number(&self, customer: &str) -> Result<usize, Error>;
}

struct Locked {
    redlock: Redlock,
    prefix: String,
}

#[async_trait]
impl Invoices for Locked {
    async fn number(&self, customer: &str) -> Result<usize, Error> {
        let name = format!("{}{customer}", self.prefix);
        let work = async |_| {
            tokio::task::yield_now().await;
            self.prefix.len() + customer.len()
        };
        Ok(self.redlock.lock(&*name, TTL).run(work).await?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_trait() {
    let invoices: Arc<dyn Invoices> = Arc::new(Locked { redlock: redlock(), prefix: "invoice:".into() });
    let shared = invoices.clone();
    let task = tokio::spawn(async move { shared.number("42").await });
    assert_eq!(10, task.await.unwrap().unwrap());
    assert_eq!(10, invoices.number("43").await.unwrap());
}

/// The future of `run` is `Send` if the work is, so wrappers can spawn it.
#[test]
fn the_future_is_send_if_the_work_is() {
    fn sent<T: Send>(_: &T) {}
    let redlock = redlock();
    sent(&redlock.lock("a", TTL).run(|_| async {}));
    sent(&redlock.lock("a", TTL).run(async |lease: Lease| lease.remaining()));
    sent(&redlock.lock("a", TTL).run(|_| async { Vec::<u8>::new() }));
}
