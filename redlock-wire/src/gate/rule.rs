//! The decision whether a server counts, as pure functions of values.

use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::{ClockReading, Quarantine, QuarantineReason, ServerClock};
use redlock_core::runtime::Instant;

use crate::message::Reply;

/// The difference of two times that belong to one event.
const SAME_TIME: Duration = Duration::from_secs(1);

/// The result of a look at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Stamp(Stamp),
    /// The server is a replica.
    Replica,
    /// A later version of this library has written the stamp.
    LaterVersion,
    /// The stamp is not permitted, but `INFO` is.
    Uptime {
        /// The time since the server was started.
        uptime: Duration,
        /// True if the server was a replica before.
        promoted: bool,
    },
    /// Neither is permitted.
    Nothing,
    /// The look failed, with this error reply. The next one may succeed.
    Failed(String),
}

/// The stamp of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The reason, if the stamp was renewed just now.
    pub(crate) renewed: Option<QuarantineReason>,
    /// The time for which the server has lost nothing.
    pub(crate) age: Duration,
    /// The longest TTL that any program has stated.
    pub(crate) longest: Duration,
    pub(crate) text: Arc<[u8]>,
}

impl Stamp {
    /// Returns the server's `run_id`.
    fn run(&self) -> &[u8] {
        part(&self.text, RUN)
    }

    /// Returns the time since which the server has lost nothing, in milliseconds since the Unix epoch by its clock.
    fn since(&self) -> Option<u64> {
        std::str::from_utf8(part(&self.text, SINCE)).ok()?.parse().ok()
    }

    /// Returns whether an operator has vouched for the data.
    fn is_vouched(&self) -> bool {
        self.since() == Some(0)
    }
}

/// Returns why the votes of a server do not count any more, from the reply to a comparison with the last look.
///
/// `known` is the stamp that the look has found. A server that was a replica meanwhile may have an older copy of the same
/// stamp. Its `master_replid2` then differs from the one in the stamp.
pub(crate) fn difference(known: &[u8], compared: &Reply) -> Option<QuarantineReason> {
    let Reply::Array(parts) = compared else { return Some(QuarantineReason::NotChecked) };
    let [stamp, Reply::Bytes(role), Reply::Bytes(replid2), _time] = &**parts else {
        return Some(QuarantineReason::NotChecked);
    };
    match stamp {
        Reply::Bytes(text) if **text == *known => {}
        // Another client has renewed the stamp.
        Reply::Bytes(_) => return Some(QuarantineReason::Recent),
        _ => return Some(QuarantineReason::DataLost),
    }
    if **role != *b"master" {
        return Some(QuarantineReason::Replica);
    }
    let is_known = **replid2 == *part(known, REPLID2) || is_forgotten(replid2);
    (!is_known).then_some(QuarantineReason::Promoted)
}

/// The positions of parts of a stamp.
const RUN: usize = 1;
const REPLID2: usize = 2;
const SINCE: usize = 3;

/// Returns a part of a stamp by its position.
fn part(stamp: &[u8], position: usize) -> &[u8] {
    stamp.split(|byte| *byte == b' ').nth(position).unwrap_or_default()
}

/// Returns whether a `master_replid2` is all zeros: the server was never promoted, or has forgotten its promotion.
pub(crate) fn is_forgotten(replid2: &[u8]) -> bool {
    replid2.iter().all(|digit| *digit == b'0')
}

/// The knowledge of this process about the server of a node. It outlives connections.
///
/// If this process has seen another server here before, or a jump of its clock, it waits by its own clock, too. The
/// clock of the server may have been set forward.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    run: Option<Box<[u8]>>,
    /// The time when the present server was first seen in place of another one, or its clock after a jump.
    lost: Option<(Instant, QuarantineReason)>,
    /// True if the server can be a replica that was promoted.
    can_be_promoted: bool,
    /// True if a server counts only after this process has watched its clock for the time of a quarantine.
    strict: bool,
    /// The time since which this process watches the clock, if it is strict, until an operator vouches.
    watched_since: Option<Instant>,
    clock: ServerClock,
    /// The time of the server at which a jump of its clock was noticed, in milliseconds, until the stamp is younger.
    pub(crate) jumped: Option<u64>,
}

