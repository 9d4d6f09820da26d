//! Rounds that are driven by hand: every order of requests, replies, losses and drops, without a runtime.

mod store;

use std::sync::Arc;
use std::time::Duration;

use self::store::Store;
use super::acquire::{Acquire, Lane};
use super::extend::{self, Extend, Extension};
use super::outcome::outcome;
use super::release::Release;
use super::{Cleanup, Heard, Io, Round, Rules};
use crate::decide::fencing::Bound;
use crate::decide::pending_release::WriteState;
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::lease::mode::Mode;
use crate::lease::record::Record;
use crate::node::{Denial, Operation, Request};
use crate::types::claim::Claim;
use crate::types::error::ErrorKind;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

const NODES: usize = 5;
const CLIENTS: usize = 3;
const TTL: Duration = Duration::from_secs(1);

fn rules() -> Rules {
    Rules {
        quorums: Quorums::of(NODES),
        drift: DriftFactor::new(0.01).unwrap(),
        bound: Bound::of(Duration::from_secs(86_400)),
        node_timeout: Duration::from_millis(50),
    }
}

/// A request in the network, or its reply.
struct Message {
    client: usize,
    /// The number of the attempt of the client, whose later rounds do not hear replies to earlier ones.
    attempt: u64,
    node: usize,
    what: What,
    sent: Instant,
    request: Request,
    reply: Option<Outcome>,
    /// True if the round has heard an end of it, and no longer listens.
    is_heard: bool,
}

#[derive(Clone, Copy)]
enum What {
    Acquire(Lane),
    Release,
    Cleanup,
}

#[derive(Default)]
struct Client {
    attempt: u64,
    acquire: Option<Acquire>,
    awaits: bool,
    release: Option<Release>,
    record: Option<Arc<Record>>,
}

struct World {
    random: u64,
    now: Instant,
    stores: Vec<Store>,
    clients: Vec<Client>,
    network: Vec<Message>,
    /// The records of guards, and the last token.
    held: Vec<Arc<Record>>,
    last_token: Option<u64>,
    won: usize,
    confirmed: usize,
    mode: Mode,
}

/// What a run has found.
#[derive(Debug, PartialEq)]
enum Violation {
    Overlap,
}

