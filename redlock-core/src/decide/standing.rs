//! The place of a request among the waiters of other processes.
//!
//! A request enters the places of all nodes when its first attempt is denied, and keeps its place until it has acquired the
//! lock or gives up. The nodes order places by the time that the requests have waited.
//!
//! Requests that have waited equally long may be first on some nodes each, and none gets a quorum. Each of them then waits
//! a random time less in the eyes of all nodes, so that one of them is first everywhere.

use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::decide::backoff::{MIN_DELAY, jitter};
use crate::decide::quorums::{Members, Quorums};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::place::Place;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;

/// The time between two attempts in which the request is in the places. Clones share it.
///
/// A node that replies late to a failed attempt enters the place, unless this time is over. If there has been another
/// attempt since, that one enters the place, or has ended it.
#[derive(Clone, Debug, Default)]
struct Stay {
    over: Arc<OnceLock<Over>>,
}

/// The end of a stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    NextAttempt,
    Left,
}

/// The place of one request.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// `None` before the first attempt was denied.
    id: Option<Token>,
    /// The token of the last attempt that was denied.
    attempt: Option<Token>,
    /// True if readers may use a reservation for this place.
    is_reader: bool,
    /// `None` while the request is not in the places of the nodes.
    entered: Option<Stay>,
    /// The start of the request, moved by the splits so far.
    since: Instant,
    reserved_for: Duration,
    /// The number of attempts in a row with too few grants.
    splits: u32,
    /// The time by which the next split moves the start.
    if_split: Duration,
    /// The client that may hold the lock, according to the last attempt that was denied.
    holder: Option<Token>,
}

impl Standing {
    /// Creates the place of a request that began at `since`, and has not been denied yet.
    pub(crate) fn new(since: Instant, reserved_for: Duration, is_reader: bool) -> Self {
        let (id, attempt, entered) = (None, None, None);
        let (splits, if_split, holder) = (0, Duration::ZERO, None);
        Self { id, attempt, is_reader, entered, since, reserved_for, splits, if_split, holder }
    }

    /// Returns the identity of the place, while the request is in the places.
    pub(crate) fn id(&self) -> Option<&Token> {
        self.id.as_ref().filter(|_| self.entered.is_some())
    }

    /// Returns the place as one that is left, if the request was ever in the places. Nodes that could not be reached may
    /// still have it.
    pub(crate) fn left(&self) -> Option<Place> {
        self.id.clone().map(|id| Place::new(id, Duration::ZERO, self.reserved_for).given_up())
    }

    /// Returns the time of a reservation, if the request has a place.
    pub(crate) fn reserved_for(&self) -> Option<Duration> {
        self.id().map(|_| self.reserved_for)
    }

    /// Returns the same request, with a place that is entered on the nodes already.
    pub(crate) fn entered(self, place: Token) -> Self {
        Self { id: Some(place), entered: Some(Stay::default()), ..self }
    }

    /// Prepares the next attempt.
    pub(crate) fn prepare(&mut self, random: u64) {
        self.if_split = if self.entered.is_some() { spread(self.splits, random) } else { Duration::ZERO };
        if let Some(stay) = &mut self.entered {
            mem::take(stay).end(Over::NextAttempt);
        }
    }

    /// Returns the place for an attempt, unless the request has none yet.
    pub(crate) fn place(&self, now: Instant) -> Option<Place> {
        let waited = now.saturating_duration_since(self.since);
        self.id().cloned().map(|id| Place::new(id, waited, self.reserved_for))
    }

    /// Returns the claim whose release enters the place on one resource, and does nothing else, since its attempt has ended.
    pub(crate) fn entry(&self, resource: &Resource, now: Instant) -> Option<Claim> {
        let (place, attempt) = self.place(now).zip(self.attempt.clone())?;
        Some(Claim::new(Resources::single(resource.clone()), attempt).with_place(place))
    }

    /// Returns the token of the last attempt that was denied.
    pub(crate) fn attempt(&self) -> Option<&Token> {
        self.attempt.as_ref()
    }

