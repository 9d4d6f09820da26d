//! Slots, leadership, jobs once a period, and locks of synchronous programs.

use std::future::pending;
use std::ops::ControlFlow;
use std::thread;

use redlock_core::blocking;
use redlock_core::{Candidate, JobOutcome, KeepAlive, Leadership, LeadershipState, Loss, ReleaseOutcome};

use super::*;
use crate::Adapter;
use crate::wait::soon;
use crate::warnings::Warnings;

/// Deletes a key on servers, as another client would.
fn delete(servers: &[RedisServer], key: &str) {
    for server in servers {
        server.command(&["DEL", key]);
    }
}

/// Two clients with eight tasks each on three slots. Every holder locks a mutex of its slot.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn each_slot_has_one_holder_at_a_time_and_every_task_gets_one<A: Adapter>() {
    let servers = five();
    let clients = [warm::<A>(&servers).await, warm::<A>(&servers).await];
    let places: Arc<[tokio::sync::Mutex<()>; 3]> = Arc::default();
    let task = |redlock: Redlock| {
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            let slots = redlock.slots("s", 3).unwrap();
            for _ in 0..10 {
                let guard = slots.acquire(TTL).wait_unbounded().await.unwrap();
                let place = places[guard.index()].try_lock().expect("no other task holds this slot");
                tokio::task::yield_now().await;
                drop(place);
                assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
            }
        })
    };
    let tasks: Vec<_> = (0..16).map(|number| task(clients[number % 2].clone())).collect();
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left_of(&clients, &servers).await;
}

pub(crate) async fn a_waiter_acquires_the_slot_that_a_program_in_another_language_releases<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let slots = redlock.slots("s", 2).unwrap();
    for server in &servers {
        assert_eq!("OK", server.command(&["SET", "s:slot:0", "by-hand", "NX", "PX", "60000"]));
        assert_eq!("OK", server.command(&["SET", "s:slot:1", "by-hand", "NX", "PX", "60000"]));
    }
    assert!(slots.acquire(TTL).try_now().await.unwrap().is_none());
    let waiting = tokio::spawn(slots.acquire(TTL).wait_unbounded().into_future());
    tokio::task::yield_now().await;
    delete(&servers, "s:slot:1");
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(1, guard.index());
    assert!(!slots.inspect().await.unwrap()[0].is_free());
    guard.release().await.unwrap();
    delete(&servers, "s:slot:0");
    nothing_left(&redlock, &servers).await;
}

/// Starts a candidate whose work never ends.
fn candidate(redlock: &Redlock, ttl: Duration) -> (Leadership, tokio::task::JoinHandle<ErrorKind>) {
    let candidate: Candidate = redlock.lock("leader", ttl).lead();
    let leadership = candidate.leadership();
    let run = async { candidate.run(|_| pending::<ControlFlow<()>>()).await.unwrap_err().kind() };
    (leadership, tokio::spawn(run))
}

async fn leads(leadership: &Leadership) {
    eventually("it leads", Duration::from_secs(30), async || leadership.is_leading()).await;
}

