//! Handwritten histories for the tests of invariants. Times are milliseconds; clients, servers and tokens are numbers.

use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_core::{ErrorKind, FencingToken, ReleaseOutcome};
use redlock_testkit::Operation;

use crate::history::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

#[derive(Default)]
pub(crate) struct HistoryBuilder(Vec<Event>);

fn at(millis: u64) -> Instant {
    Instant::since_origin(Duration::from_millis(millis))
}

fn request(client: usize, server: usize, operation: Operation, token: u32) -> Request {
    Request { client, server, operation, token: TokenNumber(token), call: 0 }
}

fn counted(counter: u64) -> Reply {
    Reply::Counted(FencingToken::new(counter).expect("the token is valid"))
}

impl HistoryBuilder {
    /// Returns the history in the order of time; equal times keep the order of the calls.
    pub(crate) fn history(mut self) -> History {
        self.0.sort_by_key(|event| event.at);
        History(self.0)
    }

    fn then(mut self, millis: u64, kind: EventKind) -> Self {
        self.0.push(Event { at: at(millis), kind });
        self
    }

    pub(crate) fn requested(self, when: u64, client: usize) -> Self {
        let ttl = Duration::from_secs(1);
        self.then(when, EventKind::Requested { client, resources: vec![0], ttl, once: false, fenced: false })
    }

    pub(crate) fn requested_once(self, when: u64, client: usize, ttl: u64) -> Self {
        let ttl = Duration::from_millis(ttl);
        self.then(when, EventKind::Requested { client, resources: vec![0], ttl, once: true, fenced: false })
    }

    pub(crate) fn granted(self, when: u64, client: usize, token: u32, until: u64) -> Self {
        self.granted_several(when, client, &[0], token, until)
    }

    pub(crate) fn reader(self, when: u64, client: usize, token: u32, until: u64) -> Self {
        let reads = EventKind::Reads { client, token: TokenNumber(token) };
        self.granted(when, client, token, until).then(when, reads)
    }

    /// Adds a grant with a fencing token and a long validity.
    pub(crate) fn fenced(self, when: u64, client: usize, token: u32, fence: u64) -> Self {
        self.fenced_several(when, client, &[0], token, fence)
    }

    pub(crate) fn fenced_several(
        self,
        when: u64,
        client: usize,
        resources: &[usize],
        token: u32,
        fence: u64,
    ) -> Self {
        let (token, resources, until) = (TokenNumber(token), resources.to_vec(), at(1_000_000));
        self.then(
            when,
            EventKind::Granted { client, resources, token, until, fence: FencingToken::new(fence) },
        )
    }

    pub(crate) fn requested_fenced(self, when: u64, client: usize, ttl: u64) -> Self {
        let ttl = Duration::from_millis(ttl);
        self.then(when, EventKind::Requested { client, resources: vec![0], ttl, once: true, fenced: true })
    }

    /// Adds the arrival of a holder's fencing token at the resource.
    pub(crate) fn announced(self, when: u64, token: u32, fence: u64) -> Self {
        self.write(when, token, fence, None, true)
    }

    pub(crate) fn wrote(self, when: u64, token: u32, fence: u64, seen: u64) -> Self {
        self.write(when, token, fence, Some(seen), true)
    }

    pub(crate) fn rejected_write(self, when: u64, token: u32, fence: u64, seen: u64) -> Self {
        self.write(when, token, fence, Some(seen), false)
    }

    fn write(self, when: u64, token: u32, number: u64, seen: Option<u64>, is_accepted: bool) -> Self {
        let (client, resource, token) = (0, 0, TokenNumber(token));
        let fence = FencingToken::new(number).expect("the token is valid");
        self.then(when, EventKind::Wrote { client, resource, token, fence, seen, accepted: is_accepted })
    }

    pub(crate) fn forgot(self, when: u64, server: usize, away: u64) -> Self {
        let fault = FaultKind::Amnesia(Duration::from_millis(away));
        self.then(when, EventKind::FaultBegins(Place::Server(server), fault))
    }

    /// Stops a server for a moment.
    pub(crate) fn restarted(self, when: u64, server: usize) -> Self {
        let place = Place::Server(server);
        let stopped = self.then(when, EventKind::FaultBegins(place, FaultKind::Crash));
        stopped.then(when, EventKind::FaultEnds(place, FaultKind::Crash))
    }

