//! The losses of data, and the remaining data after each.

use std::fmt;

use crate::admission::clock::Readings;
use crate::admission::protocol::Admission;
use crate::admission::scope::Transport;
use crate::admission::state::{Check, Data, Node, Origin, Request, Stamp, State, Vote};
use crate::admission::variant::Variant;

/// An event that loses data of a node, or could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server restarts without data.
    RestartEmpty,
    /// The server restarts with an older copy of the data, or a replica with this copy is promoted to replace it.
    RestartOlder,
    /// The server restarts with all data.
    RestartWhole,
    /// The server keeps running, and loses all data.
    Flush,
    /// The server becomes a replica, takes over an older copy of the data, and becomes the master again.
    Failback,
    /// The clock of a server without locks is set forward, beyond every wait. This breaks an assumption.
    ClockForward,
}

impl Loss {
    /// All losses under which the rule must hold.
    pub const ALL: &'static [Self] =
        &[Self::RestartEmpty, Self::RestartOlder, Self::RestartWhole, Self::Flush, Self::Failback];

    /// All restarts.
    pub const RESTARTS: &'static [Self] = &[Self::RestartEmpty, Self::RestartOlder, Self::RestartWhole];

    /// The losses that need no older copy.
    pub const WITHOUT_COPIES: &'static [Self] = &[Self::RestartEmpty, Self::RestartWhole, Self::Flush];

    /// Returns a short name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RestartEmpty => "restart empty",
            Self::RestartOlder => "restart older",
            Self::RestartWhole => "restart whole",
            Self::Flush => "flush",
            Self::Failback => "failback",
            Self::ClockForward => "clock forward",
        }
    }

    /// Returns true if the loss needs an older copy of the data.
    pub(crate) fn takes_copy(self) -> bool {
        matches!(self, Self::RestartOlder | Self::Failback)
    }

    /// Returns true if the loss is possible on a node.
    pub(crate) fn is_possible(self, node: &Node) -> bool {
        match self {
            Self::RestartOlder | Self::Failback => node.copy.is_some(),
            Self::ClockForward => node.data.is_free() && node.data.stamp.origin == Origin::Present,
            Self::RestartEmpty | Self::RestartWhole | Self::Flush => true,
        }
    }

    fn is_restart(self) -> bool {
        Self::RESTARTS.contains(&self)
    }
}

impl Admission {
    pub(crate) fn lose(self, state: &mut State, number: usize, loss: Loss) {
        state.losses += 1;
        let admitted = [0, 1].map(|client| self.is_admitted(state, client, number));
        let node = &mut state.nodes[number];
        let before = node.data.stamp;
        node.data = match loss {
            Loss::RestartEmpty | Loss::Flush => Data::default(),
            Loss::RestartOlder | Loss::Failback => node.copy.unwrap_or_default(),
            Loss::RestartWhole => node.data,
            Loss::ClockForward => {
                node.data.stamp.age = self.scope.longest_ttl();
                return;
            }
        };
        if self.variant == Variant::UptimeAlone {
            // The time since the start of the process does not depend on the data.
            node.data.stamp = if loss.is_restart() { Stamp { age: 0, ..before } } else { before };
        } else if self.replaces_identity(loss) {
            let copy = node.copy.as_mut().map(|copy| &mut copy.stamp);
            for stamp in [Some(&mut node.data.stamp), copy].into_iter().flatten() {
                self.become_stale(stamp);
            }
        }
        for (link, was_admitted) in node.links.iter_mut().zip(admitted) {
            (link.knows_stamp, link.finds_outdated) = (false, false);
            // Only a restart gives the server another run ID.
            if self.scope.clocks.is_some() && link.knew && loss.is_restart() {
                (link.is_other_server, link.readings) = (true, Readings::default());
            }
            if loss != Loss::Flush && link.acquire == Request::Sent {
                link.acquire = Request::None;
            }
            match self.check_after(loss, was_admitted) {
                None => {}
                Some(check) => {
                    (link.check, link.age, link.reply) = (check, 0, None);
                    link.vote = if link.vote == Vote::Kept { Vote::None } else { link.vote };
                }
            }
        }
    }

    /// Returns true if the stamps that were written before do not describe the server any more.
    fn replaces_identity(self, loss: Loss) -> bool {
        match self.variant {
            Variant::StampWithoutIdentity => false,
            Variant::RunIdAlone => loss.is_restart(),
            _ => loss.is_restart() || loss == Loss::Failback,
        }
    }

    /// Returns what a link knows after a loss; `None` if it knows the same as before.
    fn check_after(self, loss: Loss, was_admitted: bool) -> Option<Check> {
        let notified = loss.is_restart() || self.scope.transport == Transport::Pushes;
        match self.variant {
            Variant::UptimeAlone if !loss.is_restart() => None,
            Variant::FlushIsNotNotified | Variant::CountedByTheNewLink
                if loss == Loss::Flush && was_admitted =>
            {
                Some(Check::Unaware)
            }
            _ => notified.then_some(Check::Unchecked),
        }
    }

    /// Makes a stamp one of an earlier server. It keeps what a look reads in such a stamp.
    fn become_stale(self, stamp: &mut Stamp) {
        if stamp.origin == Origin::Missing {
            return;
        }
        stamp.origin = Origin::Earlier;
        if self.variant != Variant::StaleTimeIsKept {
            stamp.age = 0;
            if stamp.longest == 0 {
                *stamp = Stamp::default();
            }
        }
    }

    /// Returns the data as a copy contains it. A stamp that no look will accept or read is left out.
    pub(crate) fn copied(self, data: Data) -> Data {
        let matters = matches!(
            self.variant,
            Variant::StampWithoutIdentity | Variant::RunIdAlone | Variant::StaleTimeIsKept
        );
        let stamp = match data.stamp {
            stamp if matters => stamp,
            stamp if stamp.longest > 0 => Stamp { origin: Origin::Earlier, age: 0, ..stamp },
            _ => Stamp::default(),
        };
        Data { stamp, ..data }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RestartEmpty => "restarts without data",
            Self::RestartOlder => "restarts with the older copy",
            Self::RestartWhole => "restarts with all data",
            Self::Flush => "is flushed",
            Self::Failback => "becomes a replica, takes over the older copy, and becomes the master again",
            Self::ClockForward => "sets its clock forward",
        })
    }
}
