//! What a backend supports.

use std::time::Duration;

/// The constant facts about a node: the optional operations that it supports, and its limits.
///
/// There are none by default. The core reads them once, when a [`Redlock`](crate::Redlock) is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a separate operation
#[non_exhaustive]
pub struct Profile {
    /// Support for [`Request::Inspect`](super::Request::Inspect).
    pub inspect: bool,
    /// Support for [`Request::Watch`](super::Request::Watch).
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
    /// Support for the [places](super::Place) of waiting requests.
    pub places: bool,
    /// The time for which a counter is kept after the last fenced lock has expired.
    ///
    /// The default is 24 h. It must not change while the node is in use. If nodes differ, the shortest time counts.
    ///
    /// The time also limits the influence of one node on fencing tokens. The backend rejects numbers that are further
    /// ahead of the node's clock: see [`FencingToken::is_plausible`](crate::FencingToken::is_plausible). A node whose
    /// counter is further away from those of the other nodes has no vote.
    pub fence_retention: Duration,
    /// The longest TTL that clients may request, if locks are protected against [lost data](super::Admission).
    ///
    /// The core rejects longer TTLs with [`InvalidInput`](crate::ErrorKind::InvalidInput), before it sends anything. The
    /// shortest of all nodes applies. The time of [`Keep`](super::Request::Keep) is not limited, so a key that is kept
    /// longer than this is not protected. The default is `None`: there is no limit.
    pub longest_ttl: Option<Duration>,
}

/// Supports no optional operation.
impl Default for Profile {
    fn default() -> Self {
        let fence_retention = Duration::from_secs(24 * 60 * 60);
        Self {
            inspect: false,
            watch: false,
            fencing: false,
            keep: false,
            shared: false,
            places: false,
            fence_retention,
            longest_ttl: None,
        }
    }
}

impl Profile {
    /// Adds support for [`Inspect`](super::Request::Inspect).
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// // The backend carries out `Request::Inspect`, and no other optional request.
    /// let profile = Profile::default().with_inspect();
    /// assert!(profile.inspect && !profile.watch);
    /// ```
    #[must_use]
    pub fn with_inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Adds support for [`Watch`](super::Request::Watch).
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// # let is_subscribed = true;
    /// let mut profile = Profile::default().with_inspect();
    /// if is_subscribed {
    ///     // The present connection delivers notifications.
    ///     profile = profile.with_watch();
    /// }
    /// assert!(profile.watch);
    /// ```
    #[must_use]
    pub fn with_watch(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Adds support for [fencing tokens](super::Request::AcquireFenced).
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// // The backend carries out `AcquireFenced`, `Confirm` and `Refill`.
    /// let profile = Profile::default().with_fencing();
    /// assert!(profile.fencing);
    /// ```
    #[must_use]
    pub fn with_fencing(mut self) -> Self {
        self.fencing = true;
        self
    }

    /// Adds support for [`Keep`](super::Request::Keep).
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// // Without it, `Guard::keep_for` fails with `ErrorKind::Unsupported`.
    /// let profile = Profile::default().with_keep();
    /// assert!(profile.keep && !Profile::default().keep);
    /// ```
    #[must_use]
    pub fn with_keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Adds support for [readers](crate::node::Request::AcquireShared).
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// // With `Watch`, the backend carries out `WatchShared`, too.
    /// let profile = Profile::default().with_watch().with_shared();
    /// assert!(profile.watch && profile.shared);
    /// ```
    #[must_use]
    pub fn with_shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Adds support for the [places](super::Place) of waiting requests.
    ///
    /// ```
    /// # use redlock_core::node::Profile;
    /// // A release reserves the resource for the request that has waited longest.
    /// let profile = Profile::default().with_watch().with_places();
    /// assert!(profile.places);
    /// ```
    #[must_use]
    pub fn with_places(mut self) -> Self {
        self.places = true;
        self
    }

    /// Sets how long [counters are kept](Profile::fence_retention).
    ///
    /// The time begins when the last fenced lock has expired.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Profile;
    /// // The server deletes a counter a week after its last fenced lock has expired.
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let profile = Profile::default().with_fencing();
    /// let profile = profile.with_fence_retention(week);
    /// assert_eq!(week, profile.fence_retention);
    /// ```
    #[must_use]
    pub fn with_fence_retention(mut self, retention: Duration) -> Self {
        self.fence_retention = retention;
        self
    }

    /// Sets the [longest TTL](Profile::longest_ttl).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Profile;
    /// // The server has lost no lock that was granted more than 30 s ago.
    /// let profile = Profile::default().with_longest_ttl(Duration::from_secs(30));
    /// assert_eq!(Some(Duration::from_secs(30)), profile.longest_ttl);
    /// ```
    #[must_use]
    pub fn with_longest_ttl(mut self, longest: Duration) -> Self {
        self.longest_ttl = Some(longest);
        self
    }
}
