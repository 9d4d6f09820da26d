//! The places of the requests that wait for one resource.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_core::Position;
use redlock_core::node::{Place, Token};
use redlock_core::runtime::Instant;

/// The time after the last attempt of a waiting request until its place is forgotten.
const SILENCE: Duration = Duration::from_secs(12);

/// The places of the requests that wait for one resource.
#[derive(Clone, Default)]
pub(super) struct Places {
    places: BTreeMap<Vec<u8>, Waiting>,
}

#[derive(Clone, Copy)]
struct Waiting {
    /// The start of the request by the clock of the node, in nanoseconds. It may precede the start of the node.
    since: i128,
    reserved_for: Duration,
    expires: Instant,
}

impl Places {
    /// Enters a place, or leaves it if the request no longer waits.
    pub(super) fn put(&mut self, place: &Place, now: Instant) {
        self.forget(now);
        match place.waited {
            Some(waited) => {
                let (since, reserved_for, expires) = (since(waited, now), place.reserved_for, now + SILENCE);
                self.places.insert(place.id.as_bytes().to_vec(), Waiting { since, reserved_for, expires });
            }
            None => self.remove(&place.id),
        }
    }

    pub(super) fn remove(&mut self, id: &Token) {
        self.places.remove(id.as_bytes());
    }

    /// Returns the number of places.
    pub(super) fn count(&self, now: Instant) -> u32 {
        number(self.waiting(now).count())
    }

    /// Returns the position of a place, if it waits.
    pub(super) fn position(&self, id: &Token, now: Instant) -> Option<Position> {
        let place = self.places.get_key_value(id.as_bytes())?;
        let order = |(id, waiting): (&Vec<u8>, &Waiting)| (waiting.since, id.clone());
        let ahead = self.waiting(now).filter(|other| order(*other) < order(place)).count();
        Some(Position::new(number(ahead + 1), self.count(now)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns whether another request waits that has waited longer than this one.
    pub(super) fn is_preceded(&mut self, place: &Place, now: Instant) -> bool {
        let mine = since(place.waited.unwrap_or_default(), now);
        self.first(now).is_some_and(|(id, waiting)| id != place.id.as_bytes() && waiting.since < mine)
    }

    /// Takes the place that has waited longest, and the time of its reservation.
    pub(super) fn take_first(&mut self, now: Instant) -> Option<(Token, Duration)> {
        let (id, waiting) = self.first(now)?;
        self.places.remove(&id);
        Some((Token::from_bytes(id), waiting.reserved_for))
    }

    fn first(&mut self, now: Instant) -> Option<(Vec<u8>, Waiting)> {
        self.forget(now);
        let first = self.places.iter().min_by_key(|(id, waiting)| (waiting.since, *id));
        first.map(|(id, waiting)| (id.clone(), *waiting))
    }

    fn waiting(&self, now: Instant) -> impl Iterator<Item = (&Vec<u8>, &Waiting)> {
        self.places.iter().filter(move |(_, waiting)| waiting.expires > now)
    }

    fn forget(&mut self, now: Instant) {
        self.places.retain(|_, waiting| waiting.expires > now);
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn since(waited: Duration, now: Instant) -> i128 {
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / 2);
    nanos(now.saturating_duration_since(Instant::ORIGIN)) - nanos(waited)
}