    /// Replaces the data of a server by an older copy.
    pub(crate) fn rolled_back(self, when: u64, server: usize) -> Self {
        self.then(when, EventKind::FaultBegins(Place::Server(server), FaultKind::Rollback))
    }

    /// Adds a fenced acquire that a server carries out.
    pub(crate) fn counted(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        counter: u64,
        until: u64,
    ) -> Self {
        let (request, reply) = (request(client, server, Operation::Acquire, token), counted(counter));
        let (until, travelled) = (Some(at(until)), Duration::from_millis(1));
        self.then(when, EventKind::CarriedOut { request, reply, until, travelled, again: false })
    }

    /// Adds a confirmation that a server carries out.
    pub(crate) fn confirmed(self, when: u64, client: usize, server: usize, token: u32, until: u64) -> Self {
        self.carry(when, request(client, server, Operation::Confirm, token), Some(at(until)), false)
    }

    /// Adds a counter that the client receives from a server.
    pub(crate) fn counter_received(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        counter: u64,
    ) -> Self {
        let (request, reply) = (request(client, server, Operation::Acquire, token), counted(counter));
        self.then(when, EventKind::Received { request, reply })
    }

    pub(crate) fn release_received(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        let request = request(client, server, Operation::Release, token);
        self.then(when, EventKind::Received { request, reply: Reply::Granted })
    }

    pub(crate) fn confirmation_received(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        let request = request(client, server, Operation::Confirm, token);
        self.then(when, EventKind::Received { request, reply: Reply::Granted })
    }

    pub(crate) fn granted_several(
        self,
        when: u64,
        client: usize,
        resources: &[usize],
        token: u32,
        until: u64,
    ) -> Self {
        let (token, until, resources) = (TokenNumber(token), at(until), resources.to_vec());
        self.then(when, EventKind::Granted { client, resources, token, until, fence: None })
    }

