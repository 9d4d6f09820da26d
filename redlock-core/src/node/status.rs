//! The present state of a node.

use std::time::Duration;

use crate::types::clock_rate::ClockRate;
use crate::types::identity::ConnectionId;
use crate::types::quarantine::Quarantine;

/// The present state of a node, for hints and for display.
///
/// No vote and no cleanup depends on it: the facts about a request are in its [`Exchange`](super::Exchange).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// The connection in use. After a change, a kept lock is renewed early.
    pub connection: Option<ConnectionId>,
    /// The quarantine of the server, during which a waiting client counts it as taken.
    pub quarantine: Option<Quarantine>,
    /// True if some votes of the node do not count, although others do: a shard of a cluster is in quarantine.
    pub is_partly_quarantined: bool,
    /// The measured rate of the server's clock, which a health check reports.
    pub clock_rate: Option<ClockRate>,
    /// The longest TTL that the server keeps for another program, if it is longer than the
    /// [stated one](super::Profile::longest_ttl). A health check reports it.
    pub longer_ttl: Option<Duration>,
}

impl Status {
    /// Sets the connection in use.
    ///
    /// ```
    /// # use redlock_core::node::{ConnectionId, Status};
    /// let status = Status::default().over(ConnectionId(7));
    /// assert_eq!(Some(ConnectionId(7)), status.connection);
    /// ```
    #[must_use]
    pub fn over(mut self, connection: ConnectionId) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Sets the quarantine of the server.
    ///
    /// ```
    /// # use redlock_core::node::{Quarantine, QuarantineReason, Status};
    /// let status = Status::default().in_quarantine(Quarantine::new(QuarantineReason::Restarted));
    /// assert!(status.quarantine.is_some());
    /// ```
    #[must_use]
    pub fn in_quarantine(mut self, quarantine: Quarantine) -> Self {
        self.quarantine = Some(quarantine);
        self
    }

    /// Sets whether some votes of the node do not count, although others do.
    ///
    /// The quarantine is logged once, and ends when no vote of the node is without effect.
    ///
    /// ```
    /// # use redlock_core::node::Status;
    /// let status = Status::default().partly_quarantined(true);
    /// assert!(status.is_partly_quarantined && status.quarantine.is_none());
    /// ```
    #[must_use]
    pub fn partly_quarantined(mut self, is_partly_quarantined: bool) -> Self {
        self.is_partly_quarantined = is_partly_quarantined;
        self
    }

    /// Sets the rate of the server's clock.
    ///
    /// ```
    /// # use redlock_core::node::{ClockMeter, Status};
    /// # let meter = ClockMeter::default();
    /// // `meter` records readings of the server's clock.
    /// let status = Status::default().with_clock_rate(meter.rate());
    /// assert_eq!(meter.rate(), status.clock_rate);
    /// ```
    #[must_use]
    pub fn with_clock_rate(mut self, rate: Option<ClockRate>) -> Self {
        self.clock_rate = rate;
        self
    }

    /// Sets the longest TTL that the server keeps for another program.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Status;
    /// // This program states 30 s, and the server has quarantines for locks of five minutes.
    /// let status = Status::default().with_longer_ttl(Some(Duration::from_secs(300)));
    /// assert_eq!(Some(Duration::from_secs(300)), status.longer_ttl);
    /// ```
    #[must_use]
    pub fn with_longer_ttl(mut self, longest: Option<Duration>) -> Self {
        self.longer_ttl = longest;
        self
    }
}
