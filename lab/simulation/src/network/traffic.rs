//! The fates of messages, and their random selection.

use std::time::Duration;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From a client to a server.
    Requests,
    /// From a server to a client.
    Replies,
}

/// The behavior of messages in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The shortest delay.
    pub least: Duration,
    /// The longest delay of a message that is not held up.
    pub most: Duration,
    /// The number of lost messages per thousand.
    pub lost: u32,
    /// The number of messages per thousand that arrive twice. Only requests on datagrams are repeated.
    pub twice: u32,
    /// The number of messages per thousand that are held up.
    pub late: u32,
    /// The longest additional delay of a message that is held up.
    pub late_by: Duration,
}

/// The default: a delay of up to 2 ms, and no faults.
impl Default for Traffic {
    fn default() -> Self {
        let (least, most) = (Duration::from_micros(50), Duration::from_millis(2));
        Self { least, most, lost: 0, twice: 0, late: 0, late_by: Duration::ZERO }
    }
}

/// The fate of one message.
pub(super) struct Fate {
    /// The delay of each copy; empty if the message is lost.
    pub(super) copies: Vec<Duration>,
    pub(super) late: bool,
}

impl Traffic {
    pub(super) fn fate(&self, chance: &mut fastrand::Rng, may_repeat: bool) -> Fate {
        let copies = match () {
            () if chance.u32(..1000) < self.lost => 0,
            () if may_repeat && chance.u32(..1000) < self.twice => 2,
            () => 1,
        };
        let late = chance.u32(..1000) < self.late;
        let mut delay = || {
            let usual = self.least + below(chance, self.most.saturating_sub(self.least));
            if late { usual + below(chance, self.late_by) } else { usual }
        };
        Fate { copies: (0..copies).map(|_| delay()).collect(), late }
    }
}

/// Returns a random duration below `most`; zero if `most` is zero.
pub(super) fn below(chance: &mut fastrand::Rng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(chance.u64(..nanos.max(1)))
}
