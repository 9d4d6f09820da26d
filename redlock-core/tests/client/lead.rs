//! Leadership: one candidate at a time runs its work, as long as a quorum of nodes replies.

use std::future::{Future, pending, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::common::*;
use redlock_core::{Candidate, ErrorKind, Leadership, LeadershipState, LockStatus, Redlock};
use redlock_testkit::{FakeNode, Fault};

type Log = Arc<Mutex<Vec<String>>>;

/// Spawns a candidate whose work never ends, and logs its terms.
fn spawn(world: &World, name: &str, candidate: Candidate, log: &Log) -> Leadership {
    let (leadership, name, log) = (candidate.leadership(), name.to_owned(), Arc::clone(log));
    world.spawn(async move {
        let work = |_| {
            log.lock().unwrap().push(format!("{name} leads"));
            pending::<ControlFlow<()>>()
        };
        let error = candidate.run(work).await.unwrap_err();
        log.lock().unwrap().push(format!("{name}: {:?}", error.kind()));
    });
    leadership
}

fn read(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

/// A loop that waits for changes without end.
#[test]
fn a_loop_over_a_final_state_lets_others_run() {
    with_five(async |world| {
        let candidate = world.redlock.lock("a", TTL).lead();
        let leadership = candidate.leadership();
        let guard = world.redlock.lock("b", TTL).await.unwrap();
        let lease = guard.lease();
        guard.release().await.unwrap();
        drop(candidate);
        let mut leaderships = pin!(async {
            loop {
                assert_eq!(LeadershipState::Ended, leadership.changed().await);
            }
        });
        let mut leases = pin!(async {
            loop {
                lease.changed().await;
            }
        });
        let mut polls = 0;
        poll_fn(|cx: &mut Context<'_>| {
            assert!(leaderships.as_mut().poll(cx).is_pending() && leases.as_mut().poll(cx).is_pending());
            polls += 1;
            if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    });
}

#[test]
fn one_candidate_leads_and_the_other_follows_at_its_end() {
    with_five(async |world| {
        let (log, other) = (Log::default(), world.other_client());
        let first = spawn(&world, "first", world.redlock.lock("a", TTL).lead(), &log);
        world.settle().await;
        let second = spawn(&world, "second", other.lock("a", TTL).lead(), &log);
        world.sleep(10 * TTL).await;
        assert_eq!(vec!["first leads"], read(&log));
        assert_eq!((true, false), (first.is_leading(), second.is_leading()));
        assert!(first.lease().unwrap().is_held() && second.lease().is_none());

        let changed = (first.changed(), second.changed());
        let ((), took) = world
            .time(async {
                assert_eq!(0, world.redlock.close().await);
                assert!(
                    world.other_client().inspect("a").await.unwrap().is_free(),
                    "the candidate has resigned"
                );
            })
            .await;
        assert!(took < MS, "{took:?}");
        assert_eq!(LeadershipState::Ended, changed.0.await);
        assert_eq!(LeadershipState::Leading, changed.1.await);
        assert_eq!(LeadershipState::Ended, first.state());
        assert_eq!(vec!["first leads", "first: Closed", "second leads"], read(&log));
    });
}

#[test]
fn a_candidate_that_is_dropped_resigns_at_once() {
    with_five(async |world| {
        let candidate = world.redlock.lock("a", TTL).lead();
        let leadership = candidate.leadership();
        let mut leader = Box::pin(candidate.run(|_| pending::<ControlFlow<()>>()));
        assert!(is_pending(&mut leader).await);
        world.settle().await;
        assert!(is_pending(&mut leader).await);
        assert!(leadership.is_leading());
        drop(leader);
        assert_eq!(LeadershipState::Ended, leadership.state());
        world.nothing_left().await;
    });
}

#[test]
fn a_candidate_that_never_ran_has_ended() {
    with_five(async |world| {
        let candidate = world.redlock.lock("a", TTL).lead();
        let leadership = candidate.leadership();
        assert_eq!(LeadershipState::NotLeading, leadership.state());
        let changed = leadership.changed();
        drop(candidate);
        assert_eq!(LeadershipState::Ended, changed.await);
    });
}

#[test]
fn an_outage_stops_the_work_and_leadership_returns_within_a_second() {
    with_five(async |world| {
        let log = Log::default();
        let leadership = spawn(&world, "it", world.redlock.lock("a", TTL).lead(), &log);
        for outage in [TTL / 2, 2 * TTL, 20 * TTL] {
            if !leadership.is_leading() {
                assert_eq!(LeadershipState::Leading, leadership.changed().await);
            }
            let terms = read(&log).len();
            world.nodes[..3].iter().for_each(|node| node.inject(Fault::unavailable()));
            world.sleep(outage).await;
            assert_eq!(outage < TTL, leadership.is_leading(), "after {outage:?}");
            assert_eq!(outage < TTL, leadership.lease().is_some(), "a lease belongs to its term");
            world.nodes.iter().for_each(FakeNode::clear_faults);
            world.sleep(1000 * MS).await;
            assert!(leadership.is_leading(), "an outage of {outage:?} is over");
            assert_eq!(terms + usize::from(outage > TTL), read(&log).len(), "{:?}", read(&log));
        }
    });
}

#[test]
fn complete_work_ends_the_candidate_and_work_that_resigns_lets_others_lead() {
    with_five(async |world| {
        let mut terms = 0;
        let (other, there) = (world.other_client(), world.clone());
        let led = Arc::new(Mutex::new(0));
        let follower = {
            let led = Arc::clone(&led);
            async move {
                let work = |_| {
                    *led.lock().unwrap() += 1;
                    let there = there.clone();
                    async move {
                        there.sleep(300 * MS).await;
                        ControlFlow::<()>::Continue(())
                    }
                };
                drop(other.lock("a", TTL).lead().run(work).await);
            }
        };
        world.spawn(follower);
        let work = |_| {
            terms += 1;
            let last = terms == 5;
            async move { if last { ControlFlow::Break("done") } else { ControlFlow::Continue(()) } }
        };
        assert_eq!("done", world.redlock.lock("a", TTL).lead().run(work).await.unwrap());
        assert!(*led.lock().unwrap() >= 4, "the follower led between its terms");
    });
}

/// The leader is paused for longer than its TTL: the state follows the clock, not the task.
#[test]
fn a_leader_whose_lock_has_expired_is_not_leading() {
    with_five(async |world| {
        let log = Log::default();
        let leadership = spawn(&world, "it", world.redlock.lock("a", TTL).lead(), &log);
        world.sleep(TTL).await;
        let lease = leadership.lease().unwrap();
        world.nodes.iter().for_each(|node| node.inject(Fault::hang()));
        // Another task reads the state in the step in which the validity ends.
        world.sleep(lease.remaining()).await;
        assert!(!lease.is_held() && !leadership.is_leading());
    });
}

/// No task polls the leader: the state changes with its lock.
#[test]
fn a_change_is_reported_although_the_leader_is_not_polled() {
    with_five(async |world| {
        let candidate = world.redlock.lock("a", TTL).lead();
        let leadership = candidate.leadership();
        let mut leader = Box::pin(candidate.run(|_| pending::<ControlFlow<()>>()));
        assert!(is_pending(&mut leader).await);
        world.settle().await;
        assert!(is_pending(&mut leader).await && leadership.is_leading());
        world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
        let (state, took) = world.time(leadership.changed()).await;
        assert_eq!(LeadershipState::NotLeading, state);
        assert!(took <= TTL, "{took:?}");
    });
}

#[test]
fn an_error_that_is_not_retryable_ends_the_candidate() {
    with_five(async |world| {
        let run =
            async |candidate: Candidate| kind(candidate.run(|_| async { ControlFlow::Break(()) }).await);
        assert_eq!(ErrorKind::InvalidInput, run(world.redlock.lock("", TTL).lead()).await);
        assert_eq!(ErrorKind::InvalidInput, run(world.redlock.lock("a", MS).lead()).await);
        assert_eq!(ErrorKind::InvalidInput, run(world.redlock.lock("a", TTL).owner("a b").lead()).await);
        world.redlock.close().await;
        assert_eq!(ErrorKind::Closed, run(world.redlock.lock("a", TTL).lead()).await);
    });
}

#[test]
fn the_owner_and_the_token_of_each_term_are_published() {
    with_five(async |world| {
        let mut tokens = Vec::new();
        let observer: Redlock = world.other_client();
        let candidate = world.redlock.lock("a", TTL).owner("host-1").fenced().lead();
        let work = |lease: redlock_core::Lease| {
            tokens.push(lease.fencing_token().unwrap());
            let (terms, observer) = (tokens.len(), observer.clone());
            async move {
                let inspection = observer.inspect("a").await.unwrap();
                let LockStatus::Held { by, .. } = inspection.status() else { panic!("{inspection}") };
                assert_eq!(Some("host-1"), by.owner());
                if terms == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        };
        candidate.run(work).await.unwrap();
        assert!(tokens.is_sorted_by(|one, other| one < other), "{tokens:?}");
        world.nothing_left().await;
    });
}
