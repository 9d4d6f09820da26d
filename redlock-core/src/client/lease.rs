//! The public view of a lease.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::client::handle::Handle;
use crate::client::until_state::UntilState;
use crate::lease::record::Record;
use crate::round::extend::{self, Extension};
use crate::round::failure::{Aim, Failure};
use crate::runtime::{let_others_run, sleep_until_or};
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::NodeReport;
use crate::types::resource::Resource;
use crate::types::token::Fingerprint;
use crate::types::ttl::Ttl;

/// A view of a held lock: its resources, its validity and its state.
///
/// A lease can extend the lock and never releases it. Clones are views of the same lease, and dropping one has no
/// effect.
///
/// A lease does not keep the lock. Once the [`Guard`] that owns the lock is released or dropped, or the validity has
/// ended, every view reports that the lock is not held.
///
/// [`Guard`]: crate::Guard
#[derive(Clone)]
pub struct Lease {
    pub(crate) handle: Arc<Handle>,
    pub(crate) record: Arc<Record>,
}

impl Lease {
    /// Returns the locked resources: at least one, sorted.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock(["stock:7", "orders:42"], ttl).await?;
    /// let names = guard.resources().iter().map(|resource| resource.to_string());
    /// assert_eq!(["orders:42", "stock:7"], *names.collect::<Vec<_>>());
    /// # });
    /// ```
    pub fn resources(&self) -> &[Resource] {
        self.record.claim.resources()
    }

    /// Returns how much longer the lock is valid, according to the clock.
    ///
    /// Zero means that the lock is no longer held. The validity has ended, the lock was released, or a quorum reported
    /// that its keys are gone.
    ///
    /// Time in system suspend counts, so the value is correct even if the machine has just resumed. A pause by a
    /// hypervisor may not count: see [`suspend_aware_now`](crate::runtime::suspend_aware_now).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// if guard.remaining() > Duration::from_secs(1) {
    ///     // There is enough time for an effect that takes up to 1 s.
    /// }
    /// # });
    /// ```
    pub fn remaining(&self) -> Duration {
        self.record.remaining(self.handle.now())
    }

