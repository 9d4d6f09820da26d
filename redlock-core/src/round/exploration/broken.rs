//! Broken rounds: a wrapper that changes what a round hears, sends or returns.
//!
//! The rounds themselves are those that ship. Each variant changes one thing at the border between a round and its
//! engine, or a check of the nodes.

use std::mem;

use event_listener::EventListener;

use crate::decide::pending_release::WriteState;
use crate::decide::tally::{Decision, RoundKind};
use crate::lease::record::Record;
use crate::node::{ConnectionId, Denial, Request};
use crate::round::acquire::{self, Acquire};
use crate::round::cleanup::Batch;
use crate::round::exploration::node::Check;
use crate::round::exploration::scope::NODES;
use crate::round::exploration::world::ttl;
use crate::round::extend::{self, Extend};
use crate::round::release::Release;
use crate::round::{Heard, Io, Round};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// The rounds that ship, or a change that breaks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Sound,
    // Counting.
    GrantCountsTwice,
    QuarantinedCounts,
    SupersededCounts,
    SilenceExtends,
    SilenceRevokes,
    // Validity.
    ValidityFromTheReply,
    LateGrantRestartsValidity,
    DeadlineIgnored,
    // Tokens.
    OneTokenForAllAttempts,
    NothingConfirmed,
    HalfConfirms,
    SmallerTokenConfirmed,
    AnyReplyCounts,
    // The rule of nodes for readers and writers.
    ReaderJoinsAWriter,
    WriterReplacesReaders,
    ReleaseRemovesReaders,
    ReadersAreCounted,
    LastReaderSetsTheExpiry,
    AnyReaderIsExtended,
    // The rule of nodes for tokens.
    ConfirmIgnoresOwner,
    ConfirmCreates,
    ConfirmIgnoresCounter,
    ConfirmLowersCounter,
    ConfirmRaisesNothing,
    ExtensionIgnoresCounter,
    ExtensionIgnoresEverything,
    RefillLowersCounter,
    RemovalDropsCounter,
    // The rule of nodes for extensions.
    ExtensionShortens,
    // Refills.
    RefillAtOnce,
    RefillAfterTheRelease,
    RefillForgotten,
    ExtensionCreates,
    // Releases.
    LostAttemptNotReleased,
    ReleaseOnlyWhereGranted,
    DropForgotten,
    InterruptionForgotten,
    // Cleanup.
    NoFollowUp,
    SilenceEndsCleanup,
    OneReplyEndsCleanup,
    DeletionEndsCleanup,
    DeletionSettlesAll,
    StaleDeletionCounts,
    DeniedWriteForgotten,
    SecondReleaseAtOnce,
    SentForgotten,
    UnsentCountsAsSent,
    AnyConnectionIsOrdered,
    LastConnectionIsKept,
    StateReadAtTheReply,
    // Results.
    ResultForgotten,
    DenialReleases,
    // The assumption.
    KeysExpireEarly,
}

impl Variant {
    /// Returns true if nodes skip a check of this request.
    pub(super) fn skips(self, check: Check, request: &Request, is_extension: bool) -> bool {
        let confirms = matches!(request, Request::Confirm(..));
        match self {
            Self::ConfirmIgnoresOwner => confirms && check == Check::Owner,
            Self::ConfirmCreates => confirms && check == Check::Key,
            Self::ConfirmIgnoresCounter | Self::ConfirmLowersCounter => confirms && check == Check::Counter,
            Self::ExtensionIgnoresCounter => confirms && is_extension && check == Check::Counter,
            Self::ExtensionIgnoresEverything => confirms && is_extension,
            Self::RefillLowersCounter => !confirms && check == Check::Counter,
            _ => false,
        }
    }
}

/// What a request is for, in any round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Claim,
    Confirm,
    Extend,
    Refill,
    Release,
}

/// A round that can be explored.
pub(super) trait Explored: Round {
    fn want(tag: Self::Tag) -> Want;

    /// Returns the tag of a refill, if the round has one.
    fn refill() -> Option<Self::Tag> {
        None
    }

    /// Returns the lease, if the round has a single one.
    fn record(&self) -> Option<&Record> {
        None
    }

