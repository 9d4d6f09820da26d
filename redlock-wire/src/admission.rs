//! Restart admission: a server that may have lost locks does not count until the lost ones have expired.
//!
//! Each database has a *stamp*, the key `redlock:admission`. It has the identity of the server, and the time from which
//! on the server has lost nothing. A [look](look) reads it together with the present identity, in one step. If the two
//! do not belong together, the look renews the stamp: the server was restarted, flushed, or promoted. A server counts
//! once its stamp is older than every lock that it may have lost.
//!
//! - The look is part of the handshake, so a connection is checked before it is used. Replies over it come from the
//!   server that was checked: a restart closes it.
//! - A flush is pushed to the connection before the reply to any later request. A full synchronization of a replica is
//!   such a flush. If pushes do not come in order, a [comparison](comparison) with the last look follows each vote: the
//!   stamp and `INFO replication` show a flush, and a promotion. If the connection may change its socket, a whole look
//!   follows instead. Several votes may have [one check in common](crate::common_check).
//! - Once a second, the [keeper](keeper) compares if no check follows votes, and otherwise looks. It also looks after the
//!   wait, and after a push.
//! - A server whose wall clock jumps ahead loses locks. The [clock](crate::clock) is read behind each vote and by each
//!   look. A jump renews the stamp, so that other programs learn of it.
//!
//! [`gate`](crate::gate) keeps the decisions, which [`rule`](crate::gate::rule) makes. The files here do the I/O.

pub(crate) mod checked;
pub(crate) mod comparison;
pub(crate) mod keeper;
pub(crate) mod look;

use self::look::Look;
use crate::stamp::STAMP;

/// The check that follows each vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// None: a flush is reported before the reply to any later request.
    Nothing,
    /// A comparison with the last look: a flush is not reported in order.
    Comparison,
    /// This look: the connection may change its socket.
    Look(Look),
}

/// Returns whether a resource's key, given in parts, is reserved for stamps.
pub(crate) fn is_stamp(key_prefix: &[u8], name: &[u8]) -> bool {
    let mut key = key_prefix.iter().chain(name);
    key.by_ref().take(STAMP.len()).eq(STAMP) && key.next().is_none_or(|next| *next == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_whose_key_is_the_stamp_are_reserved() {
        for at in 0..=STAMP.len() {
            assert!(is_stamp(&STAMP[..at], &STAMP[at..]), "for every end of the prefix");
        }
        assert!(is_stamp(b"", b"redlock:admission:x") && is_stamp(b"redlock:", b"admission:"));
        for free in ["redlock:admissio", "redlock:admissions", "x:redlock:admission", "invoice:42", ""] {
            assert!(!is_stamp(b"", free.as_bytes()), "{free}");
        }
    }
}
