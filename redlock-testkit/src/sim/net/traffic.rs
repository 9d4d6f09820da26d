//! What fates messages have, and how one is drawn.

use std::time::Duration;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From a client to a server.
    Requests,
    /// From a server to a client.
    Replies,
}

/// How messages of one direction travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The shortest time under way.
    pub least: Duration,
    /// The longest, for a message that is not held up.
    pub most: Duration,
    /// How many of a thousand are lost.
    pub lost: u32,
    /// How many of a thousand arrive twice, where the transport allows it. Only requests do.
    pub twice: u32,
    /// How many of a thousand are held up.
    pub late: u32,
    /// By how much at most.
    pub late_by: Duration,
}

/// Up to 2 ms, and nothing goes wrong.
impl Default for Traffic {
    fn default() -> Self {
        let (least, most) = (Duration::from_micros(50), Duration::from_millis(2));
        Self { least, most, lost: 0, twice: 0, late: 0, late_by: Duration::ZERO }
    }
}

/// What becomes of one message.
pub(super) struct Fate {
    /// How long each copy is under way; none where it is lost.
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

/// A duration below `most`; zero where that is zero.
pub(super) fn below(chance: &mut fastrand::Rng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(chance.u64(..nanos.max(1)))
}