    /// Enters the places after the attempt with this token was denied.
    pub(crate) fn denied(&mut self, attempt: &Token) {
        let id = if self.is_reader { Token::of_place_of_reader } else { Token::of_place };
        self.id.get_or_insert_with(|| id(attempt));
        self.attempt = Some(attempt.clone());
        self.entered.get_or_insert_default();
    }

    /// Records whether the denied attempt was split: some nodes granted it, and no other client is known to hold the lock. A
    /// split moves the start of the request.
    ///
    /// `holder` is the token that may hold the lock if nodes that have failed have it. If it also denied the attempt before,
    /// it is no attempt, so it holds the lock, and nothing is split.
    pub(crate) fn decided(&mut self, is_split: bool, holder: Option<&Token>) {
        let is_held = holder.is_some() && holder == self.holder.as_ref();
        self.holder = holder.cloned();
        let is_split = is_split && !is_held;
        self.splits = if is_split { self.splits + 1 } else { 0 };
        if is_split {
            self.since = self.since + self.if_split;
        }
    }

    /// Leaves the places, and keeps the identity. Returns the place to be left, if the request was in the places.
    pub(crate) fn leave(&mut self) -> Option<Place> {
        self.entered.take()?.end(Over::Left);
        self.left()
    }

    /// Returns whether the request has made another attempt, or has left the places, since this copy was made.
    pub(crate) fn is_outdated(&self) -> bool {
        self.entered.as_ref().is_none_or(|stay| stay.over.get().is_some())
    }

    /// Returns whether the request has left the places since this copy was made, without another attempt.
    pub(crate) fn has_left(&self) -> bool {
        self.entered.as_ref().is_some_and(|stay| stay.over.get() == Some(&Over::Left))
    }
}

impl Stay {
    fn end(&self, over: Over) {
        self.over.get_or_init(|| over);
    }
}

/// The reservation on one node, as one request sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved<'a> {
    /// Nothing: the resource is held.
    Held,
    /// Nothing: the resource is free.
    Nothing,
    /// The resource, for this request.
    Own,
    /// The resource, for another place.
    Other(&'a Token),
    /// One of several resources, for this request. It is of no use, because another resource is held or reserved.
    Useless,
}

/// Returns what a node has reserved of several resources together; `None` if that is not known.
pub(crate) fn together<'a>(resources: impl Iterator<Item = Option<Reserved<'a>>>) -> Option<Reserved<'a>> {
    resources.reduce(|one, other| one.zip(other).map(|(one, other)| one.and(other))).flatten()
}

impl Reserved<'_> {
    fn and(self, other: Self) -> Self {
        use Reserved::{Held, Nothing, Other, Own, Useless};
        match (self, other) {
            (Useless, _) | (_, Useless) | (Own, Held | Other(_)) | (Held | Other(_), Own) => Useless,
            (Own, _) | (_, Own) => Own,
            (Held, _) | (_, Held) => Held,
            (Nothing, other) | (other @ Other(_), _) => other,
        }
    }
}

