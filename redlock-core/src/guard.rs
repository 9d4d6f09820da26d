//! The value that owns a lock.

use std::mem;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::decide::hold::Loss;
use crate::detached::DetachedLease;
use crate::error::Error;
use crate::keepalive::{self, KeepAlive};
use crate::lease::Lease;
use crate::release::{self, Released};
use crate::runtime::sleep_until_or;

/// Owns a lock and releases it, when told to or when dropped. Derefs to its [`Lease`].
///
/// # What drop does
///
/// It hands the release to the runtime and returns: it neither waits nor panics, on any thread, inside a runtime or
/// outside. Only a custom [`Runtime`](crate::Runtime) that panics can make it panic, and not during another panic. Where the runtime has shut down nothing is sent, and the keys are left to their TTL. Call
/// [`release`](Guard::release) to know what became of the lock, and [`close`](crate::Redlock::close) to wait for what
/// drops have begun.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    lease: Lease,
    released: bool,
}

impl Guard {
    /// Releases the lock on all nodes. Returns once a quorum confirmed; the rest goes on in the background.
    ///
    /// That the lock had expired or was lost before is an outcome, not an error.
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) when too few nodes answered. The release is then repeated in the
    /// background until the nodes answer.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any time, the release goes on in the background.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.released = true;
        release::release(&self.lease).await
    }

    /// Keeps the lock alive from now on, in a task of its own: renews it until it is released, dropped, leaked, detached or
    /// lost, or a limit of the settings is reached. Replaces the keep-alive that there was.
    ///
    /// The task starts when the caller next awaits something. Until then, blocking the thread may prevent renewals even
    /// if other threads of the runtime are free; [`LockRequest::keep_alive`](crate::LockRequest::keep_alive) has started
    /// the task by the time it returns.
    ///
    /// Renewals for which too few nodes answered are repeated while validity is left. It ends with one that cannot succeed
    /// any more: the lock is lost, or [superseded](crate::ErrorKind::Superseded). How it goes is in the lease's
    /// [`state`](Lease::state), and [`lost`](Lease::lost) tells the end of it.
    pub fn keep_alive(&self, settings: KeepAlive) {
        keepalive::keep_alive(&self.lease, settings);
    }

    /// Gives up the release: the lock stays until its validity has passed, and so keeps others out for the whole TTL. What
    /// kept it alive stops. For what is to happen at most once a TTL, whoever does it.
    pub fn leak(mut self) -> Lease {
        self.released = true;
        self.lease.next_keeper();
        self.lease.clone()
    }

    /// Gives the lock away: to another task, process or machine, which goes on with [`Redlock::resume`]. What kept it alive
    /// stops; the keys live on for what is left of their TTL. Here the lock counts as [lost](Loss::Detached).
    ///
    /// Waits for writes of the acquisition and of refills that are still under way, for two node timeouts at most. One whose
    /// outcome stays unknown is not chased, since that would delete the lock under whoever resumes it: it ends with its
    /// TTL.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it completes, the lock is released in the background.
    ///
    /// [`Redlock::resume`]: crate::Redlock::resume
    pub async fn detach(mut self) -> DetachedLease {
        self.lease.lose(Loss::Detached);
        let shared = self.lease.shared();
        // A process that is late gives its calls somewhat more time.
        let limit = shared.now() + 2 * shared.settings.node_timeout;
        while self.lease.is_written() && shared.now() < limit {
            let changed = self.lease.listen();
            if self.lease.is_written() {
                sleep_until_or(&*shared.runtime, limit, changed).await;
            }
        }
        self.released = true;
        self.lease.detached()
    }

    /// A view of the lock that outlives the guard, for other tasks: [`Lease`].
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease, released: false }
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// Hands the release to the runtime; see [`Guard`].
impl Drop for Guard {
    fn drop(&mut self) {
        if mem::replace(&mut self.released, true) {
            return;
        }
        let release = AssertUnwindSafe(|| release::in_background(&self.lease));
        if thread::panicking() {
            // A second panic would end the process if it left this function. The keys are then left to their TTL.
            drop(catch_unwind(release));
        } else {
            release.0();
        }
    }
}
