//! The published state of a candidate.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use event_listener::Event;

use crate::client::handle::Handle;
use crate::client::lease::Lease;
use crate::client::observe::Observer;
use crate::runtime::let_others_run;
use crate::sync::{Mutex, locked};
use crate::telemetry::Counted;
use crate::types::error::Error;
use crate::types::lease_state::LeaseState;
use crate::types::resource::Resource;

/// A view of a candidate's leadership, for other tasks.
///
/// Clones are views of the same candidate. The state follows the clock. Once the lock is [lost](crate::Lease::state),
/// the state is [`NotLeading`](LeadershipState::NotLeading), even if the work of the leader has not been dropped yet.
///
/// This is the leadership of one candidate. [`leader`](Leadership::leader) observes who the leader is, on any machine.
#[derive(Clone)]
pub struct Leadership(Arc<Shared>);

struct Shared {
    handle: Arc<Handle>,
    /// A resource that each leader holds.
    resource: Result<Resource, Error>,
    stage: Mutex<Stage>,
    changed: Event,
}

#[derive(Clone, Default)]
enum Stage {
    #[default]
    Waiting,
    /// The work runs under this lock.
    Leading(Lease),
    Ended,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeadershipState {
    /// The candidate waits, or its lock is lost.
    NotLeading,
    /// The candidate is the leader at this moment.
    Leading,
    /// The candidate has ended: its work is complete, it failed, or it was dropped. This state is final.
    Ended,
}

impl Leadership {
    pub(super) fn new(handle: Arc<Handle>, resource: Result<Resource, Error>) -> Self {
        Self(Arc::new(Shared { handle, resource, stage: Mutex::default(), changed: Event::new() }))
    }

    /// Returns the state at this moment, according to the clock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let candidate = redlock.lock("scheduler", ttl).lead();
    /// let leadership = candidate.leadership();
    /// assert_eq!(LeadershipState::NotLeading, leadership.state());
    ///
    /// let work = async |_lease| ControlFlow::Break(leadership.state());
    /// assert_eq!(LeadershipState::Leading, candidate.run(work).await?);
    /// assert_eq!(LeadershipState::Ended, leadership.state());
    /// # });
    /// ```
    pub fn state(&self) -> LeadershipState {
        match self.stage() {
            Stage::Leading(lease) if !matches!(lease.state(), LeaseState::Lost(_)) => {
                LeadershipState::Leading
            }
            Stage::Leading(_) | Stage::Waiting => LeadershipState::NotLeading,
            Stage::Ended => LeadershipState::Ended,
        }
    }

    /// Returns whether the candidate is the leader at this moment.
    ///
    /// The result ages: check [`lease`](Leadership::lease) before an effect that must not happen twice.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let candidate = redlock.lock("scheduler", ttl).lead();
    /// let leadership = candidate.leadership();
    /// // The service accepts jobs only on the leader.
    /// let accept = || if leadership.is_leading() { 202 } else { 503 };
    /// assert_eq!(503, accept());
    ///
    /// let work = async |_lease| ControlFlow::Break(accept());
    /// assert_eq!(202, candidate.run(work).await?);
    /// # });
    /// ```
    pub fn is_leading(&self) -> bool {
        self.state() == LeadershipState::Leading
    }