impl World {
    fn new(seed: u64, mode: Mode, expires_early: Option<u32>) -> Self {
        let mut world = Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: Instant::since_origin(Duration::from_secs(1)),
            stores: (0..NODES).map(|_| Store { expires_early, ..Store::default() }).collect(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            network: Vec::new(),
            held: Vec::new(),
            last_token: None,
            won: 0,
            confirmed: 0,
            mode,
        };
        for node in 0..NODES {
            let counter = 1 + world.below(4) as u64;
            world.stores[node].counters.insert(Resource::new("a").unwrap(), counter);
        }
        world
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % bound as u64).unwrap()
    }

    fn step(&mut self) -> Result<(), Violation> {
        let (client, choice) = (self.below(CLIENTS), self.below(40));
        match choice {
            0..2 => self.now = self.now + Duration::from_millis(self.below(60) as u64),
            2 if self.below(8) == 0 => self.now = self.now + TTL,
            3..6 => self.attempt(client),
            6 => self.release(client),
            7 if self.below(3) == 0 => self.abandon(client),
            _ if self.network.is_empty() => self.attempt(client),
            8 => {
                let at = self.below(self.network.len());
                self.time_out(at);
            }
            _ => {
                let at = self.below(self.network.len());
                self.deliver(at);
            }
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), Violation> {
        let now = self.now;
        self.held.retain(|record| record.with(|state| !state.status.remaining(now).is_zero()));
        if self.held.len() > 1 { Err(Violation::Overlap) } else { Ok(()) }
    }

    fn attempt(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if client.acquire.is_some() || client.record.is_some() {
            return;
        }
        client.attempt += 1;
        client.awaits = true;
        let token = Token::from_bytes(format!("{at}-{}", client.attempt));
        let claim = Claim::new(Resources::new([Resource::new("a").unwrap()]).unwrap(), token);
        let mut acquire = Acquire::new(rules(), claim, self.mode.clone(), Ttl::new(TTL).unwrap(), self.now);
        let mut io = Io::default();
        acquire.start(&mut io);
        client.acquire = Some(acquire);
        self.carry_out(at, io, What::Acquire);
    }

    fn release(&mut self, at: usize) {
        let Some(record) = self.clients[at].record.take() else { return };
        let (mut release, mut io) = (Release::new(rules(), record, self.now), Io::default());
        release.start(&mut io);
        self.clients[at].release = Some(release);
        self.carry_out(at, io, |()| What::Release);
    }

    fn abandon(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(acquire) = client.acquire.as_mut().filter(|_| client.awaits) else { return };
        let mut io = Io::default();
        acquire.abandon(self.now, &mut io);
        client.awaits = false;
        self.carry_out(at, io, What::Acquire);
    }

    /// Does what the engine does with the wishes of a round.
    fn carry_out<T: Copy>(&mut self, at: usize, io: Io<T>, what: impl Fn(T) -> What) {
        let (attempt, sent) = (self.clients[at].attempt, self.now);
        for (node, tag) in io.sends {
            let what = what(tag);
            let client = &mut self.clients[at];
            let request = match what {
                What::Acquire(lane) => client.acquire.as_ref().and_then(|round| round.request(node, lane)),
                _ => client.release.as_ref().and_then(|round| round.request(node, ())),
            };
            let Some(request) = request else { continue };
            if let (What::Acquire(lane), Some(round)) = (what, &mut client.acquire) {
                round.sent(node, lane, None);
            }
            self.confirmed += usize::from(request.operation() == Operation::Confirm);
            let message =
                Message { client: at, attempt, node, what, sent, request, reply: None, is_heard: false };
            self.network.push(message);
        }
        for Cleanup { node, claim, .. } in io.cleanups {
            let request = Request::Release(claim);
            let message = Message {
                client: at,
                attempt,
                node,
                what: What::Cleanup,
                sent,
                request,
                reply: None,
                is_heard: true,
            };
            self.network.push(message);
        }
    }

    /// A request arrives at its node, or a reply at its round.
    fn deliver(&mut self, at: usize) {
        let message = &mut self.network[at];
        if message.reply.is_none() {
            let reply = self.stores[message.node].apply(&message.request, self.now);
            message.reply = Some(outcome(reply, &message.request));
        } else {
            let mut message = self.network.swap_remove(at);
            if let Some(outcome) = message.reply.take().filter(|_| !message.is_heard) {
                self.hear(&message, outcome);
            }
        }
    }

    /// The round gives a request up, which may still arrive.
    fn time_out(&mut self, at: usize) {
        if self.network[at].is_heard {
            return;
        }
        self.network[at].is_heard = true;
        let message = &self.network[at];
        let copy = Message { request: message.request.clone(), reply: None, ..*message };
        self.hear(&copy, Outcome::TimedOut);
    }

    fn hear(&mut self, message: &Message, outcome: Outcome) {
        let Message { client: at, node, sent, attempt, .. } = *message;
        let (connection, server, now) = (None, None, self.now);
        let client = &mut self.clients[at];
        if attempt != client.attempt {
            return;
        }
        match message.what {
            What::Cleanup => {}
            What::Release => {
                let Some(round) = &mut client.release else { return };
                let mut io = Io::default();
                round.heard(Heard { node, tag: (), outcome, connection, server, sent, at: now }, &mut io);
                self.carry_out(at, io, |()| What::Release);
            }
            What::Acquire(tag) => {
                let Some(round) = &mut client.acquire else { return };
                let mut io = Io::default();
                round.heard(Heard { node, tag, outcome, connection, server, sent, at: now }, &mut io);
                let result = round.result(now, &mut io);
                client.awaits &= result.is_none();
                self.carry_out(at, io, What::Acquire);
                self.finish(at, result);
            }
        }
    }

    fn finish(&mut self, at: usize, result: Option<<Acquire as Round>::Output>) {
        let client = &mut self.clients[at];
        match result {
            Some(Ok(record)) => {
                if let Some(token) = record.with(|state| state.token) {
                    // A violation is found by `check`, through an impossible second holder.
                    let in_order = self.last_token.replace(token.as_u64()) < Some(token.as_u64());
                    if !in_order {
                        self.held.push(Arc::clone(&record));
                    }
                }
                self.won += 1;
                client.record = Some(Arc::clone(&record));
                self.held.push(record);
            }
            Some(Err(failure)) => {
                assert!(matches!(
                    failure.kind(),
                    ErrorKind::Contended | ErrorKind::Undecided | ErrorKind::NoQuorum | ErrorKind::TooSlow
                ));
            }
            None => {}
        }
        // The rounds of an attempt end when nothing of it is in the network.
        let is_over = |network: &[Message], client: &Client| {
            !client.awaits
                && !network.iter().any(|m| m.client == at && m.attempt == client.attempt && !m.is_heard)
        };
        if is_over(&self.network, &self.clients[at]) {
            self.clients[at].acquire = None;
        }
    }
}

