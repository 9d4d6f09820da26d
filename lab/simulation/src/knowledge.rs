//! The knowledge of servers, clients and resources over time: keys and counters, votes and leases, tokens.
//!
//! It is a list of periods, so the state at any moment is the list of periods that contain it.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use crate::history::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

/// A fact, and the period in which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The server, client or resource that knows it, or the path that has the fault.
    pub place: Place,
    /// The first moment.
    pub from: Instant,
    /// The moment at which it no longer holds.
    pub until: Instant,
    /// The fact.
    pub fact: Fact,
}

/// The knowledge of one place.
///
/// Times are in true time: `expires` by the clock of the server, and `deadline` as the client knows it then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Fact {
    /// A server has the key of a client.
    Key { client: usize, token: TokenNumber, expires: Instant },
    /// A server has this counter of fencing tokens.
    Counter(FencingToken),
    /// A fault lasts.
    Fault(FaultKind),
    /// A client requests a lock.
    Requests { resources: Vec<usize>, ttl: Duration, fenced: bool },
    /// A client has these replies to its attempt or its lease, by server; `None` without a reply so far.
    Votes { token: TokenNumber, replies: BTreeMap<usize, Option<Reply>> },
    /// A client has a valid lease.
    Lease { resources: Vec<usize>, token: TokenNumber, deadline: Instant, fence: Option<FencingToken> },
    /// A resource has seen this fencing token.
    Resource { fence: FencingToken, writes: u64 },
}

/// Returns all periods, in the order of their beginning.
pub fn knowledge(history: &History) -> Vec<Period> {
    let mut book = Book::default();
    for event in &history.0 {
        book.read(event);
    }
    book.finish(history.0.last().map_or(Instant::ORIGIN, |event| event.at))
}

/// The kinds of facts, of which a place has at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Key(TokenNumber),
    Counter,
    Fault(&'static str),
    Request,
    Votes,
    Lease,
    Resource,
}

/// A fact that holds now. `ends` is the time at which it ends without an event.
#[derive(Debug)]
struct Open {
    from: Instant,
    ends: Option<Instant>,
    fact: Fact,
}

#[derive(Debug, Default)]
struct Book {
    open: BTreeMap<(Place, Slot), Open>,
    periods: Vec<Period>,
}

impl Book {
    fn read(&mut self, Event { at, kind }: &Event) {
        let at = *at;
        match kind {
            EventKind::Requested { client, resources, ttl, fenced, .. } => {
                let fact = Fact::Requests { resources: resources.clone(), ttl: *ttl, fenced: *fenced };
                self.open(at, Place::Client(*client), Slot::Request, fact, None);
            }
            EventKind::NotGranted { client, .. } => {
                self.close(at, Place::Client(*client), &[Slot::Request, Slot::Votes]);
            }
            EventKind::Granted { client, resources, token, until, fence } => {
                let place = Place::Client(*client);
                self.close(at, place, &[Slot::Request]);
                let (resources, token, deadline, fence) = (resources.clone(), *token, *until, *fence);
                self.open(
                    at,
                    place,
                    Slot::Lease,
                    Fact::Lease { resources, token, deadline, fence },
                    Some(deadline),
                );
                self.limit(place, Slot::Votes, deadline);
            }
            EventKind::Extended { client, token, until } | EventKind::Noticed { client, token, until } => {
                self.extend(at, *client, *token, *until);
            }
            EventKind::Releasing { client, .. }
            | EventKind::Keeping { client, .. }
            | EventKind::LossReported { client, .. } => {
                self.close(at, Place::Client(*client), &[Slot::Lease, Slot::Votes]);
            }
            EventKind::Sent(request) if request.operation == Operation::Acquire => {
                self.vote(at, *request, None);
            }
            EventKind::Received { request, reply } if request.operation == Operation::Acquire => {
                self.vote(at, *request, Some(*reply));
            }
            EventKind::CarriedOut { request, reply, until, .. } => {
                self.carried_out(at, *request, *reply, *until);
            }
            EventKind::Moved { server, token, until } => self.moved(at, *server, *token, *until),
            EventKind::Lost { server, token } => self.close(at, Place::Server(*server), &[Slot::Key(*token)]),
            EventKind::Wrote { resource, fence, seen, accepted: true, .. } => {
                self.wrote(at, *resource, *fence, seen.is_some());
            }
            EventKind::FaultBegins(place, FaultKind::Amnesia(_)) => self.close(at, *place, &[Slot::Counter]),
            EventKind::FaultBegins(place, fault) if fault.lasts() => {
                if *fault == FaultKind::Kill {
                    self.close(at, *place, &[Slot::Request, Slot::Votes, Slot::Lease]);
                }
                self.open(at, *place, Slot::Fault(fault.name()), Fact::Fault(*fault), None);
            }
            EventKind::FaultEnds(place, fault) => self.close(at, *place, &[Slot::Fault(fault.name())]),
            _ => {}
        }
    }