/// Returns whether this request has a reservation, and cannot have a quorum, because other nodes have reserved the resource
/// for other requests, or because another of its resources is held.
///
/// Such a request makes an attempt, although it fails. Thus its reservations pass on, and it keeps its place. If no request
/// has a quorum, the releases of the attempt also change the order, so that one of them is first everywhere.
pub(crate) fn is_split<'a>(
    nodes: &(impl Iterator<Item = (usize, Reserved<'a>)> + Clone),
    quorums: Quorums,
) -> bool {
    let count = |list: Members, wanted: &dyn Fn(Reserved<'_>) -> bool| {
        nodes.clone().filter(|(node, reserved)| list.contains(*node) && wanted(*reserved)).count()
    };
    let is_usable = |reserved: Reserved<'_>| matches!(reserved, Reserved::Own | Reserved::Nothing);
    let is_not_held = |reserved: Reserved<'_>| reserved != Reserved::Held;
    nodes.clone().any(|(_, reserved)| matches!(reserved, Reserved::Own | Reserved::Useless))
        && quorums.lists().any(|list| count(list, &is_usable) < list.quorum())
        && quorums.lists().all(|list| count(list, &is_not_held) >= list.quorum())
}

/// The time in which the nodes notify a waiter of one release.
///
/// A release and its notifications reach all nodes within a few round trips. A reservation lasts four times as long.
const TOGETHER: Duration = Duration::from_millis(50);

/// Returns when a node that has reported at this time that the resource is held is queried again, although it has not
/// notified of a change.
///
/// Other nodes have reported a reservation since, at these times, so the lock was released. The notification of this node
/// may be lost.
pub(crate) fn doubted_at(held: Instant, reserved: impl Iterator<Item = Instant>) -> Option<Instant> {
    reserved.filter(|at| *at > held).min().map(|at| at + TOGETHER)
}

/// Returns the time by which a split moves the start of a request, after this number of splits in a row.
///
/// It may be short. If each of two requests moved by about the same time in turn, they would change places each time.
fn spread(splits: u32, random: u64) -> Duration {
    jitter(MIN_DELAY * (2 << splits.min(5)), random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn attempt() -> Token {
        Token::random(|bytes| bytes.fill(0xa5), None)
    }

    #[test]
    fn a_request_has_a_place_from_its_first_denial_to_its_end() {
        let mut standing = Standing::new(at(10), Duration::from_millis(200), false);
        assert_eq!(None, standing.place(at(20)));
        assert_eq!(None, standing.leave());
        standing.denied(&attempt());
        let place = standing.place(at(20)).unwrap();
        assert_eq!(Some(Duration::from_millis(10)), place.waited);
        standing.denied(&Token::random(|bytes| bytes.fill(1), None));
        assert_eq!(place, standing.place(at(20)).unwrap(), "it keeps its place");
        let copy = standing.clone();
        assert!(!copy.is_outdated());
        assert_eq!(Some(place.given_up()), standing.leave());
        assert_eq!(None, standing.place(at(20)));
        assert!(copy.is_outdated(), "a node that replies late is not to enter the place");
        assert!(copy.has_left(), "and is to leave it");
        standing.denied(&attempt());
        assert!(copy.is_outdated() && !standing.is_outdated());
        let copy = standing.clone();
        standing.prepare(0);
        assert!(copy.is_outdated() && !copy.has_left(), "the next attempt enters the place");
        assert!(!standing.is_outdated());
    }

    #[test]
    fn readers_may_use_the_reservation_of_a_reader() {
        for is_reader in [false, true] {
            let mut standing = Standing::new(at(0), Duration::from_millis(200), is_reader);
            standing.denied(&attempt());
            let id = standing.id().unwrap();
            assert!(id.is_place());
            assert_eq!(is_reader, id.is_place_of_reader());
        }
    }

    #[test]
    fn a_request_with_a_minority_of_reservations_resolves_the_split() {
        use Reserved::{Held, Nothing, Other, Own, Useless};
        let (b, c) = (Token::from_bytes("b"), Token::from_bytes("c"));
        let split = |nodes: &[Reserved<'_>]| is_split(&nodes.iter().copied().enumerate(), Quorums::of(5));
        assert!(split(&[Own, Own, Other(&b), Other(&b), Other(&c)]), "nobody has a quorum");
        assert!(split(&[Own, Other(&b), Other(&c)]), "the two other nodes do not reply");
        assert!(split(&[Own, Other(&b), Other(&b), Other(&b), Other(&c)]), "another has a quorum");
        assert!(!split(&[Own, Own, Own, Other(&b), Other(&b)]), "this request has a quorum");
        assert!(!split(&[Own, Own, Nothing, Other(&b), Other(&b)]), "an attempt can succeed");
        assert!(!split(&[Own, Other(&b), Held, Held, Held]), "a client may hold the lock");
        assert!(
            split(&[Useless, Useless, Useless, Held, Held]),
            "a reservation for one of several resources"
        );
        assert!(!split(&[Other(&b), Other(&b), Other(&c)]));
        // Two lists of three nodes each.
        let change = Quorums::of_change(3, &[3, 4, 5]);
        let split = |nodes: [Reserved<'_>; 6]| is_split(&nodes.iter().copied().enumerate(), change);
        assert!(split([Own, Own, Own, Other(&b), Other(&b), Nothing]), "another is first on one list");
        assert!(!split([Own, Own, Other(&b), Own, Nothing, Other(&b)]), "an attempt can succeed");
        let some = [(0, Own), (1, Own), (3, Other(&b))];
        assert!(!is_split(&some.into_iter(), change), "the other nodes of one list hold a lock");
    }

    #[test]
    fn a_reservation_on_another_node_casts_doubt_on_an_older_report() {
        let doubted = |held, reserved: &[u64]| doubted_at(at(held), reserved.iter().copied().map(at));
        assert_eq!(None, doubted(10, &[]));
        assert_eq!(None, doubted(10, &[5, 10]), "the node was queried since");
        assert_eq!(Some(at(20) + TOGETHER), doubted(10, &[5, 30, 20]));
    }

    #[test]
    fn a_reservation_is_of_no_use_while_another_resource_is_held() {
        use Reserved::{Held, Nothing, Other, Own, Useless};
        let b = Token::from_bytes("b");
        let two = |one, other| together([Some(one), Some(other)].into_iter());
        let all = [Held, Nothing, Own, Other(&b), Useless];
        for one in all {
            assert_eq!(Some(one), together([Some(one)].into_iter()));
            assert_eq!(None, together([Some(one), None].into_iter()));
            for other in all {
                assert_eq!(two(one, other), two(other, one), "{one:?} {other:?}");
            }
        }
        assert_eq!(Some(Useless), two(Own, Held));
        assert_eq!(Some(Useless), two(Own, Other(&b)));
        assert_eq!(Some(Own), two(Own, Nothing));
        assert_eq!(Some(Held), two(Held, Nothing));
        assert_eq!(Some(Other(&b)), two(Other(&b), Nothing));
        assert_eq!(Some(Nothing), two(Nothing, Nothing));
    }

    #[test]
    fn each_split_costs_more_time_than_the_one_before() {
        let mut standing = Standing::new(at(0), Duration::from_millis(200), false);
        let mut waited = || {
            standing.prepare(u64::MAX);
            standing.denied(&attempt());
            standing.decided(true, None);
            standing.place(at(1_000)).unwrap().waited.unwrap().as_millis()
        };
        let waited: Vec<_> = (0..9).map(|_| waited()).collect();
        assert_eq!([1_000, 996, 988, 972, 940, 876, 812, 748, 684], waited[..]);
        standing.denied(&attempt());
        standing.decided(false, None);
        standing.prepare(u64::MAX);
        standing.denied(&attempt());
        standing.decided(true, None);
        let waited = standing.place(at(1_000)).unwrap().waited.unwrap();
        assert_eq!(682, waited.as_millis(), "the first split after a denial costs little");
    }

    #[test]
    fn a_lock_that_denies_again_is_no_split() {
        let [a, b] = ["a", "b"].map(Token::from_bytes);
        let mut standing = Standing::new(at(0), Duration::from_millis(200), false);
        let mut waited = |is_split, holder| {
            standing.prepare(u64::MAX);
            standing.denied(&attempt());
            standing.decided(is_split, holder);
            standing.place(at(1_000)).unwrap().waited.unwrap().as_millis()
        };
        assert_eq!(1_000, waited(false, Some(&a)));
        assert_eq!([1_000, 1_000], [waited(true, Some(&a)), waited(true, Some(&a))]);
        assert_eq!(
            [998, 998],
            [waited(true, Some(&b)), waited(true, Some(&b))],
            "it may have been an attempt"
        );
        assert_eq!([996, 992], [waited(true, None), waited(true, None)]);
    }
}