fn run(mode: &Mode, seeds: u64, expires_early: Option<u32>) -> (usize, usize, usize) {
    let (mut won, mut confirmed, mut violations) = (0, 0, 0);
    for seed in 1..=seeds {
        let mut world = World::new(seed, mode.clone(), expires_early);
        let found = (0..600).find_map(|_| world.step().err());
        violations += usize::from(found.is_some());
        won += world.won;
        confirmed += world.confirmed;
        assert!(expires_early.is_some() || found.is_none(), "seed {seed}: {found:?}");
    }
    (won, confirmed, violations)
}

#[test]
fn two_guards_never_overlap() {
    let (won, confirmed, _) = run(&Mode::Exclusive, 1000, None);
    assert!(won > 3_000, "only {won} locks");
    assert_eq!(0, confirmed);
}

#[test]
fn fenced_guards_never_overlap_and_their_tokens_increase() {
    let (won, confirmed, _) = run(&Mode::Fenced, 1000, None);
    assert!(won > 1_500 && confirmed > 300, "only {won} locks, {confirmed} confirmations");
}

/// The test above can fail: nodes that expire keys too early break the lock.
#[test]
fn early_expiry_is_detected() {
    let (_, _, violations) = run(&Mode::Exclusive, 300, Some(3));
    assert!(violations > 10, "only {violations} violations");
}

/// No I/O: the same round, told by hand that a quorum has granted too late.
#[test]
fn a_grant_without_validity_is_released() {
    let mut world = World::new(1, Mode::Exclusive, None);
    world.attempt(0);
    world.now = world.now + TTL;
    let mut acquire = world.clients[0].acquire.take().unwrap();
    let (mut io, now, sent) = (Io::default(), world.now, world.now);
    for node in 0..3 {
        let (tag, outcome) = (Lane::Claim, Outcome::Granted);
        acquire.heard(Heard { node, tag, outcome, connection: None, server: None, sent, at: now }, &mut io);
    }
    let failure = acquire.result(now, &mut io).unwrap().err().unwrap();
    assert_eq!(ErrorKind::TooSlow, failure.kind());
    assert!(failure.retry_cause().is_some());
    assert_eq!([(0, Lane::Release), (1, Lane::Release), (2, Lane::Release)], io.sends[..]);
}

fn heard<T>(node: usize, tag: T, outcome: Outcome, at: Instant) -> Heard<T> {
    Heard { node, tag, outcome, connection: None, server: None, sent: at, at }
}

/// Returns a lease that three of five nodes have granted, and its attempt.
fn held(now: Instant) -> (Arc<Record>, Acquire) {
    let claim = Claim::new(Resources::new([Resource::new("a").unwrap()]).unwrap(), Token::from_bytes("me"));
    let mut acquire = Acquire::new(rules(), claim, Mode::Exclusive, Ttl::new(TTL).unwrap(), now);
    let mut io = Io::default();
    (0..NODES).for_each(|node| acquire.sent(node, Lane::Claim, None));
    (0..3).for_each(|node| acquire.heard(heard(node, Lane::Claim, Outcome::Granted, now), &mut io));
    (acquire.result(now, &mut io).unwrap().ok().unwrap(), acquire)
}