    fn vote(&mut self, at: Instant, request: Request, reply: Option<Reply>) {
        let place = Place::Client(request.client);
        let known = match self.open.get(&(place, Slot::Votes)) {
            Some(Open { fact: Fact::Votes { token, replies }, ends, .. }) if *token == request.token => {
                Some((replies.clone(), *ends))
            }
            // A late reply to an earlier attempt is no vote.
            _ if reply.is_some() => return,
            _ => None,
        };
        let (mut replies, ends) = known.unwrap_or_default();
        replies.insert(request.server, reply);
        self.open(at, place, Slot::Votes, Fact::Votes { token: request.token, replies }, ends);
    }

    fn extend(&mut self, at: Instant, client: usize, token: TokenNumber, until: Instant) {
        let place = Place::Client(client);
        let Some(Open { fact: Fact::Lease { token: held, resources, fence, .. }, .. }) =
            self.open.get(&(place, Slot::Lease))
        else {
            return;
        };
        if *held == token {
            let fact = Fact::Lease { resources: resources.clone(), token, deadline: until, fence: *fence };
            self.open(at, place, Slot::Lease, fact, Some(until));
            self.limit(place, Slot::Votes, until);
        }
    }

    fn carried_out(&mut self, at: Instant, request: Request, reply: Reply, until: Option<Instant>) {
        let Request { client, server, operation, token, .. } = request;
        let place = Place::Server(server);
        if let Reply::Counted(counter) = reply {
            self.open(at, place, Slot::Counter, Fact::Counter(counter), None);
        }
        if let Some(expires) = until {
            self.open(at, place, Slot::Key(token), Fact::Key { client, token, expires }, Some(expires));
        } else if operation == Operation::Release && reply.is_grant() {
            self.close(at, place, &[Slot::Key(token)]);
        }
    }

    fn moved(&mut self, at: Instant, server: usize, token: TokenNumber, expires: Instant) {
        let (place, slot) = (Place::Server(server), Slot::Key(token));
        if let Some(Open { fact: Fact::Key { client, .. }, .. }) = self.open.get(&(place, slot)) {
            let client = *client;
            self.open(at, place, slot, Fact::Key { client, token, expires }, Some(expires));
        }
    }

    fn wrote(&mut self, at: Instant, resource: usize, fence: FencingToken, changes: bool) {
        let place = Place::Resource(resource);
        let before = match self.open.get(&(place, Slot::Resource)) {
            Some(Open { fact: Fact::Resource { writes, .. }, .. }) => *writes,
            _ => 0,
        };
        let writes = before + u64::from(changes);
        self.open(at, place, Slot::Resource, Fact::Resource { fence, writes }, None);
    }

    /// Replaces the fact of a slot.
    fn open(&mut self, at: Instant, place: Place, slot: Slot, fact: Fact, ends: Option<Instant>) {
        self.close(at, place, &[slot]);
        self.open.insert((place, slot), Open { from: at, ends, fact });
    }

    fn limit(&mut self, place: Place, slot: Slot, ends: Instant) {
        if let Some(open) = self.open.get_mut(&(place, slot)) {
            open.ends = Some(ends);
        }
    }

