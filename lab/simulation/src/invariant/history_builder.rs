//! Handwritten histories for the tests of invariants. Times are milliseconds; clients, servers and tokens are numbers.

use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_core::{ErrorKind, FencingToken, ReleaseOutcome};
use redlock_testkit::Operation;

use crate::history::EventKind::*;
use crate::history::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

#[derive(Default)]
pub(crate) struct HistoryBuilder(Vec<Event>);

const SECOND: Duration = Duration::from_secs(1);

const ACQUIRE: Operation = Operation::Acquire;

fn at(millis: u64) -> Instant {
    Instant::since_origin(Duration::from_millis(millis))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn request(client: usize, server: usize, operation: Operation, token: u32) -> Request {
    Request { client, server, operation, token: TokenNumber(token), call: 0 }
}

fn counted(counter: u64) -> Reply {
    Reply::Counted(fence(counter))
}

fn fence(number: u64) -> FencingToken {
    FencingToken::new(number).expect("the token is valid")
}

fn request_for(client: usize, ttl: Duration, once: bool, fenced: bool) -> EventKind {
    Requested { client, resources: vec![0], ttl, once, fenced }
}

fn grant(client: usize, resources: &[usize], token: u32, until: u64, fence: Option<u64>) -> EventKind {
    let fence = fence.and_then(FencingToken::new);
    Granted { client, resources: resources.to_vec(), token: TokenNumber(token), until: at(until), fence }
}

fn write(token: u32, number: u64, seen: Option<u64>, accepted: bool) -> EventKind {
    Wrote { client: 0, resource: 0, token: TokenNumber(token), fence: fence(number), seen, accepted }
}

fn carry(request: Request, reply: Reply, until: Option<u64>, again: bool) -> EventKind {
    CarriedOut { request, reply, until: until.map(at), travelled: millis(1), again }
}

fn receive(client: usize, server: usize, operation: Operation, token: u32) -> EventKind {
    Received { request: request(client, server, operation, token), reply: Reply::Granted }
}

/// Declares methods that append an event. Their first argument is its time.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $of:ty),*) = $event:expr;)+) => {
        impl HistoryBuilder {
            $(
                $(#[$doc])*
                pub(crate) fn $name(self, when: u64 $(, $argument: $of)*) -> Self {
                    self.then(when, $event)
                }
            )+
        }
    };
}