    /// Returns the lock of the present term, or `None`.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let candidate = redlock.lock("scheduler", ttl).lead();
    /// # let leadership = candidate.leadership();
    /// // Another task checks the time that is left before it ships an order.
    /// let may_ship = || {
    ///     let lease = leadership.lease();
    ///     lease.is_some_and(|lease| lease.remaining() > Duration::from_secs(1))
    /// };
    /// assert!(!may_ship(), "this candidate is not the leader yet");
    /// # let work = async |_lease| ControlFlow::Break(may_ship());
    /// # assert!(candidate.run(work).await?);
    /// # });
    /// ```
    pub fn lease(&self) -> Option<Lease> {
        match self.stage() {
            Stage::Leading(lease) => Some(lease),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Returns an observer of the leader, on any machine.
    ///
    /// It is [`Redlock::observe`](crate::Redlock::observe) for the lock of the candidate. Other processes observe the
    /// leader by the name of the lock, and need no candidate. If the candidates lead on slots, there is no single leader,
    /// and the observer returns an error.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let candidate = redlock.lock("scheduler", ttl).owner("10.0.0.7:8080").lead();
    /// let leadership = candidate.leadership();
    /// let work = async |_lease| ControlFlow::Break(leadership.leader().changed().await);
    /// let inspection = candidate.run(work).await??;
    /// // Followers forward requests to the address that is the label of the leader.
    /// assert_eq!(Some("10.0.0.7:8080"), inspection.holder().and_then(|by| by.owner()));
    /// # });
    /// ```
    pub fn leader(&self) -> Observer {
        Observer::new(Arc::clone(&self.0.handle), self.0.resource.clone())
    }

    /// Waits until the state differs from the present one, and returns the new state.
    ///
    /// The present state is that at the time of the call. [`Ended`](LeadershipState::Ended) is final: after it, this
    /// returns `Ended` again without a wait, so a loop must end there.
    /// Terms that begin and end before the next poll may be missed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::ControlFlow;
    /// # use redlock_core::{LeadershipState, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let candidate = redlock.lock("scheduler", ttl).lead();
    /// let leadership = candidate.leadership();
    /// let monitor = async {
    ///     while leadership.changed().await != LeadershipState::Ended {
    ///         // ... update the status page ...
    ///     }
    /// };
    /// let work = async |_lease| ControlFlow::Break("scheduled");
    /// let (result, ()) = tokio::join!(candidate.run(work), monitor);
    /// assert_eq!("scheduled", result?);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn changed(&self) -> impl Future<Output = LeadershipState> + Send + 'static + use<> {
        let (this, before) = (self.clone(), self.state());
        async move {
            if before == LeadershipState::Ended {
                // A loop that does not end here must not stop the other tasks of its thread.
                let_others_run().await;
            }
            loop {
                let mut changed = this.0.changed.listen();
                let state = this.state();
                if state != before || state == LeadershipState::Ended {
                    return state;
                }
                let lost =
                    this.lease().filter(|_| state == LeadershipState::Leading).map(|lease| lease.lost());
                let mut lost = pin!(async {
                    match lost {
                        Some(lost) => drop(lost.await),
                        None => std::future::pending().await,
                    }
                });
                poll_fn(|cx| match Pin::new(&mut changed).poll(cx) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => lost.as_mut().poll(cx),
                })
                .await;
            }
        }
    }

    /// Publishes a term, which ends when the returned value is dropped.
    pub(super) fn lead(&self, lease: Lease) -> Reset {
        let counted = Some(Counted::leader(&lease.record.claim));
        self.set(Stage::Leading(lease));
        Reset { leadership: self.clone(), to: Stage::Waiting, _counted: counted }
    }

    /// Publishes the end of the candidate when the returned value is dropped.
    pub(super) fn end_on_drop(&self) -> Reset {
        Reset { leadership: self.clone(), to: Stage::Ended, _counted: None }
    }

    fn stage(&self) -> Stage {
        locked(&self.0.stage).clone()
    }

    fn set(&self, stage: Stage) {
        let before = std::mem::replace(&mut *locked(&self.0.stage), stage);
        // A lease may be dropped only after the mutex is released.
        drop(before);
        self.0.changed.notify(usize::MAX);
    }
}

/// Publishes a state when it is dropped.
#[must_use]
pub(super) struct Reset {
    leadership: Leadership,
    to: Stage,
    /// The leader in the gauge of leaders.
    _counted: Option<Counted>,
}

impl Drop for Reset {
    fn drop(&mut self) {
        self.leadership.set(std::mem::take(&mut self.to));
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.state()).finish()
    }
}
