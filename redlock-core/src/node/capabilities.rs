//! The optional operations that a backend supports.

use std::time::Duration;

/// The optional operations of a backend. There are none by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a separate operation
#[non_exhaustive]
pub struct Capabilities {
    /// Support for [`Request::Inspect`](super::Request::Inspect).
    pub inspect: bool,
    /// Support for [`Request::Watch`](super::Request::Watch).
    ///
    /// May change with the connection: the core reads it before each use.
    pub watch: bool,
    /// Support for fencing.
    ///
    /// The operations are [`AcquireFenced`](super::Request::AcquireFenced), [`Confirm`](super::Request::Confirm) and
    /// [`Refill`](super::Request::Refill).
    pub fencing: bool,
    /// Support for [`Keep`](super::Request::Keep).
    pub keep: bool,
    /// Support for readers: [`AcquireShared`](super::Request::AcquireShared).
    ///
    /// A backend that supports [`Watch`](super::Request::Watch) as well supports
    /// [`WatchShared`](super::Request::WatchShared).
    pub shared: bool,
    /// The time for which a counter is kept after the last fenced lock has expired.
    ///
    /// The default is 24 h. It must not change while the node is in use. If nodes differ, the shortest time counts.
    ///
    /// The time also limits the influence of one node on fencing tokens. The backend rejects numbers that are further
    /// ahead of the node's clock: see [`FencingToken::is_plausible`](crate::FencingToken::is_plausible). A node whose
    /// counter is further away from those of the other nodes has no vote.
    pub fence_retention: Duration,
}

/// Supports no optional operation.
impl Default for Capabilities {
    fn default() -> Self {
        let fence_retention = Duration::from_secs(24 * 60 * 60);
        Self { inspect: false, watch: false, fencing: false, keep: false, shared: false, fence_retention }
    }
}

impl Capabilities {
    /// Adds support for [`Inspect`](super::Request::Inspect).
    ///
    /// ```
    /// # use redlock_core::node::Capabilities;
    /// // The backend carries out `Request::Inspect`, and no other optional request.
    /// let capabilities = Capabilities::default().with_inspect();
    /// assert!(capabilities.inspect && !capabilities.watch);
    /// ```
    #[must_use]
    pub fn with_inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Adds support for [`Watch`](super::Request::Watch).
    ///
    /// ```
    /// # use redlock_core::node::Capabilities;
    /// # let is_subscribed = true;
    /// let mut capabilities = Capabilities::default().with_inspect();
    /// if is_subscribed {
    ///     // The present connection delivers notifications.
    ///     capabilities = capabilities.with_watch();
    /// }
    /// assert!(capabilities.watch);
    /// ```
    #[must_use]
    pub fn with_watch(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Adds support for [fencing tokens](super::Request::AcquireFenced).
    ///
    /// ```
    /// # use redlock_core::node::Capabilities;
    /// // The backend carries out `AcquireFenced`, `Confirm` and `Refill`.
    /// let capabilities = Capabilities::default().with_fencing();
    /// assert!(capabilities.fencing);
    /// ```
    #[must_use]
    pub fn with_fencing(mut self) -> Self {
        self.fencing = true;
        self
    }

    /// Adds support for [`Keep`](super::Request::Keep).
    ///
    /// ```
    /// # use redlock_core::node::Capabilities;
    /// // Without it, `Guard::keep_for` fails with `ErrorKind::Unsupported`.
    /// let capabilities = Capabilities::default().with_keep();
    /// assert!(capabilities.keep && !Capabilities::default().keep);
    /// ```
    #[must_use]
    pub fn with_keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Adds support for [readers](crate::node::Request::AcquireShared).
    ///
    /// ```
    /// # use redlock_core::node::Capabilities;
    /// // With `Watch`, the backend carries out `WatchShared`, too.
    /// let capabilities = Capabilities::default().with_watch().with_shared();
    /// assert!(capabilities.watch && capabilities.shared);
    /// ```
    #[must_use]
    pub fn with_shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Sets how long [counters are kept](Capabilities::fence_retention).
    ///
    /// The time begins when the last fenced lock has expired.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Capabilities;
    /// // The server deletes a counter a week after its last fenced lock has expired.
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let capabilities = Capabilities::default().with_fencing();
    /// let capabilities = capabilities.with_fence_retention(week);
    /// assert_eq!(week, capabilities.fence_retention);
    /// ```
    #[must_use]
    pub fn with_fence_retention(mut self, retention: Duration) -> Self {
        self.fence_retention = retention;
        self
    }
}