pub(crate) async fn a_leader_that_closes_is_replaced_at_once<A: Adapter>() {
    let servers = five();
    let (one, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let (first, run) = candidate(&one, 6 * TTL);
    leads(&first).await;
    let (second, other_run) = candidate(&other, 6 * TTL);
    assert_eq!(0, soon(one.close()).await);
    assert_eq!((LeadershipState::Ended, ErrorKind::Closed), (first.state(), soon(run).await.unwrap()));
    // This is long before the TTL of the first leader ends.
    soon(async { leads(&second).await }).await;
    other_run.abort();
    assert!(other_run.await.unwrap_err().is_cancelled());
    nothing_left(&other, &servers).await;
}

pub(crate) async fn leadership_ends_in_an_outage_and_returns_after_it<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let (leadership, run) = candidate(&redlock, Duration::from_secs(4));
    leads(&leadership).await;
    let lease = leadership.lease().unwrap();
    servers[..3].iter().for_each(RedisServer::pause);
    assert_eq!(LeadershipState::NotLeading, leadership.changed().await);
    assert_eq!(Loss::Unreachable, lease.lost().await);
    servers[..3].iter().for_each(RedisServer::resume);
    leads(&leadership).await;
    assert!(!lease.is_held() && leadership.lease().unwrap().is_held());
    run.abort();
    drop(run.await);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_job_runs_once_a_period_on_one_of_two_machines<A: Adapter>() {
    let servers = five();
    let (one, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let (request, period) = (|redlock: &Redlock| redlock.lock("job", TTL), 360 * TTL);
    let failed = request(&one).once_per(period, async |_| Err::<(), _>("disk full")).await.unwrap();
    assert_eq!(Some(Err("disk full")), failed.into_output());
    let ran = request(&other).once_per(period, async |_| Ok::<_, ()>(42)).await.unwrap();
    assert_eq!(Some(Ok(42)), ran.into_output());
    let not_called = async |_| -> Result<(), ()> { unreachable!("the job has run") };
    assert!(matches!(
        request(&one).once_per(period, not_called).await.unwrap(),
        JobOutcome::Elsewhere(Some(_))
    ));
    let left = servers.iter().map(|server| server.command(&["PTTL", "job"]).parse::<i64>().unwrap());
    // Nine tenths of an hour, and half a second for clocks, less the duration of this test. A minority may lack the key,
    // because the release of the first job may arrive late on a busy machine.
    let expected = 3_000_000..=3_240_502;
    let left: Vec<_> = left.collect();
    assert!(left.iter().filter(|left| expected.contains(*left)).count() >= 3, "{left:?}");
}

/// The program has no runtime at all.
pub(crate) fn a_synchronous_program_keeps_its_lock_while_it_computes<A: Adapter>() {
    let servers = five();
    let builder = || A::builder_with(servers.iter().map(RedisServer::url), &Options::dedicated()).unwrap();
    let redlock = builder().node_timeout(NODE_TIMEOUT).build().unwrap();
    let other = builder().node_timeout(NODE_TIMEOUT).build().unwrap();
    let ttl = Duration::from_secs(4);
    let request = redlock.lock("a", ttl).keep_alive(KeepAlive::new());
    let guard = blocking::acquire(request.max_wait(TTL)).unwrap();
    thread::sleep(3 * ttl);
    guard.check().unwrap();
    assert!(blocking::try_now(other.lock("a", TTL)).unwrap().is_none());
    // The drop waits for the release.
    drop(guard);
    let guard = blocking::try_now(other.lock("a", ttl)).unwrap().expect("the lock is released");
    assert_eq!(ReleaseOutcome::Released, guard.release().unwrap());

    let lost = blocking::run(redlock.lock("a", ttl), |lease| {
        lease.check()?;
        delete(&servers[..3], "a");
        assert!(matches!(blocking::wait(lease.lost()), Loss::Revoked { .. }));
        lease.check()
    });
    let error = lost.unwrap_err();
    assert_eq!(ErrorKind::Lost, error.kind());
    assert_eq!(ErrorKind::Lost, error.into_output().unwrap().unwrap_err().kind());
    assert!(blocking::wait(redlock.health()).is_available());
    let close = |redlock: Redlock| blocking::wait_at_most(3 * TTL, async move { redlock.close().await });
    assert_eq!((Some(0), Some(0)), (close(redlock), close(other)));
    assert_eq!(Vec::<String>::new(), keys(&servers));
}

/// A single-threaded runtime renews nothing between two calls of `block_on`.
pub(crate) fn an_undriven_runtime_causes_a_warning<A: Adapter>() {
    let servers = five();
    let runtime = one_thread();
    let ttl = Duration::from_secs(1);
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let (redlock, guard) = runtime.block_on(async {
        let redlock = warm::<A>(&servers).await;
        let guard = redlock.lock("a", ttl).keep_alive(KeepAlive::new()).await.unwrap();
        (redlock, guard)
    });
    thread::sleep(2 * ttl);
    runtime.block_on(async {
        let warned = async || warnings.about("renewal timer late") == 1;
        eventually("the warning is logged", Duration::from_secs(60), warned).await;
        assert!(!guard.is_held());
        drop(guard);
        nothing_left(&redlock, &servers).await;
    });
}
