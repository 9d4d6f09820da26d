//! Jobs that run once a period, and requests that run work.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::time::Duration;

use crate::common::*;
use redlock_core::IntoResources as _;
use redlock_core::node::{Claim, LockNode, Request, Token, Ttl};
use redlock_core::{Builder, ErrorKind, JobOutcome, KeepAlive, LeaseState, Loss, Redlock, RunError};
use redlock_testkit::{Fault, Faulty, MemoryNode, Operation};

const PERIOD: Duration = Duration::from_secs(3600);

/// Runs the job of one machine. Returns whether it ran.
async fn run(redlock: &Redlock, world: &World, spends: Duration, outcome: Result<(), ()>) -> bool {
    let there = world.clone();
    let ran = redlock.lock("job", TTL).once_per(PERIOD, async move |_| {
        there.sleep(spends).await;
        outcome
    });
    ran.await.unwrap().into_output().is_some()
}

#[test]
fn a_job_that_succeeded_runs_again_after_nine_tenths_of_the_period() {
    with_five(async |world| {
        let other = world.other_client();
        let spends = 10 * TTL;
        assert!(run(&world.redlock, &world, spends, Ok(())).await);
        // The lock is kept until nine tenths of the period, less the duration of the job. Servers add at most half a
        // second.
        for part in [Duration::ZERO, PERIOD / 2, PERIOD * 4 / 10 - spends - 1000 * MS] {
            world.sleep(part).await;
            assert!(!run(&other, &world, spends, Ok(())).await);
            assert!(!run(&world.redlock, &world, spends, Ok(())).await);
        }
        world.sleep(2000 * MS).await;
        assert!(run(&other, &world, spends, Ok(())).await);
    });
}

#[test]
fn a_job_that_failed_runs_again_at_once() {
    with_five(async |world| {
        let other = world.other_client();
        assert!(run(&world.redlock, &world, TTL, Err(())).await);
        assert!(run(&other, &world, TTL, Err(())).await);
        world.nothing_left().await;
    });
}

#[test]
fn a_job_longer_than_its_period_releases_its_lock() {
    with_five(async |world| {
        assert!(run(&world.redlock, &world, PERIOD, Ok(())).await);
        world.nothing_left().await;
    });
}

#[test]
fn a_job_is_not_called_if_its_lock_could_not_be_kept() {
    with_five(async |world| {
        let job = || async { Ok::<_, ()>(()) };
        let attempts = || world.request_counts(Operation::Acquire);
        let before = attempts();
        for period in [Duration::ZERO, Duration::MAX] {
            let result = world.redlock.lock("job", TTL).once_per(period, |_| job()).await;
            assert_eq!(ErrorKind::InvalidInput, kind(result));
        }
        assert_eq!(before, attempts(), "nothing was sent");
    });
}

#[test]
fn a_kept_lock_outlives_the_configured_drift_of_the_clocks() {
    with_five(async |world| {
        let redlock = builder(&world.process, &world.nodes).clock_drift_factor(0.05).build().unwrap();
        let guard = redlock.lock("a", TTL).await.unwrap();
        guard.keep_for(1000 * MS).await.unwrap();
        let remaining = redlock.inspect("a").await.unwrap().remaining().unwrap();
        assert!((1030 * MS..=1052 * MS).contains(&remaining), "{remaining:?}");
    });
}

/// Places the key of another client on a node.
async fn place(world: &World, node: usize, token: &str) {
    let claim = Claim::new("job".into_resources().unwrap(), Token::from_bytes(token));
    world.nodes[node].inner().call(Request::Acquire(claim.clone(), Ttl::new(TTL).unwrap())).await.unwrap();
}

async fn job(redlock: &Redlock, max_wait: Option<Duration>) -> JobOutcome<Result<u32, ()>> {
    let request = redlock.lock("job", TTL);
    let request = match max_wait {
        Some(wait) => request.max_wait(wait),
        None => request,
    };
    request.once_per(PERIOD, async |_| Ok(42)).await.unwrap()
}

