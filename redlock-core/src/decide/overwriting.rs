//! The extensions that may set a TTL without a comparison, because they cannot shorten it.
//!
//! [`LockNode::renew`](crate::node::LockNode::renew) may set the TTL of a key as it is. That shortens it in two cases:
//!
//! - A longer TTL was sent before. It counts even if its outcome is unknown, and on any node.
//! - A longer TTL is sent afterwards and carried out before. This is possible if the renewal has no reply: a stopped
//!   server carries it out when it resumes.
//!
//! Thus a renewal overwrites only if no longer TTL was ever sent, and only over a connection that keeps the order. After a
//! renewal without a reply, a longer TTL is withheld from this node, unless it is sent on the same connection and so
//! follows the renewal. It is no longer withheld after a reply to a later extension on that connection.

use crate::node::ConnectionId;
use crate::types::ttl::Ttl;

/// The form in which an extension is sent to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The node may set the TTL.
    Overwrite,
    /// The node must compare the TTLs.
    Compare,
    /// Not sent: an earlier renewal may still shorten the TTL.
    Withheld,
}

/// The end of an extension on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The node replied.
    Replied,
    /// The extension was certainly not sent.
    NotSent,
    /// The extension may still be carried out.
    Unknown,
}

/// The extensions on one node that may still overwrite a TTL.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overwrites {
    /// The number of extensions whose calls have not ended.
    in_flight: u16,
    /// True if the last call began while no other was in flight.
    alone: bool,
    /// True if the outcome of an extension is unknown.
    unknown: bool,
    /// The shortest TTL that may still be set.
    shortest: Option<Ttl>,
    /// The connection of all of them, if it was the same.
    connection: Option<ConnectionId>,
}

impl Overwrites {
    /// Begins the call of an extension, and returns its form.
    ///
    /// `longest` is the longest TTL that was sent to any node, if all are known. `connection` is the connection as read
    /// before the call.
    pub(crate) fn begin(&mut self, ttl: Ttl, longest: Option<Ttl>, connection: Option<ConnectionId>) -> Form {
        let form = self.form(ttl, longest, connection);
        self.alone = self.in_flight == 0;
        self.in_flight += 1;
        if form == Form::Overwrite {
            let same = self.shortest.is_none() || self.connection == connection;
            self.connection = if same { connection } else { None };
            self.shortest = Some(self.shortest.map_or(ttl, |shortest| shortest.min(ttl)));
        }
        form
    }

    fn form(&self, ttl: Ttl, longest: Option<Ttl>, connection: Option<ConnectionId>) -> Form {
        if self.may_shorten(ttl, connection) {
            Form::Withheld
        } else if connection.is_some() && longest.is_some_and(|longest| ttl >= longest) {
            Form::Overwrite
        } else {
            Form::Compare
        }
    }

    /// Returns whether a renewal may shorten `ttl` if this is sent over `connection` now.
    pub(crate) fn may_shorten(&self, ttl: Ttl, connection: Option<ConnectionId>) -> bool {
        let behind = self.in_flight == 0 && connection.is_some() && connection == self.connection;
        !behind && self.shortest.is_some_and(|shortest| shortest < ttl)
    }

    /// Returns whether a renewal with a shorter TTL is in flight.
    pub(crate) fn is_in_flight_before(&self, ttl: Ttl) -> bool {
        self.in_flight > 0 && self.shortest.is_some_and(|shortest| shortest < ttl)
    }

    /// Ends the call of an extension. `connection` is the connection as read after the call.
    ///
    /// Connections never come back. Thus if it is that of the renewals, the extension used it too.
    pub(crate) fn end(&mut self, end: End, connection: Option<ConnectionId>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unknown |= end == End::Unknown;
        let behind = end == End::Replied && self.alone && connection == self.connection;
        if self.in_flight == 0 && (behind || !self.unknown) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const A: Option<ConnectionId> = Some(ConnectionId(1));
    const B: Option<ConnectionId> = Some(ConnectionId(2));

    fn ttl(seconds: u64) -> Ttl {
        Ttl::new(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn only_the_longest_ttl_of_an_own_lease_overwrites_and_only_in_order() {
        let form =
            |seconds, longest, connection| Overwrites::default().begin(ttl(seconds), longest, connection);
        let longest = Some(ttl(10));
        assert_eq!(Form::Overwrite, form(10, longest, A));
        assert_eq!(Form::Overwrite, form(11, longest, A));
        assert_eq!(Form::Compare, form(9, longest, A));
        assert_eq!(Form::Compare, form(10, longest, None), "a request may arrive twice, or late");
        assert_eq!(Form::Compare, form(10, None, A), "the TTLs of another process are unknown");
    }

    fn lost(connection: Option<ConnectionId>) -> Overwrites {
        let mut overwrites = Overwrites::default();
        assert_eq!(Form::Overwrite, overwrites.begin(ttl(10), Some(ttl(10)), connection));
        overwrites.end(End::Unknown, connection);
        overwrites
    }

    #[test]
    fn a_longer_ttl_is_withheld_after_a_renewal_without_a_reply() {
        let longer = |connection| lost(A).begin(ttl(30), Some(ttl(10)), connection);
        assert_eq!(Form::Withheld, longer(B));
        assert_eq!(Form::Withheld, longer(None));
        assert_eq!(Form::Overwrite, longer(A), "it follows the renewal");
        assert_eq!(
            Form::Overwrite,
            lost(A).begin(ttl(10), Some(ttl(10)), B),
            "the same TTL cannot be shortened"
        );

        let mut in_flight = Overwrites::default();
        in_flight.begin(ttl(10), Some(ttl(10)), A);
        assert!(in_flight.is_in_flight_before(ttl(30)) && !in_flight.is_in_flight_before(ttl(10)));
        assert_eq!(Form::Withheld, in_flight.begin(ttl(30), Some(ttl(10)), A), "it may be sent first");
    }

    #[test]
    fn renewals_with_known_outcomes_withhold_nothing() {
        for end in [End::Replied, End::NotSent] {
            let mut overwrites = Overwrites::default();
            overwrites.begin(ttl(10), Some(ttl(10)), A);
            overwrites.end(end, A);
            assert_eq!(Form::Overwrite, overwrites.begin(ttl(30), Some(ttl(10)), B), "{end:?}");
        }
    }

    #[test]
    fn a_later_reply_on_the_same_connection_proves_that_the_renewal_is_over() {
        let after = |end, connection| {
            let mut overwrites = lost(A);
            overwrites.begin(ttl(10), Some(ttl(10)), connection);
            overwrites.end(end, connection);
            overwrites.begin(ttl(30), Some(ttl(10)), B)
        };
        assert_eq!(Form::Overwrite, after(End::Replied, A));
        assert_eq!(Form::Withheld, after(End::Replied, B), "another connection proves nothing");
        assert_eq!(Form::Withheld, after(End::NotSent, A));
        assert_eq!(Form::Withheld, after(End::Unknown, A));

        let mut overlapping = Overwrites::default();
        for _ in 0..2 {
            overlapping.begin(ttl(10), Some(ttl(10)), A);
        }
        overlapping.end(End::Unknown, A);
        overlapping.end(End::Replied, A);
        assert_eq!(
            Form::Withheld,
            overlapping.begin(ttl(30), Some(ttl(10)), B),
            "the reply may be that of the first one"
        );
    }
}
