//! The search for a free slot.
//!
//! One task of a process searches at a time; the others queue behind it. It attempts slots in the order of their indices,
//! beginning at a random one, until it meets one that another client holds. Then it watches all slots, and attempts the
//! first one that a quorum of nodes reports as free. The next task continues these watches. If notifications are missing
//! or lost, it attempts all slots after a delay.

use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::set::Set;
use crate::client::attempts::{Attempted, CheckedRequest, Repetitions, Waited, in_time, pause, while_open};
use crate::client::held::Held;
use crate::decide::backoff::{Backoff, RetryCause, RetryPolicy, collision_delay};
use crate::queue::local_queue::QueuePlace;
use crate::round::failure::Failure;
use crate::runtime::LONGEST_SLEEP;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::resource::Resources;
use crate::watch::watcher::{LockWatcher, WakeReason};
use crate::watch::watches::Parked;

/// Acquires a slot, within the limits of the request. Returns its index.
pub(crate) async fn acquire(
    slots: &Set,
    request: &CheckedRequest,
    start: Instant,
    policy: RetryPolicy,
) -> Result<(Held, usize), Error> {
    Search::new(slots, request, policy)?.run(start).await
}

/// The search of one request.
struct Search<'a> {
    slots: &'a Set,
    request: &'a CheckedRequest,
    policy: RetryPolicy,
    /// The slots in the order of the search.
    order: Vec<Candidate>,
}

/// The turn of a task of this process.
struct Turn {
    /// `None` if the local queue is off.
    _place: Option<QueuePlace>,
    /// `true` if other tasks were ahead.
    has_waited: bool,
}

/// A slot that may be free.
struct Candidate {
    index: usize,
    request: CheckedRequest,
}

/// The end of a pass over slots.
enum Pass {
    Acquired(Held, usize),
    /// No slot of the pass was acquired. Contains a failure if a request was sent.
    ///
    /// If the votes on any slot were split, it is that failure. Otherwise each slot is held by another client or task.
    Held(Option<Failure>),
    /// The nodes failed.
    Unusable(Failure),
}

impl<'a> Search<'a> {
    fn new(slots: &'a Set, request: &'a CheckedRequest, policy: RetryPolicy) -> Result<Self, Error> {
        let (count, first) = (slots.locks.len(), start(request.random(), slots.locks.len()));
        let candidate = |index: usize| {
            let resources = Resources::new([slots.locks[index].clone()])?;
            Ok(Candidate { index, request: CheckedRequest { resources, ..request.clone() } })
        };
        let order = (first..first + count).map(|index| candidate(index % count));
        Ok(Self { slots, request, policy, order: order.collect::<Result<_, Error>>()? })
    }

    async fn run(&self, start: Instant) -> Result<(Held, usize), Error> {
        // The turn is held until the end of the search. Then the next task searches.
        let turn = self.turn(start).await?;
        let mut watchers = Vec::new();
        let result = self.in_turn(&turn, start, &mut watchers).await;
        if !watchers.is_empty() {
            self.park(watchers);
        }
        result
    }

