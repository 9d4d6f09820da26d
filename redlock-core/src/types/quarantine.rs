//! The time in which the votes of a node do not count, because it may have lost locks, or node lists do not agree.

use std::fmt;
use std::time::Duration;

use crate::types::ttl::EXPIRY_GRANULE;

/// The time in which the votes of a node do not count, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quarantine {
    /// The reason.
    pub reason: QuarantineReason,
    /// The time until the votes count again, if it is known.
    pub remaining: Option<Duration>,
}

/// The reason for which the votes of a node do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuarantineReason {
    /// There is no connection, or the server has not been checked over it.
    NotChecked,
    /// The connection or the admission changed while the request was in flight.
    Changed,
    /// The server was started again.
    Restarted,
    /// The server has lost its data, or is used for the first time.
    DataLost,
    /// The server was a replica before.
    Promoted,
    /// Another server was promoted, or the same one was started again. Only of nodes whose servers can be promoted.
    ///
    /// A promoted server may lack the latest locks that the former master has granted.
    PromotedOrRestarted,
    /// One of the other reasons applies, which another client has detected.
    Recent,
    /// The wall clock of the server has jumped ahead, or runs fast, so keys have expired early.
    ClockJumped,
    /// This program has not watched the wall clock of the server for long enough.
    ClockNotWatched,
    /// The server is a replica.
    Replica,
    /// The server does not permit the check.
    NoPermission,
    /// A later version of this library has checked the server.
    LaterVersion,
    /// Another program lists other nodes, and the lists [must agree](crate::Builder::node_lists_must_agree).
    OtherNodeList,
    /// The node list is not compared on this node, and the lists [must agree](crate::Builder::node_lists_must_agree).
    ///
    /// The comparison has not been carried out yet, or too long ago, or the server rejects it.
    NodeListNotCompared,
}

/// The shortest quarantine.
///
/// It covers the counters of fenced locks. A new counter starts with the time of the server, in steps of 4.2 s. The clock
/// may differ by 1.8 s from the clock that the lost counters followed.
const SHORTEST: Duration = Duration::from_secs(6);

impl Quarantine {
    /// Creates a quarantine of unknown duration.
    ///
    /// ```
    /// # use redlock_core::node::{Admission, Quarantine, QuarantineReason};
    /// // While the backend has no connection to its server.
    /// let quarantine = Quarantine::new(QuarantineReason::NotChecked);
    /// let shown = "may have lost locks (server not checked yet)";
    /// assert_eq!(shown, quarantine.to_string());
    /// let admission = Admission::Quarantined(quarantine);
    /// ```
    #[must_use]
    pub fn new(reason: QuarantineReason) -> Self {
        Self { reason, remaining: None }
    }

    /// Sets the time until the votes count again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Quarantine, QuarantineReason};
    /// // The server has been up for 10 s, and the longest TTL is 30 s.
    /// let whole = Quarantine::duration(Duration::from_secs(30));
    /// let remaining = whole.saturating_sub(Duration::from_secs(10));
    /// let quarantine = Quarantine::new(QuarantineReason::Restarted);
    /// let quarantine = quarantine.ending_in(remaining);
    /// assert!(quarantine.to_string().ends_with("counts again in 20.3s"));
    /// ```
    #[must_use]
    pub fn ending_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }

    /// Returns how long a node stays in quarantine after it has lost locks.
    ///
    /// The time is 1 % and 2 ms longer than the [longest TTL](crate::node::Profile::longest_ttl), and at least 6 s.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use redlock_core::node::Quarantine;
    ///
    /// let seconds = Duration::from_secs;
    /// assert_eq!(seconds(6), Quarantine::duration(seconds(1)));
    /// assert_eq!(Duration::from_millis(30_302), Quarantine::duration(seconds(30)));
    /// ```
    #[must_use]
    pub fn duration(longest_ttl: Duration) -> Duration {
        longest_ttl.saturating_add(longest_ttl / 100).saturating_add(EXPIRY_GRANULE).max(SHORTEST)
    }
}

/// Formats as `may have lost locks (server restarted), counts again in 12.3s`.
///
/// If the node may not have lost locks, it formats as the reason: `another program lists other nodes`.
impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            QuarantineReason::OtherNodeList | QuarantineReason::NodeListNotCompared => self.reason.fmt(f)?,
            reason => write!(f, "may have lost locks ({reason})")?,
        }
        match self.remaining {
            Some(remaining) => write!(f, ", counts again in {remaining:.1?}"),
            None => Ok(()),
        }
    }
}

/// Formats as a phrase, such as `server restarted`.
#[cfg(any(feature = "metrics", feature = "serde"))]
impl QuarantineReason {
    /// Returns the name in metrics and serialized reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotChecked => "not_checked",
            Self::Changed => "changed",
            Self::Restarted => "restarted",
            Self::DataLost => "data_lost",
            Self::Promoted => "promoted",
            Self::PromotedOrRestarted => "promoted_or_restarted",
            Self::Recent => "recent",
            Self::ClockJumped => "clock_jumped",
            Self::ClockNotWatched => "clock_not_watched",
            Self::Replica => "replica",
            Self::NoPermission => "no_permission",
            Self::LaterVersion => "later_version",
            Self::OtherNodeList => "other_node_list",
            Self::NodeListNotCompared => "node_list_not_compared",
        }
    }
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotChecked => "server not checked yet",
            Self::Changed => "connection changed during the request",
            Self::Restarted => "server restarted",
            Self::DataLost => "server without its data, or used for the first time",
            Self::Promoted => "server promoted from a replica",
            Self::PromotedOrRestarted => "another server promoted, or the same one restarted",
            Self::Recent => "restart, promotion, lost data or clock jump, noticed by another client",
            Self::ClockJumped => "clock of the server jumped ahead, or runs fast",
            Self::ClockNotWatched => "clock of the server not watched for long enough",
            Self::Replica => "server is a replica",
            Self::NoPermission => "no permission to check the server",
            Self::LaterVersion => "server checked by a later version",
            Self::OtherNodeList => "another program lists other nodes",
            Self::NodeListNotCompared => "node list not compared with those of other programs",
        })
    }
}