#[test]
fn an_outage_at_the_beginning_of_a_period_does_not_lose_it() {
    with_five(async |world| {
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::unavailable()));
        let there = world.clone();
        world.spawn(async move {
            there.sleep(50 * 1000 * MS).await;
            there.nodes.iter().for_each(redlock_testkit::FakeNode::clear_faults);
        });
        let (outcome, took) = world.time(job(&world.redlock, None)).await;
        assert!(matches!(outcome, JobOutcome::Ran(Ok(42))), "{outcome:?}");
        assert!(took < 50_500 * MS, "{took:?}");
    });
}

#[test]
fn a_long_outage_is_undecided_after_the_time_of_the_request() {
    with_five(async |world| {
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::unavailable()));
        let (outcome, took) = world.time(job(&world.redlock, None)).await;
        let JobOutcome::Undecided(error) = outcome else { unreachable!("{outcome:?}") };
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert!((59_000 * MS..61_000 * MS).contains(&took), "{took:?}");
        let (outcome, took) = world.time(job(&world.redlock, Some(3000 * MS))).await;
        assert!(matches!(outcome, JobOutcome::Undecided(_)) && took < 3500 * MS, "{outcome:?} {took:?}");
    });
}

#[test]
fn a_job_elsewhere_names_its_machine() {
    with_five(async |world| {
        let other = world.other_client();
        let guard = other.lock("job", TTL).owner("host-2").await.unwrap();
        let (outcome, took) = world.time(job(&world.redlock, None)).await;
        let JobOutcome::Elsewhere(Some(holder)) = outcome else { unreachable!("{outcome:?}") };
        assert_eq!((guard.fingerprint(), Some("host-2")), (holder.clone(), holder.owner()));
        assert!(took < 10 * MS, "it does not wait for the other machine: {took:?}");
        // Another task of the same process.
        let outcome = job(&other, None).await;
        assert!(matches!(&outcome, JobOutcome::Elsewhere(Some(by)) if *by == holder), "{outcome:?}");
    });
}

#[test]
fn split_votes_are_no_job_elsewhere() {
    with_five(async |world| {
        // The keys of two clients that have crashed during their attempts.
        for (node, token) in [(0, "one"), (1, "one"), (2, "other"), (3, "other")] {
            place(&world, node, token).await;
        }
        let outcome = job(&world.redlock, Some(3000 * MS)).await;
        let JobOutcome::Undecided(error) = outcome else { unreachable!("{outcome:?}") };
        assert_eq!(ErrorKind::Undecided, error.kind());
        let (outcome, took) = world.time(job(&world.redlock, None)).await;
        assert!(matches!(outcome, JobOutcome::Ran(Ok(42))), "{outcome:?}");
        assert!(took < TTL, "the keys have expired: {took:?}");
    });
}

#[test]
fn two_tasks_of_one_process_run_a_job_once() {
    with_five(async |world| {
        let (one, other) = both(job(&world.redlock, None), job(&world.redlock, None)).await;
        assert!(matches!(one, JobOutcome::Ran(_)), "{one:?}");
        assert!(matches!(other, JobOutcome::Elsewhere(Some(_))), "{other:?}");
    });
}

#[test]
fn readers_are_no_job_elsewhere() {
    with_five(async |world| {
        let guard = world.redlock.rw_lock("job").unwrap().read(TTL).await.unwrap();
        let outcome = job(&world.other_client(), Some(1000 * MS)).await;
        assert!(matches!(outcome, JobOutcome::Undecided(_)), "{outcome:?}");
        drop(guard);
    });
}

#[test]
fn the_error_of_a_lock_that_is_not_kept_counts_every_node() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[0].inner().clear();
        world.nodes[1..3].iter().for_each(Faulty::crash);
        let error = guard.keep_for(1000 * MS).await.unwrap_err();
        assert!(error.to_string().contains("nodes kept, 3 required: 1 denied, 2 failed"), "{error}");
    });
}