    /// Returns the nodes that a won extension would refill.
    fn lacking(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// A round with a change.
#[derive(Clone)]
pub(super) struct Broken<R> {
    pub(super) inner: R,
    variant: Variant,
    /// True once a call had no reply.
    failed: bool,
}

impl<R> Broken<R> {
    pub(super) fn new(inner: R, variant: Variant) -> Self {
        Self { inner, variant, failed: false }
    }
}

impl<R: Explored> Broken<R> {
    /// Changes what has happened before the round hears it.
    fn changed(&self, mut heard: Heard<R::Tag>) -> Heard<R::Tag> {
        let want = R::want(heard.tag);
        heard.outcome = match (self.variant, heard.outcome) {
            (Variant::QuarantinedCounts, Outcome::Quarantined { granted: true, .. })
            | (Variant::SupersededCounts, Outcome::Superseded(_)) => Outcome::Granted,
            (Variant::DenialReleases, Outcome::NotHeld) => Outcome::Released,
            (Variant::SilenceExtends, Outcome::TimedOut) if want == Want::Extend => Outcome::Granted,
            (Variant::SilenceRevokes, Outcome::TimedOut) if want == Want::Extend => {
                Outcome::Denied(Denial::of_gone_key())
            }
            (_, outcome) => outcome,
        };
        if self.variant == Variant::AnyConnectionIsOrdered {
            heard.connection = Some(ConnectionId(0));
        }
        if let (Variant::StateReadAtTheReply, Some(record), Want::Release) =
            (self.variant, self.inner.record(), want)
        {
            record.with(|state| state.peers[heard.node].begin_release());
        }
        heard
    }

    /// Changes what the round wants after it has heard something.
    fn change_after(&mut self, heard: Heard<R::Tag>, io: &mut Io<R::Tag>) {
        let want = R::want(heard.tag);
        let granted = matches!(heard.outcome, Outcome::Granted | Outcome::GrantedFenced(_));
        let replied = matches!(heard.outcome, Outcome::Released | Outcome::NotHeld);
        match self.variant {
            Variant::GrantCountsTwice if granted && want != Want::Refill => {
                self.inner.heard(Heard { node: (heard.node + 1) % NODES, ..heard }, io);
            }
            Variant::HalfConfirms if granted && want == Want::Confirm => {
                self.inner.heard(Heard { node: (heard.node + 1) % NODES, ..heard }, io);
            }
            Variant::LateGrantRestartsValidity if granted && want == Want::Claim => {
                if let Some(record) = self.inner.record().filter(|record| record.term().1.is_some()) {
                    let later = record.ends() + ttl().as_duration();
                    record.hold_until(later, ttl(), heard.at);
                }
            }
            Variant::RefillAtOnce if matches!(heard.outcome, Outcome::Denied(_)) && want == Want::Extend => {
                io.sends.extend(R::refill().map(|tag| (heard.node, tag)));
            }
            Variant::NoFollowUp => io.cleanups.clear(),
            Variant::OneReplyEndsCleanup if replied => io.cleanups.clear(),
            Variant::SilenceEndsCleanup
                if want == Want::Release && matches!(heard.outcome, Outcome::TimedOut) =>
            {
                io.cleanups.clear();
            }
            _ if matches!(heard.outcome, Outcome::Released) => {
                io.cleanups.retain(|cleanup| !self.is_ended_by_deletion(cleanup.release.writes()));
            }
            _ => {}
        }
        self.confirm_at_once(heard.at, io);
        self.drop_sends(io);
    }

    /// Returns true if a deletion ends the cleanup of these writes, which may still be carried out.
    fn is_ended_by_deletion(&self, writes: WriteState) -> bool {
        let is_single = writes.unsettled() == 1;
        match self.variant {
            Variant::DeletionEndsCleanup => true,
            Variant::DeletionSettlesAll => !writes.has_settled(),
            Variant::StaleDeletionCounts => is_single,
            Variant::DeniedWriteForgotten => is_single && !writes.is_written(),
            _ => false,
        }
    }

    /// In one variant, nodes count for a token without a request.
    fn confirm_at_once(&mut self, at: Instant, io: &mut Io<R::Tag>) {
        if self.variant == Variant::NothingConfirmed {
            for (node, tag) in mem::take(&mut io.sends) {
                if R::want(tag) == Want::Confirm {
                    let outcome = Outcome::Granted;
                    self.inner.heard(
                        Heard { node, tag, outcome, connection: None, server: None, sent: at, at },
                        io,
                    );
                } else {
                    io.sends.push((node, tag));
                }
            }
        }
    }

    fn drop_sends(&self, io: &mut Io<R::Tag>) {
        let is_written = |node: usize| {
            self.inner
                .record()
                .is_none_or(|record| record.with(|state| state.peers[node].writes.is_written()))
        };
        io.sends.retain(|(node, tag)| match self.variant {
            Variant::LostAttemptNotReleased => R::want(*tag) != Want::Release,
            Variant::ReleaseOnlyWhereGranted => R::want(*tag) != Want::Release || is_written(*node),
            _ => true,
        });
    }
}

impl<R: Explored> Round for Broken<R> {
    type Tag = R::Tag;
    type Output = R::Output;

    fn start(&mut self, io: &mut Io<R::Tag>) {
        self.inner.start(io);
        if self.variant == Variant::ReleaseOnlyWhereGranted {
            self.drop_sends(io);
        }
    }

    fn request(&self, node: usize, tag: R::Tag) -> Option<Request> {
        let request = self.inner.request(node, tag);
        match (self.variant, request) {
            (Variant::SmallerTokenConfirmed, Some(Request::Confirm(claim, ttl, token))) => {
                let smaller = FencingToken::new(token.as_u64() - 1).unwrap_or(token);
                Some(Request::Confirm(claim, ttl, smaller))
            }
            (Variant::ExtensionCreates, Some(Request::Extend(claim, ttl))) => {
                Some(Request::Acquire(claim, ttl))
            }
            (Variant::RefillAfterTheRelease, None) if R::want(tag) == Want::Refill => {
                let record = self.inner.record()?;
                Some(record.mode.refill(record.claim.clone(), ttl(), record.fencing_token()))
            }
            (_, request) => request,
        }
    }

    fn sent(&mut self, node: usize, tag: R::Tag, connection: Option<ConnectionId>) {
        match self.variant {
            Variant::SentForgotten => {}
            Variant::RefillForgotten if R::want(tag) == Want::Refill => {}
            Variant::AnyConnectionIsOrdered => self.inner.sent(node, tag, Some(ConnectionId(0))),
            _ => self.inner.sent(node, tag, connection),
        }
        if let (Variant::UnsentCountsAsSent, Some(record), Want::Claim | Want::Refill) =
            (self.variant, self.inner.record(), R::want(tag))
        {
            record.with(|state| state.peers[node].end_write(&Outcome::TimedOut));
        }
        if let (Variant::LastConnectionIsKept, Some(record)) = (self.variant, self.inner.record()) {
            record.with(|state| state.peers[node].writes.keep_connection(connection));
        }
    }

    fn listen(&self) -> Option<EventListener> {
        self.inner.listen()
    }

    fn is_wanted(&self, tag: R::Tag) -> bool {
        self.variant == Variant::RefillAfterTheRelease || self.inner.is_wanted(tag)
    }

    fn heard(&mut self, heard: Heard<R::Tag>, io: &mut Io<R::Tag>) {
        let heard = self.changed(heard);
        self.failed |= matches!(heard.outcome, Outcome::TimedOut);
        let Heard { node, tag, connection, server, sent, at, .. } = heard;
        let copy = Heard { node, tag, outcome: heard.outcome.clone(), connection, server, sent, at };
        self.inner.heard(heard, io);
        self.change_after(copy, io);
    }

    fn result(&mut self, now: Instant, io: &mut Io<R::Tag>) -> Option<R::Output> {
        let by = if self.variant == Variant::DeadlineIgnored { Instant::ORIGIN } else { now };
        let result = self.inner.result(by, io);
        if self.variant == Variant::ResultForgotten && self.failed {
            return None;
        }
        if let (Variant::RefillAfterTheRelease, Some(record), Some(tag)) =
            (self.variant, self.inner.record(), R::refill())
        {
            if record.ended().is_some() {
                io.sends.extend(self.inner.lacking().into_iter().map(|node| (node, tag)));
            }
        }
        self.drop_sends(io);
        result
    }

    fn abandon(&mut self, now: Instant, io: &mut Io<R::Tag>) {
        if self.variant != Variant::DropForgotten {
            self.inner.abandon(now, io);
            self.drop_sends(io);
        }
    }

    fn interrupt(&mut self, now: Instant, io: &mut Io<R::Tag>) {
        if self.variant != Variant::InterruptionForgotten {
            self.inner.interrupt(now, io);
        }
    }

    fn may_poll_late(&self) -> bool {
        self.inner.may_poll_late()
    }
}

impl Explored for Acquire {
    fn want(tag: acquire::Lane) -> Want {
        match tag {
            acquire::Lane::Claim => Want::Claim,
            acquire::Lane::Confirm => Want::Confirm,
            acquire::Lane::Release | acquire::Lane::Stay | acquire::Lane::Leave => Want::Release,
        }
    }

    fn record(&self) -> Option<&Record> {
        Some(&self.record)
    }
}

impl Explored for Extend {
    fn want(tag: extend::Lane) -> Want {
        match tag {
            extend::Lane::Extend => Want::Extend,
            extend::Lane::Refill => Want::Refill,
        }
    }

    fn refill() -> Option<extend::Lane> {
        Some(extend::Lane::Refill)
    }

    fn record(&self) -> Option<&Record> {
        Some(&self.record)
    }

    fn lacking(&self) -> Vec<usize> {
        let lacks = |node: &usize| matches!(self.votes.outcome(*node), Outcome::Denied(_));
        let is_won = self.votes.decide(RoundKind::Extend) == Decision::Won;
        (0..NODES).filter(lacks).filter(|_| is_won).collect()
    }
}

impl Explored for Release {
    fn want((): ()) -> Want {
        Want::Release
    }

    fn record(&self) -> Option<&Record> {
        Some(&self.record)
    }
}

impl Explored for Batch {
    fn want(_position: usize) -> Want {
        Want::Release
    }
}