/// Returns the nodes that need cleanup after a release that finds no key.
fn cleaned_up(record: Arc<Record>, now: Instant) -> Vec<usize> {
    let (mut release, mut io) = (Release::new(rules(), record, now), Io::default());
    (0..NODES).for_each(|node| release.heard(heard(node, (), Outcome::NotHeld, now), &mut io));
    io.cleanups.iter().map(|cleanup| cleanup.node).collect()
}

#[test]
fn only_writes_without_a_known_end_need_cleanup() {
    let now = Instant::since_origin(TTL);
    let (record, mut acquire) = held(now);
    acquire.heard(heard(3, Lane::Claim, Outcome::Granted, now), &mut Io::default());
    assert_eq!([4], cleaned_up(record, now)[..]);
}

#[test]
fn a_refill_follows_the_quorum_and_is_a_write() {
    let now = Instant::since_origin(TTL);
    let (record, mut acquire) = held(now);
    (3..5)
        .for_each(|node| acquire.heard(heard(node, Lane::Claim, Outcome::TimedOut, now), &mut Io::default()));
    record.with(|state| (3..5).for_each(|node| state.peers[node].writes = WriteState::default()));
    let extension = Extension { ttl: Ttl::new(TTL).unwrap(), limit: TTL, not_beyond: None };
    let mut extend = Extend::new(rules(), Arc::clone(&record), extension, now);
    let (mut io, denied) = (Io::default(), || Outcome::Denied(Denial::default()));
    extend.heard(heard(3, extend::Lane::Extend, denied(), now), &mut io);
    (0..3).for_each(|node| extend.heard(heard(node, extend::Lane::Extend, Outcome::Granted, now), &mut io));
    assert!(io.sends.is_empty(), "no refill before the quorum");
    assert!(extend.result(now, &mut io).unwrap().is_ok());
    extend.heard(heard(4, extend::Lane::Extend, denied(), now), &mut io);
    assert_eq!([(3, extend::Lane::Refill), (4, extend::Lane::Refill)], io.sends[..]);
    (3..5).for_each(|node| extend.sent(node, extend::Lane::Refill, None));
    assert_eq!([3, 4], cleaned_up(record, now)[..]);
}

/// The confirmations of two nodes wait for a connection. They are not sent once the attempt is lost.
#[test]
fn a_lost_attempt_has_a_reason_without_its_unsent_confirmations() {
    let now = Instant::since_origin(TTL);
    let claim = Claim::new(Resources::new([Resource::new("a").unwrap()]).unwrap(), Token::from_bytes("me"));
    let mut acquire = Acquire::new(rules(), claim, Mode::Fenced, Ttl::new(TTL).unwrap(), now);
    let mut io = Io::default();
    for node in 0..NODES {
        let counter = FencingToken::new(1 + node as u64).unwrap();
        acquire.heard(heard(node, Lane::Claim, Outcome::GrantedFenced(counter), now), &mut io);
    }
    assert!(acquire.result(now, &mut io).is_none(), "the counters differ");
    assert!(io.sends.iter().all(|(_, lane)| *lane == Lane::Confirm));
    let holder = || Denial { holder: Some(Token::from_bytes("other")), ..Denial::default() };
    let outcomes = [Outcome::Denied(holder()), Outcome::Denied(holder()), Outcome::TimedOut];
    for (node, outcome) in outcomes.into_iter().enumerate() {
        acquire.heard(heard(node, Lane::Confirm, outcome, now), &mut io);
    }
    assert!(acquire.result(now, &mut io).is_none(), "the other two may name the holder");
    for node in 3..NODES {
        assert!(acquire.request(node, Lane::Confirm).is_none());
        acquire.unsent(node, Lane::Confirm, now);
    }
    assert!(acquire.result(now, &mut io).is_some_and(|result| result.is_err()));
}