    pub(crate) fn not_granted(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::NotGranted { client, why: Some(ErrorKind::NoQuorum) })
    }

    pub(crate) fn contended(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::NotGranted { client, why: Some(ErrorKind::Contended) })
    }

    pub(crate) fn extending(self, when: u64, client: usize, token: u32) -> Self {
        let (token, ttl) = (TokenNumber(token), Duration::from_secs(1));
        self.then(when, EventKind::Extending { client, token, ttl })
    }

    pub(crate) fn extended(self, when: u64, client: usize, token: u32, until: u64) -> Self {
        self.then(when, EventKind::Extended { client, token: TokenNumber(token), until: at(until) })
    }

    pub(crate) fn canceled_extension(self, when: u64, client: usize, token: u32) -> Self {
        self.then(when, EventKind::NotExtended { client, token: TokenNumber(token), why: None })
    }

    pub(crate) fn acted(self, when: u64, client: usize, token: u32) -> Self {
        self.then(when, EventKind::Acted { client, token: TokenNumber(token) })
    }

    pub(crate) fn releasing(self, when: u64, client: usize, token: u32) -> Self {
        self.ending(when, client, token, false)
    }

    /// Like [`releasing`](Self::releasing). The turn that follows is open to all.
    pub(super) fn opening(self, when: u64, client: usize, token: u32) -> Self {
        self.ending(when, client, token, true)
    }

    fn ending(self, when: u64, client: usize, token: u32, is_open: bool) -> Self {
        self.then(when, EventKind::Releasing { client, token: TokenNumber(token), waits: true, is_open })
    }

    pub(crate) fn keeping(self, when: u64, client: usize, token: u32) -> Self {
        self.then(when, EventKind::Keeping { client, token: TokenNumber(token) })
    }

    pub(crate) fn kept(self, when: u64, client: usize, token: u32, until: u64) -> Self {
        self.then(when, EventKind::Kept { client, token: TokenNumber(token), until: at(until) })
    }

    pub(crate) fn released(self, when: u64, client: usize, token: u32) -> Self {
        let outcome = Ok(ReleaseOutcome::Released);
        self.then(when, EventKind::Released { client, token: TokenNumber(token), outcome })
    }

    pub(crate) fn release_outcome(
        self,
        when: u64,
        client: usize,
        token: u32,
        outcome: ReleaseOutcome,
    ) -> Self {
        let (token, outcome) = (TokenNumber(token), Ok(outcome));
        self.then(when, EventKind::Released { client, token, outcome })
    }

    pub(crate) fn not_extended(self, when: u64, client: usize, token: u32, why: ErrorKind) -> Self {
        let (token, why) = (TokenNumber(token), Some(why));
        self.then(when, EventKind::NotExtended { client, token, why })
    }

    /// Adds a denial that the client receives from a server.
    pub(crate) fn denied(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        operation: Operation,
    ) -> Self {
        let request = request(client, server, operation, token);
        self.then(when, EventKind::Received { request, reply: Reply::Denied })
    }

    pub(crate) fn runs(self, when: u64, client: usize, tasks: usize) -> Self {
        self.then(when, EventKind::Runs { client, tasks })
    }

    pub(crate) fn closed(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::Closed { client })
    }

    pub(crate) fn calm(self, when: u64) -> Self {
        self.then(when, EventKind::Calm)
    }

    pub(crate) fn sent(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        self.then(when, EventKind::Sent(request(client, server, Operation::Acquire, token)))
    }

    pub(crate) fn sent_release(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        self.then(when, EventKind::Sent(request(client, server, Operation::Release, token)))
    }

    pub(crate) fn carried(self, when: u64, client: usize, server: usize, token: u32, until: u64) -> Self {
        self.carry(when, request(client, server, Operation::Acquire, token), Some(at(until)), false)
    }

    pub(crate) fn carried_again(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        until: u64,
    ) -> Self {
        self.carry(when, request(client, server, Operation::Acquire, token), Some(at(until)), true)
    }

    pub(crate) fn deleted(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        self.carry(when, request(client, server, Operation::Release, token), None, false)
    }

    fn carry(self, when: u64, request: Request, until: Option<Instant>, again: bool) -> Self {
        let (reply, travelled) = (Reply::Granted, Duration::from_millis(1));
        self.then(when, EventKind::CarriedOut { request, reply, until, travelled, again })
    }

    pub(crate) fn received(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        let request = request(client, server, Operation::Acquire, token);
        self.then(when, EventKind::Received { request, reply: Reply::Granted })
    }

    pub(crate) fn sent_extension(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        call: u64,
    ) -> Self {
        let request = request(client, server, Operation::Extend, token);
        self.then(when, EventKind::Sent(Request { call, ..request }))
    }

    pub(crate) fn extension_granted_to(
        self,
        when: u64,
        client: usize,
        server: usize,
        token: u32,
        call: u64,
    ) -> Self {
        let request = request(client, server, Operation::Extend, token);
        self.then(when, EventKind::Received { request: Request { call, ..request }, reply: Reply::Granted })
    }

    pub(crate) fn extension_granted(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        let request = request(client, server, Operation::Extend, token);
        self.then(when, EventKind::Received { request, reply: Reply::Granted })
    }

    pub(crate) fn keep_granted(self, when: u64, client: usize, server: usize, token: u32) -> Self {
        let request = request(client, server, Operation::Keep, token);
        self.then(when, EventKind::Received { request, reply: Reply::Granted })
    }

    pub(crate) fn lost(self, when: u64, server: usize, token: u32) -> Self {
        self.then(when, EventKind::Lost { server, token: TokenNumber(token) })
    }

    pub(crate) fn left(self, when: u64, server: usize, token: u32) -> Self {
        self.then(when, EventKind::Left { server, token: TokenNumber(token) })
    }

    pub(crate) fn stepped(self, when: u64, server: usize) -> Self {
        self.then(when, EventKind::FaultBegins(Place::Server(server), FaultKind::Step(5_000)))
    }

    pub(crate) fn killed(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::FaultBegins(Place::Client(client), FaultKind::Kill))
    }

    pub(crate) fn paused(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::FaultBegins(Place::Client(client), FaultKind::Pause))
    }

    pub(crate) fn resumed(self, when: u64, client: usize) -> Self {
        self.then(when, EventKind::FaultEnds(Place::Client(client), FaultKind::Pause))
    }
}