impl Memory {
    /// Creates the memory of a process that has seen nothing yet.
    pub(crate) fn new(strict: bool, can_be_promoted: bool) -> Self {
        Self { can_be_promoted, strict, ..Self::default() }
    }

    /// Records that an operator, who knows of every jump, vouches through this process.
    pub(crate) fn vouch(&mut self) {
        (self.jumped, self.watched_since) = (None, None);
    }

    /// Records the server that was seen at a time.
    fn see(&mut self, stamp: &Stamp, at: Instant) {
        // A jump before may be noticed by nobody.
        if self.run.is_none() && self.strict {
            self.watched_since = Some(at);
        }
        if self.run.as_deref().is_some_and(|run| run != stamp.run()) {
            self.lost = Some((at, QuarantineReason::Restarted));
            self.clock.restart();
        }
        // An operator who has vouched before a jump did not know of it.
        if stamp.is_vouched() && self.jumped.is_none() {
            self.lost = None;
        }
        self.run = Some(stamp.run().into());
    }

    /// Records the stamp that a look has found. `asked` is the jump for which the look was to renew the stamp.
    pub(crate) fn record_jump(&mut self, stamp: &Stamp, asked: Option<u64>) {
        let is_younger = |jumped: u64| stamp.since().is_some_and(|since| since >= jumped);
        let is_renewed = |jumped: u64| stamp.renewed.is_some() && asked == Some(jumped);
        self.jumped = self.jumped.filter(|jumped| !is_younger(*jumped) && !is_renewed(*jumped));
    }

    /// Records a reading of the server's clock. `wait` is the length of a quarantine.
    ///
    /// Returns how far the clock has jumped ahead at least, and whether it is the first jump of a quarantine.
    pub(crate) fn read_clock(&mut self, reading: ClockReading, wait: Duration) -> Option<(Duration, bool)> {
        let ahead = self.clock.jump(reading, wait)?;
        let at = reading.received;
        let goes_on = self.lost.is_some_and(|(since, reason)| {
            reason == QuarantineReason::ClockJumped && at.saturating_duration_since(since) < wait
        });
        self.lost = Some((at, QuarantineReason::ClockJumped));
        self.jumped = u64::try_from(reading.server.as_millis()).ok();
        Some((ahead, !goes_on))
    }

    /// Returns the time since the last loss that this process has noticed, and its reason.
    fn own(&self, at: Instant) -> Option<(Duration, QuarantineReason)> {
        let unwatched = self.watched_since.map(|since| (since, QuarantineReason::ClockNotWatched));
        let last = [self.lost, unwatched].into_iter().flatten().max_by_key(|(since, _)| *since);
        last.map(|(since, reason)| (at.saturating_duration_since(since), reason))
    }
}

/// The part of a connection in the decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionFacts {
    /// The time since which the connection has reported no loss: its beginning, or the last reported loss.
    pub(crate) intact_since: Instant,
    /// True if the connection has reported a loss.
    pub(crate) was_lost: bool,
    /// The reason of the present quarantine.
    pub(crate) reason: QuarantineReason,
}

/// The facts from which the admission follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// At the time `at`, the server had lost nothing for `age`.
    Intact { age: Duration, at: Instant, reason: QuarantineReason },
    /// The server does not count, for a time that is unknown.
    Out(QuarantineReason),
}

impl Standing {
    /// Decides from a finding that was read at a time.
    pub(crate) fn of(
        finding: &Finding,
        memory: &mut Memory,
        connection: ConnectionFacts,
        at: Instant,
    ) -> Self {
        let here = at.saturating_duration_since(connection.intact_since);
        match finding {
            Finding::Stamp(stamp) => {
                memory.see(stamp, at);
                // A stamp that is younger than the loss that was noticed has another reason.
                let noticed = memory.own(at).filter(|(own, _)| *own <= stamp.age.saturating_add(SAME_TIME));
                let reason = match (stamp.renewed.unwrap_or(connection.reason), noticed) {
                    (QuarantineReason::Promoted, _) => QuarantineReason::Promoted,
                    (_, Some((_, noticed))) => noticed,
                    (
                        reason @ (QuarantineReason::DataLost
                        | QuarantineReason::Restarted
                        | QuarantineReason::PromotedOrRestarted
                        | QuarantineReason::ClockJumped),
                        _,
                    ) => reason,
                    _ => QuarantineReason::Recent,
                };
                // Another server with a copy of the stamp looks like the same one after a restart.
                let reason = match reason {
                    QuarantineReason::Restarted if memory.can_be_promoted => {
                        QuarantineReason::PromotedOrRestarted
                    }
                    reason => reason,
                };
                Self::intact(stamp.age, memory, at, reason)
            }
            Finding::Replica => Self::Out(QuarantineReason::Replica),
            Finding::LaterVersion => Self::Out(QuarantineReason::LaterVersion),
            Finding::Uptime { promoted: true, .. } => Self::Out(QuarantineReason::Promoted),
            Finding::Uptime { uptime, promoted: false } => {
                // A loss that the connection has reported does not change the uptime.
                let age = if connection.was_lost { here.min(*uptime) } else { *uptime };
                Self::intact(age, memory, at, QuarantineReason::NoPermission)
            }
            Finding::Nothing => Self::intact(here, memory, at, QuarantineReason::NoPermission),
            Finding::Failed(_) => Self::Out(QuarantineReason::NotChecked),
        }
    }

