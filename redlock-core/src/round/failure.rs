//! The failure of one round. It decides about retries, and becomes a public error only at the edge.

use std::fmt;

use crate::decide::backoff::RetryCause;
use crate::decide::quorums::Members;
use crate::decide::standing::Standing;
use crate::decide::tally::{Cause as Lost, Tally};
use crate::decide::votes::Votes;
use crate::round::nodes::Nodes;
use crate::types::error::{Error, ErrorKind};
use crate::types::lease_state::Loss;
use crate::types::node_error::NodeErrorKind;
use crate::types::position::Position;
use crate::types::report::{NodeReports, Outcome};
use crate::types::token::Token;

/// The failure of one round.
#[derive(Debug)]
pub(crate) struct Failure(Box<Inner>);

#[derive(Debug)]
struct Inner {
    aim: Aim,
    cause: Cause,
    /// The votes at the time of the decision.
    votes: Votes,
    /// Why the lock is no longer held, if it was held before.
    loss: Option<Loss>,
    /// The place of the request on the nodes, if the attempt has kept it.
    place: Option<Standing>,
}

/// What the round was to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Lock,
    Extend,
    Keep,
    Release,
    Inspect,
}

/// Why a round failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another client has the resources, on a quorum of nodes.
    Contended,
    /// During a change of the nodes: another client has the resources on a quorum of one list. It may not have the lock.
    ContendedOnOneList,
    /// Another client took the resources before the fencing token was confirmed.
    ContendedBeforeConfirmation,
    /// The nodes deny, and name no client on a quorum of them.
    Split,
    /// A quorum has lost the keys of the lease.
    KeysLost,
    /// A newer claim has advanced the fencing counters.
    Superseded,
    /// Too few nodes replied.
    NoQuorum,
    /// On too many nodes, a key holds a value that is not a lock.
    WrongType,
    /// On too many nodes, a fencing counter is unusable.
    DamagedCounter,
    /// A quorum granted when no validity was left, or after the end of the lease.
    TooSlow,
    /// The lease ended before the round, or during it.
    Ended(Loss),
}

impl Failure {
    pub(crate) fn new(aim: Aim, cause: Cause, votes: Votes) -> Self {
        Self(Box::new(Inner { aim, cause, votes, loss: None, place: None }))
    }

    /// Creates the failure of a round that was lost for lack of votes.
    ///
    /// Defects of nodes are the cause if they alone exclude a quorum.
    pub(crate) fn no_quorum(aim: Aim, votes: Votes) -> Self {
        let cause = match () {
            () if votes.excludes_quorum(NodeErrorKind::WrongType) => Cause::WrongType,
            () if votes.excludes_quorum(NodeErrorKind::DamagedCounter) => Cause::DamagedCounter,
            () => Cause::NoQuorum,
        };
        Self::new(aim, cause, votes)
    }

    /// Creates the failure of a round about a held lease.
    pub(crate) fn of_lease(aim: Aim, lost: Lost, votes: Votes) -> Self {
        let cause = match lost {
            Lost::Denied => Cause::KeysLost,
            Lost::Superseded => Cause::Superseded,
            Lost::NoQuorum => Cause::NoQuorum,
        };
        Self::new(aim, cause, votes)
    }

    /// Adds the place that the attempt has kept.
    pub(crate) fn keeps_place(mut self, place: Option<Standing>) -> Self {
        self.0.place = place;
        self
    }

    /// Takes the place that the attempt has kept.
    pub(crate) fn take_place(&mut self) -> Option<Standing> {
        self.0.place.take()
    }

    /// Adds why the lock is no longer held.
    pub(crate) fn with_loss(mut self, loss: Loss) -> Self {
        self.0.loss = Some(loss);
        self
    }

    /// Creates the failure of a round about a lease that has ended.
    pub(crate) fn ended(aim: Aim, loss: Loss, votes: Votes) -> Self {
        Self::new(aim, Cause::Ended(loss.clone()), votes).with_loss(loss)
    }

