//! The chances of other processes while the tasks of this process pass a lock on among themselves.
//!
//! A task that is next in this process acquires the lock before any other process can. Three rules give other processes
//! their chances:
//!
//! - Every sixteenth turn in a row begins with a pause.
//! - If no other client has been seen for a while, pauses are rarer, because they cost time and probably serve no one.
//! - After another client has been seen, the turn passes only when a release is confirmed. Thus the lock is free for a
//!   round trip, as for every other client.

use std::time::Duration;

use crate::types::instant::Instant;

/// The number of turns in a row from one pause to the next.
const TURNS: u32 = 16;

/// The number of turns that pass only after a confirmed release, once another client was seen.
const CONFIRMED_TURNS: u32 = 4 * TURNS;

/// The time for which another client is expected to try again.
const EXPECTED: Duration = Duration::from_secs(10);

/// The minimum time between two pauses while no other client is expected.
///
/// A pause takes a round trip and a few milliseconds. With a round trip of 20 ms, pauses then take 3 % of the time. A
/// new client waits at most this long, and sixteen turns, for its first chance.
const RARE: Duration = Duration::from_millis(400);

/// The count of the turns of one resource.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// The number of times in a row that the turn passed to a task that waited.
    turns: u32,
    /// True if the present turn begins with a pause.
    pauses: bool,
    last_pause: Option<Instant>,
    last_other: Option<OtherClient>,
}

/// Another client that held the lock.
#[derive(Debug)]
struct OtherClient {
    seen: Instant,
    /// The number of turns that have passed since.
    turns: u32,
}

impl Fairness {
    /// Records that the turn passes to a waiting task at `now`, once the release is confirmed.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.turns = self.turns.wrapping_add(1);
        self.pauses = self.is_pause_due(self.turns, now);
        if self.pauses {
            self.last_pause = Some(now);
        }
        if let Some(other_client) = &mut self.last_other {
            other_client.turns = other_client.turns.saturating_add(1);
        }
    }

    /// Records that no task waits for the turn.
    pub(crate) fn rest(&mut self) {
        (self.turns, self.pauses) = (0, false);
    }

    /// Records that another client held the lock.
    pub(crate) fn record_other_client(&mut self, now: Instant) {
        self.last_other = Some(OtherClient { seen: now, turns: 0 });
    }

    /// Returns whether the turn may pass before the release is confirmed.
    pub(crate) fn may_pass_early(&self, now: Instant) -> bool {
        let is_other_near =
            self.last_other.as_ref().is_some_and(|other_client| other_client.turns < CONFIRMED_TURNS);
        !is_other_near && !self.is_pause_due(self.turns.wrapping_add(1), now)
    }

    /// Returns whether the present turn begins with a pause.
    pub(crate) fn should_pause(&self) -> bool {
        self.pauses
    }

    fn is_pause_due(&self, turns: u32, now: Instant) -> bool {
        let since = |time: Instant| now.saturating_duration_since(time);
        let is_expected =
            || self.last_other.as_ref().is_some_and(|other_client| since(other_client.seen) < EXPECTED);
        let is_long_ago = || self.last_pause.is_none_or(|last| since(last) >= RARE);
        turns % TURNS == 0 && (is_expected() || is_long_ago())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    /// Passes the turn `count` times, with `millis` in between. Returns the numbers of the turns that begin with a pause.
    fn pauses(fairness: &mut Fairness, count: u32, start: u64, millis: u64) -> Vec<u32> {
        let turn = |number: &u32| {
            let now = at(start + u64::from(*number) * millis);
            let early = fairness.may_pass_early(now);
            fairness.pass(now);
            assert!(!(early && fairness.should_pause()), "turn {number} must pass at the confirmation");
            fairness.should_pause()
        };
        (1..=count).filter(turn).collect()
    }

    #[test]
    fn every_sixteenth_turn_pauses_while_another_client_is_expected() {
        let mut fairness = Fairness::default();
        fairness.record_other_client(at(0));
        assert_eq!(vec![16, 32, 48, 64, 80], pauses(&mut fairness, 80, 0, 1));
    }

    #[test]
    fn without_other_clients_pauses_are_rare() {
        let mut fairness = Fairness::default();
        // The first pause comes as early as with other clients.
        assert_eq!(vec![16, 416], pauses(&mut fairness, 600, 0, 1));
        assert_eq!(vec![8, 24, 40], pauses(&mut fairness, 40, 2_000, 100), "slow turns");
    }

    #[test]
    fn a_client_is_expected_for_ten_seconds() {
        let mut fairness = Fairness::default();
        fairness.record_other_client(at(0));
        let pauses = pauses(&mut fairness, 10_800, 0, 1);
        let (expected, later): (Vec<_>, Vec<_>) = pauses.into_iter().partition(|turn| *turn < 10_000);
        assert_eq!(9_999 / 16, expected.len());
        assert_eq!(vec![9_984 + 400, 9_984 + 2 * 400], later);
    }

    #[test]
    fn the_turn_passes_early_unless_another_client_is_near() {
        let mut fairness = Fairness::default();
        assert!(fairness.may_pass_early(at(0)));
        fairness.record_other_client(at(0));
        let early = (1..=70).filter(|turn| {
            let early = fairness.may_pass_early(at(*turn));
            fairness.pass(at(*turn));
            early
        });
        assert_eq!((65..=70).collect::<Vec<_>>(), early.collect::<Vec<_>>());
    }

    #[test]
    fn turns_without_a_waiting_task_end_the_row() {
        let mut fairness = Fairness::default();
        pauses(&mut fairness, 15, 0, 1);
        fairness.rest();
        assert_eq!(vec![16], pauses(&mut fairness, 16, 100, 1));
        assert!(fairness.should_pause());
        fairness.rest();
        assert!(!fairness.should_pause());
    }
}