#[test]
fn a_job_is_not_called_if_a_node_cannot_keep_its_lock() {
    with_five(async |world| {
        let builder = Builder::new(world.process.runtime());
        let redlock = builder.node(Plain(MemoryNode::new("plain"))).build().unwrap();
        let job = async |_| -> Result<(), ()> { unreachable!("the lock could not be kept") };
        let result = redlock.lock("job", TTL).once_per(PERIOD, job).await;
        assert_eq!(ErrorKind::Unsupported, kind(result));
    });
}

#[test]
fn an_outage_at_the_end_of_the_job_does_not_replace_its_output() {
    with_five(async |world| {
        let there = world.clone();
        let job = async move |_| {
            there.nodes[..3].iter().for_each(|node| node.inject(Fault::unavailable()));
            Ok::<_, ()>(42)
        };
        let outcome = world.redlock.lock("job", TTL).once_per(PERIOD, job).await.unwrap();
        assert_eq!(Some(Ok(42)), outcome.into_output());
    });
}

#[test]
fn a_request_for_one_attempt_runs_work_if_the_lock_is_free() {
    with_five(async |world| {
        let there = world.clone();
        let work = async move |lease: redlock_core::Lease| {
            there.sleep(3 * TTL).await;
            lease.state()
        };
        let request = || world.redlock.lock("a", TTL).keep_alive(KeepAlive::new());
        assert_eq!(LeaseState::Held, request().try_now().await.unwrap().unwrap().run(work).await.unwrap());
        let guard = world.other_client().lock("a", TTL).await.unwrap();
        assert!(request().try_now().await.unwrap().is_none());
        guard.release().await.unwrap();
        let lost = world.redlock.lock("b", TTL).run(async |_| {
            world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
            std::future::pending::<()>().await;
        });
        let error = lost.await.unwrap_err();
        assert_eq!(Some(&Loss::Unreachable), error.loss());
        assert!(error.is_retryable(), "another run may succeed");
        world.nothing_left().await;
    });
}

#[test]
fn question_marks_handle_the_errors_of_the_lock_and_of_the_work() {
    #[derive(Debug, PartialEq)]
    enum MyError {
        Lock(ErrorKind),
        Disk,
    }
    impl From<redlock_core::Error> for MyError {
        fn from(error: redlock_core::Error) -> Self {
            Self::Lock(error.kind())
        }
    }
    with_five(async |world| {
        let work = async |outcome: Result<u32, MyError>| {
            world.redlock.lock("a", TTL).run(async |_| outcome).await.map_err(RunError::into_error)?
        };
        assert_eq!(Ok(42), work(Ok(42)).await);
        assert_eq!(Err(MyError::Disk), work(Err(MyError::Disk)).await);
        let _guard = world.other_client().lock("a", TTL).await.unwrap();
        let request = world.redlock.lock("a", TTL).max_wait(MS);
        let result = request.run(async |_| Ok::<(), MyError>(())).await.map_err(RunError::into_error);
        assert_eq!(MyError::Lock(ErrorKind::Contended), result.unwrap_err().into());
    });
}

#[test]
fn a_renewal_extends_by_the_ttl_of_the_last_grant() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.sleep(TTL / 2).await;
        guard.renew().await.unwrap();
        assert!(guard.remaining() > TTL * 9 / 10);
        guard.extend(3 * TTL).await.unwrap();
        world.sleep(TTL).await;
        guard.renew().await.unwrap();
        assert!(guard.remaining() > 2 * TTL);
    });
}

/// Requests become futures for executors and `join`.
#[test]
fn requests_become_futures() {
    fn is_future<T: Future + Send + 'static>(future: T) -> T {
        future
    }
    with_five(async |world| {
        let names = vec!["a", "b"];
        let one = is_future(world.redlock.lock(&names, TTL).into_future());
        let other = is_future(world.redlock.lock("c", TTL).try_now());
        let (one, other) = both(one, other).await;
        drop((one.unwrap(), other.unwrap().expect("the lock is free")));
        world.nothing_left().await;
    });
}