events! {
    requested(client: usize) = request_for(client, SECOND, false, false);
    requested_once(client: usize, ttl: u64) = request_for(client, millis(ttl), true, false);
    requested_fenced(client: usize, ttl: u64) = request_for(client, millis(ttl), true, true);
    granted(client: usize, token: u32, until: u64) = grant(client, &[0], token, until, None);
    granted_several(client: usize, resources: &[usize], token: u32, until: u64) =
        grant(client, resources, token, until, None);
    /// Adds a grant with a fencing token and a long validity.
    fenced(client: usize, token: u32, fence: u64) = grant(client, &[0], token, 1_000_000, Some(fence));
    fenced_several(client: usize, resources: &[usize], token: u32, fence: u64) =
        grant(client, resources, token, 1_000_000, Some(fence));
    not_granted(client: usize) = NotGranted { client, why: Some(ErrorKind::NoQuorum) };
    contended(client: usize) = NotGranted { client, why: Some(ErrorKind::Contended) };
    /// Adds the arrival of a holder's fencing token at the resource.
    announced(token: u32, fence: u64) = write(token, fence, None, true);
    wrote(token: u32, fence: u64, seen: u64) = write(token, fence, Some(seen), true);
    rejected_write(token: u32, fence: u64, seen: u64) = write(token, fence, Some(seen), false);
    acted(client: usize, token: u32) = Acted { client, token: TokenNumber(token) };
    extending(client: usize, token: u32) = Extending { client, token: TokenNumber(token), ttl: SECOND };
    extended(client: usize, token: u32, until: u64) =
        Extended { client, token: TokenNumber(token), until: at(until) };
    not_extended(client: usize, token: u32, why: ErrorKind) =
        NotExtended { client, token: TokenNumber(token), why: Some(why) };
    canceled_extension(client: usize, token: u32) =
        NotExtended { client, token: TokenNumber(token), why: None };
    releasing(client: usize, token: u32) =
        Releasing { client, token: TokenNumber(token), waits: true, is_open: false };
    /// Like [`releasing`](Self::releasing). The turn that follows is open to all.
    opening(client: usize, token: u32) =
        Releasing { client, token: TokenNumber(token), waits: true, is_open: true };
    released(client: usize, token: u32) =
        Released { client, token: TokenNumber(token), outcome: Ok(ReleaseOutcome::Released) };
    release_outcome(client: usize, token: u32, outcome: ReleaseOutcome) =
        Released { client, token: TokenNumber(token), outcome: Ok(outcome) };
    keeping(client: usize, token: u32) = Keeping { client, token: TokenNumber(token) };
    kept(client: usize, token: u32, until: u64) =
        Kept { client, token: TokenNumber(token), until: at(until) };
    runs(client: usize, tasks: usize) = Runs { client, tasks };
    closed(client: usize) = Closed { client };
    calm() = Calm;
    // Requests.
    sent(client: usize, server: usize, token: u32) = Sent(request(client, server, ACQUIRE, token));
    sent_release(client: usize, server: usize, token: u32) =
        Sent(request(client, server, Operation::Release, token));
    sent_extension(client: usize, server: usize, token: u32, call: u64) =
        Sent(Request { call, ..request(client, server, Operation::Extend, token) });
    carried(client: usize, server: usize, token: u32, until: u64) =
        carry(request(client, server, ACQUIRE, token), Reply::Granted, Some(until), false);
    carried_again(client: usize, server: usize, token: u32, until: u64) =
        carry(request(client, server, ACQUIRE, token), Reply::Granted, Some(until), true);
    /// Adds a fenced acquire that a server carries out.
    counted(client: usize, server: usize, token: u32, counter: u64, until: u64) =
        carry(request(client, server, ACQUIRE, token), counted(counter), Some(until), false);
    /// Adds a confirmation that a server carries out.
    confirmed(client: usize, server: usize, token: u32, until: u64) =
        carry(request(client, server, Operation::Confirm, token), Reply::Granted, Some(until), false);
    deleted(client: usize, server: usize, token: u32) =
        carry(request(client, server, Operation::Release, token), Reply::Granted, None, false);
    received(client: usize, server: usize, token: u32) = receive(client, server, ACQUIRE, token);
    release_received(client: usize, server: usize, token: u32) =
        receive(client, server, Operation::Release, token);
    confirmation_received(client: usize, server: usize, token: u32) =
        receive(client, server, Operation::Confirm, token);
    extension_granted(client: usize, server: usize, token: u32) =
        receive(client, server, Operation::Extend, token);
    keep_granted(client: usize, server: usize, token: u32) =
        receive(client, server, Operation::Keep, token);
    extension_granted_to(client: usize, server: usize, token: u32, call: u64) = Received {
        request: Request { call, ..request(client, server, Operation::Extend, token) },
        reply: Reply::Granted,
    };
    /// Adds a counter that the client receives from a server.
    counter_received(client: usize, server: usize, token: u32, counter: u64) =
        Received { request: request(client, server, ACQUIRE, token), reply: counted(counter) };
    /// Adds a denial that the client receives from a server.
    denied(client: usize, server: usize, token: u32, operation: Operation) =
        Received { request: request(client, server, operation, token), reply: Reply::Denied };
    // Faults.
    lost(server: usize, token: u32) = Lost { server, token: TokenNumber(token) };
    left(server: usize, token: u32) = Left { server, token: TokenNumber(token) };
    forgot(server: usize, away: u64) =
        FaultBegins(Place::Server(server), FaultKind::Amnesia(millis(away)));
    /// Replaces the data of a server by an older copy.
    rolled_back(server: usize) = FaultBegins(Place::Server(server), FaultKind::Rollback);
    stepped(server: usize) = FaultBegins(Place::Server(server), FaultKind::Step(5_000));
    killed(client: usize) = FaultBegins(Place::Client(client), FaultKind::Kill);
    paused(client: usize) = FaultBegins(Place::Client(client), FaultKind::Pause);
    resumed(client: usize) = FaultEnds(Place::Client(client), FaultKind::Pause);
}

impl HistoryBuilder {
    /// Returns the history in the order of time; equal times keep the order of the calls.
    pub(crate) fn history(mut self) -> History {
        self.0.sort_by_key(|event| event.at);
        History(self.0)
    }

    pub(crate) fn reader(self, when: u64, client: usize, token: u32, until: u64) -> Self {
        let reads = Reads { client, token: TokenNumber(token) };
        self.granted(when, client, token, until).then(when, reads)
    }

    /// Stops a server for a moment.
    pub(crate) fn restarted(self, when: u64, server: usize) -> Self {
        let place = Place::Server(server);
        let stopped = self.then(when, FaultBegins(place, FaultKind::Crash));
        stopped.then(when, FaultEnds(place, FaultKind::Crash))
    }

    fn then(mut self, millis: u64, kind: EventKind) -> Self {
        self.0.push(Event { at: at(millis), kind });
        self
    }
}