    fn close(&mut self, at: Instant, place: Place, slots: &[Slot]) {
        for slot in slots {
            let Some(Open { from, ends, fact }) = self.open.remove(&(place, *slot)) else { continue };
            let until = ends.unwrap_or(at).min(at);
            if from < until {
                self.periods.push(Period { place, from, until, fact });
            }
        }
    }

    fn finish(mut self, at: Instant) -> Vec<Period> {
        let open: Vec<_> = self.open.keys().copied().collect();
        for (place, slot) in open {
            self.close(at, place, &[slot]);
        }
        self.periods.sort_by_key(|period| (period.from, period.place));
        self.periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::history_builder::HistoryBuilder;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    /// Returns the facts of a place at a moment.
    fn facts(builder: HistoryBuilder, place: Place, when: u64) -> Vec<Fact> {
        let known = knowledge(&builder.history()).into_iter();
        let holds =
            |period: &Period| period.place == place && period.from <= at(when) && at(when) < period.until;
        known.filter(holds).map(|period| period.fact).collect()
    }

    fn builder() -> HistoryBuilder {
        let builder = HistoryBuilder::default()
            .requested(0, 0)
            .sent(0, 0, 0, 7)
            .sent(0, 0, 1, 7)
            .carried(1, 0, 0, 7, 900);
        builder.received(2, 0, 0, 7).granted(3, 0, 7, 800)
    }

    #[test]
    fn a_request_has_votes_and_becomes_a_lease_until_its_deadline() {
        let client = Place::Client(0);
        let votes = |replies| Fact::Votes { token: TokenNumber(7), replies: BTreeMap::from(replies) };
        let (resources, ttl) = (vec![0], Duration::from_secs(1));
        let requests = Fact::Requests { resources: resources.clone(), ttl, fenced: false };
        let lease = Fact::Lease { resources, token: TokenNumber(7), deadline: at(800), fence: None };
        let half = [(0, Some(Reply::Granted)), (1, None)];
        let ended = || builder().calm(2_000);
        assert_eq!(vec![votes([(0, None), (1, None)]), requests], facts(ended(), client, 1));
        assert_eq!(vec![votes(half), lease], facts(ended(), client, 3));
        assert!(facts(ended(), client, 800).is_empty());
    }

    #[test]
    fn an_extension_moves_the_deadline_that_the_client_knows() {
        let deadlines = |when| {
            let builder = builder().extended(500, 0, 7, 1_300).calm(2_000);
            let lease = |fact| if let Fact::Lease { deadline, .. } = fact { Some(deadline) } else { None };
            facts(builder, Place::Client(0), when).into_iter().filter_map(lease).collect::<Vec<_>>()
        };
        assert_eq!([vec![at(800)], vec![at(1_300)], vec![]], [499, 500, 1_300].map(deadlines));
    }

    #[test]
    fn a_server_has_a_key_until_it_expires_or_is_deleted() {
        let keys = |builder: HistoryBuilder, when| facts(builder.calm(2_000), Place::Server(0), when).len();
        assert_eq!([0, 1, 1, 0], [0, 1, 899, 900].map(|when| keys(builder(), when)));
        assert_eq!(0, keys(builder().deleted(5, 0, 0, 7), 5));
        assert_eq!(0, keys(builder().lost(5, 0, 7), 5));
    }

    #[test]
    fn a_dead_client_knows_nothing() {
        let builder = builder().killed(5, 0).calm(2_000);
        assert_eq!(vec![Fact::Fault(FaultKind::Kill)], facts(builder, Place::Client(0), 6));
    }

    #[test]
    fn a_resource_has_the_greatest_token_and_counts_writes() {
        let builder =
            || HistoryBuilder::default().announced(1, 7, 40).wrote(2, 7, 40, 0).rejected_write(3, 6, 39, 0);
        let fence = FencingToken::new(40).expect("a valid number");
        let known = |writes| vec![Fact::Resource { fence, writes }];
        assert_eq!(known(0), facts(builder().calm(9), Place::Resource(0), 1));
        assert_eq!(known(1), facts(builder().calm(9), Place::Resource(0), 5));
    }
}