    /// Returns the standing of a server that has lost nothing for `age`, as far as this process has not noticed a loss.
    fn intact(age: Duration, memory: &Memory, at: Instant, reason: QuarantineReason) -> Self {
        Self::Intact { age: memory.own(at).map_or(age, |(own, _)| own.min(age)), at, reason }
    }

    /// Returns the quarantine at a time, of servers that are out for `wait`. `None` means that the server counts.
    pub(crate) fn quarantine(self, wait: Duration, now: Instant) -> Option<Quarantine> {
        match self {
            Self::Intact { age, at, reason } => {
                let left = wait.saturating_sub(age.saturating_add(now.saturating_duration_since(at)));
                (!left.is_zero()).then(|| Quarantine::new(reason).ending_in(left))
            }
            Self::Out(reason) => Some(Quarantine::new(reason)),
        }
    }

    pub(crate) fn reason(self) -> QuarantineReason {
        match self {
            Self::Intact { reason, .. } | Self::Out(reason) => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn stamp(run: &str, age: u64) -> Finding {
        let text = format!("1 {run} 0000 1700000000000 9000").into_bytes().into();
        let longest = Duration::from_secs(9);
        Finding::Stamp(Stamp { renewed: None, age: Duration::from_secs(age), longest, text })
    }

    fn facts(intact_since: u64, reason: QuarantineReason) -> ConnectionFacts {
        ConnectionFacts { intact_since: at(intact_since), was_lost: false, reason }
    }

    const NEW: QuarantineReason = QuarantineReason::NotChecked;

    /// Returns the reason and the seconds left, at the time of the look.
    fn left(
        finding: &Finding,
        memory: &mut Memory,
        connection: ConnectionFacts,
        now: u64,
    ) -> Option<(QuarantineReason, Option<u64>)> {
        let quarantine = Standing::of(finding, memory, connection, at(now)).quarantine(WAIT, at(now))?;
        Some((quarantine.reason, quarantine.remaining.map(|left| left.as_secs())))
    }

    #[test]
    fn a_server_counts_once_its_stamp_is_old_enough() {
        let look = |age| left(&stamp("a", age), &mut Memory::default(), facts(0, NEW), 100);
        assert_eq!(Some((QuarantineReason::Recent, Some(10))), look(0));
        assert_eq!(Some((QuarantineReason::Recent, Some(1))), look(9));
        assert_eq!(None, look(10));
        let standing = Standing::of(&stamp("a", 4), &mut Memory::default(), facts(0, NEW), at(100));
        assert!(standing.quarantine(WAIT, at(105)).is_some() && standing.quarantine(WAIT, at(106)).is_none());
        assert!(standing.quarantine(2 * WAIT, at(106)).is_some(), "a longer bound was seen meanwhile");
    }

    #[test]
    fn a_process_that_knew_another_server_waits_by_its_own_clock() {
        let memory = &mut Memory::default();
        assert_eq!(None, left(&stamp("a", 50), memory, facts(0, NEW), 100));
        let restarted = |left| Some((QuarantineReason::Restarted, Some(left)));
        // The clock of the server was set forward.
        assert_eq!(restarted(10), left(&stamp("b", 50), memory, facts(100, NEW), 100));
        assert_eq!(restarted(3), left(&stamp("b", 57), memory, facts(100, NEW), 107));
        assert_eq!(restarted(10), left(&stamp("c", 58), memory, facts(108, NEW), 108), "each loss counts");
        assert_eq!(None, left(&stamp("c", 68), memory, facts(108, NEW), 118));
    }

    #[test]
    fn a_server_that_can_be_promoted_is_not_said_to_be_restarted() {
        let memory = &mut Memory::new(false, true);
        assert_eq!(None, left(&stamp("a", 50), memory, facts(0, NEW), 100));
        let out = |left| Some((QuarantineReason::PromotedOrRestarted, Some(left)));
        assert_eq!(out(10), left(&stamp("b", 50), memory, facts(100, NEW), 100), "noticed by this process");
        let Finding::Stamp(mut renewed) = stamp("b", 0) else { panic!() };
        renewed.renewed = Some(QuarantineReason::Restarted);
        let memory = &mut Memory::new(false, true);
        assert_eq!(out(10), left(&Finding::Stamp(renewed), memory, facts(0, NEW), 100), "shown by the stamp");
        let facts = facts(0, QuarantineReason::PromotedOrRestarted);
        assert_eq!(out(9), left(&stamp("b", 1), memory, facts, 101), "until the end");
    }

    /// Returns a stamp since a time of the server in seconds.
    fn since(seconds: u64, renewed: Option<QuarantineReason>) -> Stamp {
        let text = format!("1 a 0000 {} 9000", seconds * 1000).into_bytes().into();
        Stamp { renewed, age: Duration::from_secs(99), longest: Duration::from_secs(9), text }
    }

    /// Returns the knowledge of a process that has noticed a jump at 100 s, when the server's clock shows 1100 s.
    fn jumped() -> Memory {
        let mut memory = Memory::default();
        for (now, server) in [(99, 1098), (100, 1100)] {
            let server = Duration::from_secs(server);
            let reading = ClockReading { sent: Some(at(now)), server, received: at(now) };
            assert_eq!(server.as_secs() == 1100, memory.read_clock(reading, WAIT).is_some());
        }
        assert_eq!(Some(1_100_000), memory.jumped);
        memory
    }

    #[test]
    fn a_jump_is_recorded_once_the_stamp_is_younger() {
        let jumped_after = |stamp: Stamp, asked| {
            let mut memory = jumped();
            memory.record_jump(&stamp, asked);
            memory.jumped.is_some()
        };
        let renewed = Some(QuarantineReason::ClockJumped);
        assert!(jumped_after(since(1_099, None), None), "another client has renewed it before the jump");
        assert!(!jumped_after(since(1_100, None), None), "or after it");
        assert!(!jumped_after(since(1_000, renewed), Some(1_100_000)), "the clock was set back since");
        assert!(jumped_after(since(1_000, renewed), Some(1_090_000)), "it was renewed for an earlier jump");
        assert!(jumped_after(since(0, None), None), "an operator has vouched before the jump");
    }

    #[test]
    fn an_operator_who_has_vouched_before_a_jump_does_not_end_the_wait() {
        let mut memory = jumped();
        let vouched = Finding::Stamp(since(0, None));
        let reason = Some((QuarantineReason::ClockJumped, Some(10)));
        assert_eq!(reason, left(&vouched, &mut memory, facts(0, NEW), 100));
        memory.record_jump(&since(1_100, None), None);
        assert_eq!(None, left(&vouched, &mut memory, facts(0, NEW), 101), "one who vouches later does");
    }

    #[test]
    fn a_strict_process_waits_whatever_the_age_of_the_stamp_is() {
        let memory = &mut Memory::new(true, false);
        let reason = QuarantineReason::ClockNotWatched;
        assert_eq!(Some((reason, Some(10))), left(&stamp("a", 99), memory, facts(0, NEW), 100));
        assert_eq!(Some((reason, Some(1))), left(&stamp("a", 99), memory, facts(0, NEW), 109));
        assert_eq!(None, left(&stamp("a", 99), memory, facts(0, NEW), 110));
        let vouched = "1 a 0000 0 9000".as_bytes().into();
        let age = Duration::from_secs(1_700_000_000);
        let vouched =
            Finding::Stamp(Stamp { renewed: None, age, longest: Duration::from_secs(9), text: vouched });
        let memory = &mut Memory::new(true, false);
        assert_eq!(Some((reason, Some(10))), left(&vouched, memory, facts(0, NEW), 100), "long ago");
        memory.vouch();
        assert_eq!(None, left(&vouched, memory, facts(0, NEW), 101));
    }

    #[test]
    fn an_operator_ends_every_wait() {
        let memory = &mut Memory::default();
        assert_eq!(None, left(&stamp("a", 50), memory, facts(0, NEW), 100));
        let text = "1 b 0000 0 9000".as_bytes().into();
        let (age, longest) = (Duration::from_secs(1_700_000_000), Duration::from_secs(9));
        let vouched = Finding::Stamp(Stamp { renewed: None, age, longest, text });
        assert_eq!(None, left(&vouched, memory, facts(100, NEW), 101));
    }

    #[test]
    fn the_reason_lasts_until_the_end() {
        let Finding::Stamp(mut flushed) = stamp("a", 0) else { panic!() };
        flushed.renewed = Some(QuarantineReason::DataLost);
        let memory = &mut Memory::default();
        let first = left(&Finding::Stamp(flushed), memory, facts(0, NEW), 100);
        assert_eq!(Some((QuarantineReason::DataLost, Some(10))), first);
        let later = left(&stamp("a", 1), memory, facts(0, QuarantineReason::DataLost), 101);
        assert_eq!(Some((QuarantineReason::DataLost, Some(9))), later);
    }

    #[test]
    fn without_rights_the_uptime_or_the_connection_counts() {
        let memory = &mut Memory::default();
        let uptime = |uptime, promoted| Finding::Uptime { uptime: Duration::from_secs(uptime), promoted };
        let out = |left| Some((QuarantineReason::NoPermission, Some(left)));
        assert_eq!(None, left(&uptime(10, false), memory, facts(100, NEW), 100));
        assert_eq!(out(1), left(&uptime(9, false), memory, facts(100, NEW), 100));
        assert_eq!(
            Some((QuarantineReason::Promoted, None)),
            left(&uptime(99, true), memory, facts(0, NEW), 100)
        );
        let flushed = ConnectionFacts { was_lost: true, ..facts(95, QuarantineReason::NoPermission) };
        assert_eq!(out(5), left(&uptime(99, false), memory, flushed, 100), "a flush that was reported");
        assert_eq!(out(10), left(&Finding::Nothing, memory, facts(100, NEW), 100));
        assert_eq!(None, left(&Finding::Nothing, memory, facts(90, NEW), 100));
    }

    #[test]
    fn another_stamp_or_another_past_of_a_server_is_a_difference() {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let error = || Reply::Error("ERR".into());
        let known = "1 run 0a0 5 1000";
        let of = |parts: Vec<Reply>| difference(known.as_bytes(), &Reply::Array(parts));
        for (stamp, reason) in [
            (bytes(known), None),
            (bytes("1 run 0a0 6 1000"), Some(QuarantineReason::Recent)),
            (Reply::Nil, Some(QuarantineReason::DataLost)),
        ] {
            assert_eq!(reason, of(vec![stamp.clone(), bytes("master"), bytes("0a0"), error()]), "{stamp:?}");
        }
        for (role, replid2, reason) in [
            ("master", "000", None),
            ("master", "0b0", Some(QuarantineReason::Promoted)),
            ("slave", "0a0", Some(QuarantineReason::Replica)),
            ("", "", Some(QuarantineReason::Replica)),
        ] {
            assert_eq!(
                reason,
                of(vec![bytes(known), bytes(role), bytes(replid2), error()]),
                "{role} {replid2}"
            );
        }
        for failed in [error(), Reply::Nil, Reply::Array(vec![]), Reply::Array(vec![bytes(known)])] {
            assert_eq!(
                Some(QuarantineReason::NotChecked),
                difference(known.as_bytes(), &failed),
                "{failed:?}"
            );
        }
    }

    #[test]
    fn replicas_and_later_versions_are_out() {
        for (finding, reason) in [
            (Finding::Replica, QuarantineReason::Replica),
            (Finding::LaterVersion, QuarantineReason::LaterVersion),
            (Finding::Failed("LOADING".into()), QuarantineReason::NotChecked),
        ] {
            assert_eq!(Some((reason, None)), left(&finding, &mut Memory::default(), facts(0, NEW), 100));
        }
    }
}