    /// Searches until a slot is acquired, or the limits of the request are reached.
    async fn in_turn<'w>(
        &'w self,
        turn: &Turn,
        start: Instant,
        watchers: &mut Vec<LockWatcher<'w>>,
    ) -> Result<(Held, usize), Error> {
        let handle = &self.request.handle;
        let mut backoff = Backoff::new(&self.policy);
        let mut collisions = 0;
        let mut pass = if turn.has_waited {
            // Probably all slots are held. An attempt would disturb the attempts of other clients.
            Pass::Held(None)
        } else if self.policy.until.is_none_or(|until| until > start) {
            self.until_held().await?
        } else {
            self.pass(0..self.order.len(), true).await?
        };
        loop {
            let (cause, failure) = match pass {
                Pass::Acquired(held, index) => return Ok((held, index)),
                Pass::Held(failure) => (RetryCause::Contended, failure),
                Pass::Unusable(failure) => (RetryCause::Unusable, Some(failure)),
            };
            let is_split = failure.as_ref().is_some_and(Failure::is_split);
            let Some(delay) = backoff.after(cause, handle.now(), self.request.random()) else {
                return Err(match failure.filter(|_| is_split || cause == RetryCause::Unusable) {
                    Some(failure) => self.request.error(failure),
                    None if turn.has_waited => self.not_in_turn(),
                    None => self.all_held(),
                });
            };
            if cause == RetryCause::Unusable {
                pause(handle, delay).await;
                pass = self.until_held().await?;
                continue;
            }
            if watchers.is_empty() {
                watchers.extend(self.watchers());
            }
            let began = handle.now();
            let free = while_open(handle, any_free(watchers, delay, self.policy.until)).await.flatten();
            pass = match free {
                Some(position) => {
                    backoff.uncount_attempt();
                    // If the votes were split, all clients with votes receive the next notification at the same moment.
                    collisions = if is_split { collisions + 1 } else { 0 };
                    let now = handle.now();
                    let since = now.saturating_duration_since(began);
                    let collision = collision_delay(collisions, since, self.request.random());
                    let is_free = watchers[position].is_still_free().await;
                    let spread = if is_free { spread(self.request.random()) } else { Duration::ZERO };
                    pause(handle, self.policy.bounded(collision + spread, now)).await;
                    if is_free && !watchers[position].is_still_free().await {
                        // Another client was faster.
                        Pass::Held(None)
                    } else {
                        let pass = self.pass(position..position + 1, false).await?;
                        if let Pass::Held(Some(failure)) = &pass {
                            watchers[position].record_uncounted(failure, delay);
                        }
                        pass
                    }
                }
                None => {
                    collisions = 0;
                    self.all().await?
                }
            };
        }
    }

    /// Creates a watcher for each slot, which continues the watches of the last search.
    fn watchers(&self) -> impl Iterator<Item = LockWatcher<'_>> {
        let mut parked = self.slots.swap_parked(Vec::new());
        parked.resize_with(self.order.len(), Parked::default);
        self.order.iter().map(move |Candidate { index, request }| {
            let watcher = LockWatcher::new(&self.request.handle, &request.resources, None);
            watcher.resume(mem::take(&mut parked[*index]))
        })
    }

    /// Stores the watches for the next search.
    fn park(&self, watchers: Vec<LockWatcher<'_>>) {
        let mut parked: Vec<_> = self.order.iter().map(|_| Parked::default()).collect();
        for (candidate, watcher) in self.order.iter().zip(watchers) {
            parked[candidate.index] = watcher.park();
        }
        drop(self.slots.swap_parked(parked));
    }

    /// Waits for the turn among the tasks of this process.
    ///
    /// There is none if the local queue is off, or if the request does not wait.
    async fn turn(&self, start: Instant) -> Result<Turn, Error> {
        let handle = &self.request.handle;
        // A request that does not wait cannot wait for its turn either, and must not report free slots as held.
        if !handle.settings.local_queue || self.policy.does_not_wait(start) {
            return Ok(Turn { _place: None, has_waited: false });
        }
        let mut place = QueuePlace::new(Arc::clone(&handle.queues), self.slots.queue()?);
        let has_waited = !place.try_turn(start);
        if has_waited {
            match in_time(handle, self.policy.until, LONGEST_SLEEP, place.turn()).await {
                Waited::Done(()) => {}
                Waited::TimedOut => return Err(self.not_in_turn()),
                Waited::Closed => return Err(Error::closed()),
            }
        }
        Ok(Turn { _place: Some(place), has_waited })
    }

    /// Attempts slots until another client holds one.
    async fn until_held(&self) -> Result<Pass, Error> {
        for position in 0..self.order.len() {
            match self.pass(position..position + 1, false).await? {
                Pass::Held(None) => {}
                pass => return Ok(pass),
            }
        }
        Ok(Pass::Held(None))
    }

    /// Attempts all slots.
    async fn all(&self) -> Result<Pass, Error> {
        self.pass(0..self.order.len(), false).await
    }

    /// Attempts the slots at these positions, one after the other.
    ///
    /// A request that does not wait passes `is_final`: it repeats the attempt at a slot while the votes are split.
    async fn pass(&self, positions: Range<usize>, is_final: bool) -> Result<Pass, Error> {
        let mut held: Option<Failure> = None;
        let mut repetitions = Repetitions::default();
        for Candidate { index, request } in &self.order[positions] {
            let now = request.handle.now();
            let until = request.permit_until(now, &self.policy);
            let attempted = if is_final {
                request.attempt_until_decided(now, until, &mut repetitions).await?
            } else {
                request.attempt_once(now, until).await?
            };
            match attempted {
                Attempted::Acquired(held) => return Ok(Pass::Acquired(held, *index)),
                Attempted::Busy(_) => {}
                Attempted::NotGranted(failure) => match failure.retry_cause() {
                    Some(RetryCause::Contended) => {
                        if !held.as_ref().is_some_and(Failure::is_split) {
                            held = Some(failure);
                        }
                    }
                    Some(RetryCause::Unusable) => return Ok(Pass::Unusable(failure)),
                    None => return Err(request.error(failure)),
                },
            }
        }
        Ok(Pass::Held(held))
    }

    fn all_held(&self) -> Error {
        let (count, name) = (self.slots.locks.len(), &self.slots.name);
        Error::new(ErrorKind::Contended, format!("all {count} slots of {name:?} are held"))
    }

    /// Returns the error of a request that has waited for other tasks of this process.
    fn not_in_turn(&self) -> Error {
        let (count, name) = (self.slots.locks.len(), &self.slots.name);
        let message =
            format!("all {count} slots of {name:?} are held, or other tasks in this process are ahead");
        Error::new(ErrorKind::Contended, message)
    }
}