    /// Returns the time at which the validity ends, unless the lock is extended.
    ///
    /// From then on, other clients may acquire the lock. The time is on the clock of
    /// [`Redlock::now`](crate::Redlock::now). Returns `None` if the lock is no longer held.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    /// let deadline = guard.deadline().expect("just acquired");
    /// assert!(deadline > redlock.now() + Duration::from_secs(9));
    /// # });
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        let now = self.handle.now();
        self.record.with(|state| (!state.status.remaining(now).is_zero()).then(|| state.status.deadline()))
    }

    /// Returns whether the lock is valid at this moment.
    ///
    /// That is the case if [`remaining`](Lease::remaining) is more than zero. The result ages: the validity may end
    /// before you use it. Before an effect that must not happen twice, compare `remaining` with the time that the
    /// effect takes.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// let lease = guard.lease();
    /// assert!(lease.is_held());
    /// guard.release().await?;
    /// assert!(!lease.is_held());
    /// # });
    /// ```
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the state of the lock, according to the clock.
    ///
    /// A loss is reported before the lease ends. In the last fiftieth of the TTL (at least 1 ms, at most 500 ms) the
    /// state is already [`Lost`](LeaseState::Lost). [`is_held`](Lease::is_held) is still true then, and other clients
    /// are still excluded. Use this time to stop.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// match guard.state() {
    ///     LeaseState::Held => println!("held"),
    ///     LeaseState::AtRisk => println!("held, but the last extension failed"),
    ///     LeaseState::Lost(loss) => println!("stop: {loss}"),
    ///     _ => {}
    /// }
    /// # });
    /// ```
    pub fn state(&self) -> LeaseState {
        self.record.look(self.handle.now()).state
    }

    /// Returns an error once the lock is no longer held, or is about to be lost.
    ///
    /// It sends no request: the [state](Lease::state) follows the clock. Call it before each effect.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// guard.check()?; // the lock is held, so the program charges the customer
    ///
    /// let lease = guard.lease();
    /// guard.release().await?;
    /// assert_eq!(ErrorKind::Lost, lease.check().unwrap_err().kind());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            LeaseState::Lost(loss) => Err(self.lost_error(loss, "stop the work")),
            _ => Ok(()),
        }
    }

    /// Waits until the state differs from the present one, and returns the new state.
    ///
    /// The present state is that at the time of the call. A loss is final: after one, this returns it again without a
    /// wait, so a loop must end there.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// let changed = guard.changed();
    /// guard.release().await?;
    /// assert_eq!(LeaseState::Lost(Loss::Released), changed.await);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn changed(&self) -> impl Future<Output = LeaseState> + Send + 'static + use<> {
        let before = self.state();
        let was_lost = matches!(before, LeaseState::Lost(_));
        let changed = UntilState::new(Arc::clone(&self.handle), Arc::clone(&self.record), move |look| {
            let is_lost = matches!(look.state, LeaseState::Lost(_));
            (is_lost || look.state != before).then(|| look.state.clone())
        });
        async move {
            if was_lost {
                // A loop that does not end here must not stop the other tasks of its thread.
                let_others_run().await;
            }
            changed.await
        }
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// The loss is reported before the validity ends (see [`state`](Lease::state)), even if no node replies. If nothing
    /// could run for a while, because the machine was suspended or the runtime was starved, the future is ready at its
    /// next poll. Its timer polls it within one second.
    ///
    /// A release by the owner also ends the wait, with [`Loss::Released`]. Thus the wait always ends.
    ///
    /// The wait reads the clock every fiftieth of the TTL. The cost is linear in the number of waits. 20,000 of them
    /// with a TTL of 10 s take about a tenth of a CPU core.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # async fn work() {}
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// tokio::select! {
    ///     loss = guard.lost() => println!("work canceled: {loss}"),
    ///     () = work() => println!("done"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        UntilState::new(Arc::clone(&self.handle), Arc::clone(&self.record), |look| match &look.state {
            LeaseState::Lost(loss) => Some(loss.clone()),
            _ => None,
        })
    }

    /// Waits until the work under the lock is to stop, so that it can finish in time.
    ///
    /// It is ready when the lock will be lost within the [grace period](crate::LockRequest::grace) of its request. From
    /// then on, [keep-alive](crate::LockRequest::keep_alive) does not renew the lock any more, so the work has the
    /// grace period left, and the margin in which a [loss](Lease::lost) is reported. Without a grace period, it is
    /// ready when `lost` is.
    ///
    /// A release, and the report of a quorum that the keys are gone, make it ready at once.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Lease, Redlock, TokioRuntime};
    /// # async fn next_page() -> bool { false }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// let request = redlock.lock("report", Duration::from_secs(30)).grace(Duration::from_secs(5));
    /// let work = async |lease: Lease| loop {
    ///     tokio::select! {
    ///         () = lease.ending() => break, // stores the position, which takes less than 5 s
    ///         more = next_page() => if !more { break },
    ///     }
    /// };
    /// request.run(work).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// To cancel a `CancellationToken` of `tokio-util` at that time, write
    /// `tokio::spawn(async move { lease.ending().await; token.cancel() })`.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        UntilState::new(Arc::clone(&self.handle), Arc::clone(&self.record), |look| {
            look.is_ending.then_some(())
        })
    }

    /// Returns whether the work under the lock is to stop, according to the clock.
    ///
    /// Same as a ready [`ending`](Lease::ending), for work that does not wait.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let request = redlock.lock("report", Duration::from_secs(30)).grace(Duration::from_secs(5));
    /// let guard = request.await?;
    /// for _page in 0..100 {
    ///     if guard.is_ending() {
    ///         break;
    ///     }
    /// }
    /// # });
    /// ```
    pub fn is_ending(&self) -> bool {
        self.record.look(self.handle.now()).is_ending
    }

    /// Returns the fingerprint of this lock's token, for logs and errors.
    ///
    /// The token itself is a secret.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// println!("charge order 42 with lease {}", guard.fingerprint());
    ///
    /// // Other clients see the same fingerprint.
    /// let inspection = redlock.inspect("orders:42").await?;
    /// assert_eq!(Some(&guard.fingerprint()), inspection.holder());
    /// # });
    /// ```
    pub fn fingerprint(&self) -> Fingerprint {
        self.record.claim.token().fingerprint()
    }

    /// Returns the token of a [fenced](crate::LockRequest::fenced) lock, or `None`.
    ///
    /// The token is greater than that of every earlier fenced lock on any of the resources. It does not change while
    /// the lock is held. Plain locks have none.
    ///
    /// Send the token with every write to the protected resource, which must reject smaller tokens than it has seen.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).fenced().await?;
    /// let token = guard.fencing_token().expect("a fenced lock has a token");
    /// println!("Fencing-Token: {token}");
    /// # });
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.record.fencing_token()
    }

    /// Returns the number of nodes on which the lock can still be extended.
    ///
    /// For a plain lock these are all nodes. For a fenced lock these are all nodes except those that are known to have
    /// counted a newer claim above its [token](Lease::fencing_token). If they are fewer than a quorum, extensions fail
    /// with [`Superseded`](crate::ErrorKind::Superseded), and the lock ends with its validity.
    ///
    /// Nodes drop out if they have lost the lock, or never held it, and other clients try to acquire it there.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| MemoryNode::new(label).into());
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // With three nodes.
    /// let guard = redlock.lock("report", ttl).fenced().await?;
    /// assert_eq!(3, guard.extendable_nodes());
    /// # Ok(()) }
    /// ```
    pub fn extendable_nodes(&self) -> usize {
        self.record.extendable_nodes()
    }

    /// Returns the reports of all nodes about the acquisition, in configured order.
    ///
    /// Nodes that have not replied when a quorum grants are pending, until they reply. The list is empty for a lock
    /// that was [resumed](crate::Redlock::resume).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// for report in guard.node_reports() {
    ///     println!("{report}");
    /// }
    /// # });
    /// ```
    pub fn node_reports(&self) -> Vec<NodeReport> {
        let votes = self.record.with(|state| state.votes.clone());
        let reports = votes.map(|votes| votes.reports(self.handle.now(), |node| self.handle.label(node)));
        reports.unwrap_or_default()
    }

    /// Makes the lock valid for `ttl` from now, less clock drift.
    ///
    /// `ttl` is 10 ms to 24 days. A quorum of all nodes must still hold the lock, and count for it if it is fenced. The
    /// validity is never shortened: the new deadline is the later of both.
    ///
    /// Returns as soon as the outcome is certain. That takes at most the node timeout, unless this process is delayed.
    /// Afterwards, nodes that have lost the lock's keys, or never held them, get them back in the background.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let guard = redlock.lock("report", Duration::from_secs(5)).await?;
    /// guard.extend(Duration::from_secs(30)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(29));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// A failed extension leaves the old deadline as it is, unless a quorum reports that the keys are gone.
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if the TTL is out of bounds.
    /// - [`TooSlow`](crate::ErrorKind::TooSlow) if the lease expired before the extension succeeded. A loss is final: see
    ///   [`state`](Lease::state).
    /// - [`Lost`](crate::ErrorKind::Lost) if a quorum does not hold the lock, or it was released or detached.
    /// - [`Superseded`](crate::ErrorKind::Superseded) if a fenced lock can never be extended again: see
    ///   [`extendable_nodes`](Lease::extendable_nodes).
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the extension continues in the background. It may or may not
    /// take effect.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        let ttl = self.handle.check_ttl(Ttl::new(ttl)?)?;
        let limit = self.handle.rules.timeout_within(ttl);
        let extended = self.extend_with(Extension { ttl, limit, not_beyond: None }).await;
        extended.map_err(|failure| self.error(failure))
    }

    /// Makes one extension.
    pub(crate) async fn extend_with(&self, extension: Extension) -> Result<(), Failure> {
        match self.state() {
            LeaseState::Lost(loss) => {
                let votes = self.handle.rules.votes(self.handle.now());
                return Err(Failure::ended(Aim::Extend, loss, votes));
            }
            LeaseState::Held | LeaseState::AtRisk => {}
        }
        extend::begin(&self.handle, &self.record, extension).await
    }

    /// Creates the error of work that has lost the lock. `what` states what happened to the work.
    pub(crate) fn lost_error(&self, loss: Loss, what: &str) -> Error {
        let resources = self.record.claim.all_resources();
        let message = format!("lost the lock on {resources} ({loss}); {what}");
        Error::new(ErrorKind::Lost, message).with_loss(loss).lost_by_run()
    }

    /// Creates the public error of a round about this lease.
    pub(crate) fn error(&self, failure: Failure) -> Error {
        failure.into_error(self.record.claim.all_resources(), &self.handle)
    }

    /// Waits until no write of this lease may be sent any more, at most until `limit`.
    pub(crate) async fn writes_ended(&self, limit: Instant) {
        while self.record.has_write_in_flight() && self.handle.now() < limit {
            let changed = self.record.listen();
            if self.record.has_write_in_flight() {
                sleep_until_or(&*self.handle.runtime, limit, changed).await;
            }
        }
    }
}

impl Lease {
    /// Makes the lock valid for its TTL from now, less clock drift.
    ///
    /// Same as [`extend`](Lease::extend) with the TTL of the last grant.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let guard = redlock.lock("report", Duration::from_secs(5)).await?;
    /// for _page in 0..100 {
    ///     guard.renew().await?;
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`extend`](Lease::extend).
    ///
    /// # Cancel safety
    ///
    /// Same as [`extend`](Lease::extend).
    pub async fn renew(&self) -> Result<(), Error> {
        self.extend(self.record.ttl().as_duration()).await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resources", self.record.claim.all_resources())
            .field("token", self.record.claim.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