    pub(crate) fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// Replaces the cause, because the caller knows more.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.0.cause = cause;
    }

    /// Returns the holder that caused the denial of a node, if the node reported it.
    pub(crate) fn holder_on(&self, node: usize) -> Option<&Token> {
        match self.0.votes.outcome(node) {
            Outcome::Denied(denial) => denial.holder.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the vote of the node did not count because of a quarantine.
    pub(crate) fn is_uncounted_on(&self, node: usize) -> bool {
        matches!(self.0.votes.outcome(node), Outcome::Quarantined { .. })
    }

    /// Returns the holder that caused a denial, if a node reported it.
    pub(crate) fn holder(&self) -> Option<&Token> {
        self.0.votes.holder()
    }

    /// Returns the position of the request among the waiters, if a quorum of nodes stated it.
    pub(crate) fn position(&self) -> Option<Position> {
        self.0.votes.position()
    }

    /// Returns why another attempt may succeed; `None` if none can.
    pub(crate) fn retry_cause(&self) -> Option<RetryCause> {
        match self.0.cause {
            Cause::Contended
            | Cause::ContendedOnOneList
            | Cause::ContendedBeforeConfirmation
            | Cause::Split => Some(RetryCause::Contended),
            Cause::NoQuorum | Cause::TooSlow => Some(RetryCause::Unusable),
            _ => None,
        }
    }

    /// Returns whether the votes were split: no client is known to hold the lock.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self.0.cause, Cause::Split | Cause::ContendedOnOneList)
    }

    /// Returns the kind of the public error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match &self.0.cause {
            Cause::Contended | Cause::ContendedOnOneList | Cause::ContendedBeforeConfirmation => {
                ErrorKind::Contended
            }
            Cause::Split => ErrorKind::Undecided,
            Cause::Superseded => ErrorKind::Superseded,
            Cause::NoQuorum => ErrorKind::NoQuorum,
            Cause::WrongType => ErrorKind::WrongType,
            Cause::DamagedCounter => ErrorKind::DamagedCounter,
            Cause::TooSlow | Cause::Ended(Loss::Expired | Loss::Unreachable | Loss::Superseded) => {
                ErrorKind::TooSlow
            }
            Cause::KeysLost | Cause::Ended(_) => ErrorKind::Lost,
        }
    }

    /// Creates the public error about `what`: the names of a lock.
    pub(crate) fn into_error(self, what: impl fmt::Display, nodes: &Nodes) -> Error {
        let kind = self.kind();
        let message = self.message(what);
        let Inner { votes, loss, .. } = *self.0;
        let (quarantine, position) = (votes.until_quorum(), votes.position());
        let reports = NodeReports(votes.reports(nodes.now(), |node| nodes.label(node)));
        let error = Error::new(kind, message).with_nodes(reports, quarantine).at(position);
        match loss {
            Some(loss) => error.with_loss(loss),
            None => error,
        }
    }

    fn message(&self, what: impl fmt::Display) -> String {
        let Inner { aim, cause, votes, .. } = &*self.0;
        let (tally, nodes) = (votes.tally(), votes.len());
        let (verb, granted) = match aim {
            Aim::Lock => ("lock", "granted"),
            Aim::Extend => ("extend the lock on", "extended"),
            Aim::Keep => ("keep the lock on", "kept"),
            Aim::Release => ("confirm the release of", "replied"),
            Aim::Inspect => ("inspect", "replied"),
        };
        let count = || counts(votes, granted);
        let failures = |kind| votes.failures(kind);
        match (cause, self.holder()) {
            (
                Cause::Contended | Cause::ContendedOnOneList | Cause::ContendedBeforeConfirmation,
                Some(holder),
            ) if *holder == Token::of_readers() => {
                let count = count();
                format!(
                    "{what} is locked by readers ({count}); if this program is one of them, it must release first"
                )
            }
            (
                Cause::Contended | Cause::ContendedOnOneList | Cause::ContendedBeforeConfirmation,
                Some(holder),
            ) if holder.is_place() => {
                format!("{what} is reserved for a client that has waited longer ({})", count())
            }
            (
                Cause::Contended | Cause::ContendedOnOneList | Cause::ContendedBeforeConfirmation,
                Some(holder),
            ) => {
                format!("{what} is locked by {holder} ({})", count())
            }
            (Cause::Contended | Cause::ContendedOnOneList, None) => {
                format!("{what} is locked by another client ({})", count())
            }
            (Cause::ContendedBeforeConfirmation, None) => {
                format!("another client locked {what} before its fencing token was confirmed ({})", count())
            }
            (Cause::Split, _) => {
                let count = count();
                format!(
                    "cannot lock {what}: the votes are split, and no client is known to hold it ({count})"
                )
            }
            (Cause::KeysLost, _) => {
                let denied = tally.denied();
                format!(
                    "lost the lock on {what}: its keys are gone or owned by another client on {denied} of {nodes} nodes"
                )
            }
            (Cause::Superseded, _) => format!(
                "cannot {verb} {what}: a newer claim advanced the fencing counters ({}); release it and acquire a new one",
                count()
            ),
            // The round ends as soon as failures exclude a quorum. Nothing is known then about nodes that have not
            // replied, so the text does not mention them.
            (Cause::NoQuorum, _) if matches!(aim, Aim::Lock | Aim::Release | Aim::Inspect) => {
                format!("cannot {verb} {what}: {}", missing(votes))
            }
            (Cause::NoQuorum, _) => format!("cannot {verb} {what}: {}", count()),
            (Cause::WrongType, _) => {
                let wrong = failures(NodeErrorKind::WrongType);
                format!(
                    "cannot {verb} {what}: the key holds a non-lock value on {wrong} of {nodes} nodes; another program uses the name"
                )
            }
            (Cause::DamagedCounter, _) => {
                let damaged = failures(NodeErrorKind::DamagedCounter);
                format!("cannot {verb} {what}: the fencing counter is damaged on {damaged} of {nodes} nodes")
            }
            (Cause::TooSlow, _) if *aim == Aim::Lock => {
                format!("cannot lock {what}: too little validity left when a quorum granted it")
            }
            (Cause::TooSlow, _) => {
                format!("cannot {verb} {what}: no validity left when a quorum extended it")
            }
            (Cause::Ended(loss), _) => format!("cannot {verb} {what}: {loss}"),
        }
    }
}

/// Returns the votes of each list, for messages: `1 of 3 nodes granted, 2 required: 2 denied`.
fn counts(votes: &Votes, granted: &str) -> String {
    let count = |(list, tally): (Members, Tally)| {
        let (nodes, name, quorum, others) =
            (list.len(), list.name(), list.quorum(), tally.others().to_string());
        let separator = if others.is_empty() { "" } else { ": " };
        format!("{} of {nodes} {name} {granted}, {quorum} required{separator}{others}", tally.granted())
    };
    votes.tallies().map(count).collect::<Vec<_>>().join("; ")
}

/// Returns the lists without a quorum, for messages: `2 of 3 nodes failed, so no quorum of 2`.
fn missing(votes: &Votes) -> String {
    let without = votes.tallies().filter(|(list, tally)| tally.possible_replies() < list.quorum());
    let missing = |(list, tally): (Members, Tally)| {
        format!("{}, so no quorum of {}", tally.missing(list.len(), list.name()), list.quorum())
    };
    without.map(missing).collect::<Vec<_>>().join("; ")
}