/// Returns the index at which a search begins, spread evenly over all slots.
fn start(random: u64, count: usize) -> usize {
    let position = (u128::from(random) * count as u128) >> u64::BITS;
    usize::try_from(position).unwrap_or(0)
}

/// The interval over which clients spread their attempts after a notification of a free slot.
///
/// Many clients receive such a notification at the same moment. The interval is several round trips, so the first
/// attempt usually wins before the others begin. It does not depend on how long a client has waited. Otherwise, a
/// client that has just acquired a slot would win again.
const SPREAD: Duration = Duration::from_millis(4);

/// Spreads `random` evenly over the interval.
fn spread(random: u64) -> Duration {
    Duration::from_nanos(u64::try_from((SPREAD.as_nanos() * u128::from(random)) >> u64::BITS).unwrap_or(0))
}

/// Waits until one of the slots is free, and returns its position; `None` if the wait is over.
async fn any_free(
    watchers: &mut [LockWatcher<'_>],
    delay: Duration,
    until: Option<Instant>,
) -> Option<usize> {
    let mut waits: Vec<_> =
        watchers.iter_mut().map(|watcher| Box::pin(watcher.wait(delay, true, until))).collect();
    poll_fn(|cx| {
        let mut is_over = false;
        for (position, wait) in waits.iter_mut().enumerate() {
            match wait.as_mut().poll(cx) {
                Poll::Ready(WakeReason::Free | WakeReason::Reserved | WakeReason::Split) => {
                    return Poll::Ready(Some(position));
                }
                Poll::Ready(WakeReason::Time) => is_over = true,
                Poll::Pending => {}
            }
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_begin_at_every_slot_equally_often() {
        let starts = (0..800_u64).map(|turn| start(turn * (u64::MAX / 800), 8));
        let mut counts = [0; 8];
        starts.for_each(|start| counts[start] += 1);
        assert!(counts.iter().all(|count| (99..=101).contains(count)), "{counts:?}");
        assert_eq!((0, 7, 0), (start(0, 8), start(u64::MAX, 8), start(u64::MAX, 1)));
    }

    #[test]
    fn attempts_are_spread_over_the_interval() {
        let micros = [0, u64::MAX / 2, u64::MAX].map(|random| spread(random).as_micros());
        assert_eq!([0, 1_999, 3_999], micros);
    }
}
