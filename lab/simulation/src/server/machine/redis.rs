//! A server that receives commands, as bytes over connections, and runs the scripts of the library.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redlock_core::Resource;
use redlock_core::node::Token;
use redlock_core::runtime::Instant;
use redlock_server::{ClientId, Command, Keyspace, Reply, Server, Settings};
use redlock_testkit::Operation;
use redlock_testkit::sim::{Clock, Process};

use super::{Data, Persistence};
use crate::history::{self, Request, TokenNumber};
use crate::network::{Calls, Connection, RESERVED};
use crate::server::wall_clock::WallClock;

pub(in crate::server) const STAMP: &[u8] = b"redlock:admission";

pub(in crate::server) struct Redis {
    server: Server,
    clock: WallClock,
    connections: BTreeMap<ClientId, Arc<Connection>>,
    number: usize,
    starts: u64,
    promotions: u64,
    read_only: bool,
    out_of_memory: bool,
    /// An older copy of all data: a snapshot, or a replica that is behind.
    copy: Keyspace,
    calls: Arc<Mutex<Calls>>,
    /// The true times since which clients watch the clock. No decision depends on them.
    watched: BTreeMap<usize, Instant>,
    /// The chance of short disturbances, if there are any.
    disturbances: Option<fastrand::Rng>,
    /// The number of turns until the server is available again.
    unavailable: u32,
}

/// A token, and the first expiry of its keys by the clock, with the keys.
pub(in crate::server) type Claims = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Instant>>;

/// A command that was carried out, with the claims before and after it.
pub(in crate::server) struct CarriedOut {
    pub(in crate::server) command: Command,
    pub(in crate::server) reply: Reply,
    pub(in crate::server) before: Claims,
    pub(in crate::server) after: Claims,
    /// True if the stamp was changed.
    pub(in crate::server) is_stamped: bool,
}

impl Redis {
    /// `world` is a process whose clock is right. The server has never lost anything.
    pub(in crate::server) fn new(
        number: usize,
        clock: Clock,
        world: Process,
        calls: Arc<Mutex<Calls>>,
        settings: Settings,
    ) -> Self {
        let clock = WallClock::new(clock, world);
        let started = micros(&clock);
        let settings = Settings { run_id: identity(number, 0), started, ..settings };
        let stamp = format!("1 {} {} 0 0", settings.run_id, settings.replid2);
        let mut server = Server::new(settings);
        server.change(|keys| keys.set_text(STAMP, &stamp));
        Self {
            server,
            clock,
            connections: BTreeMap::new(),
            number,
            starts: 0,
            promotions: 0,
            read_only: false,
            out_of_memory: false,
            copy: Keyspace::default(),
            calls,
            watched: BTreeMap::new(),
            disturbances: None,
            unavailable: 0,
        }
    }

    pub(in crate::server) fn accept(&mut self, connection: Arc<Connection>) -> ClientId {
        let client = self.server.connect();
        self.connections.insert(client, connection);
        client
    }

    pub(in crate::server) fn close(&mut self, client: ClientId) {
        self.server.disconnect(client);
        self.connections.remove(&client);
    }

    /// Ends all connections, and returns them.
    pub(in crate::server) fn disconnect_all(&mut self) -> Vec<Arc<Connection>> {
        mem::take(&mut self.connections).into_values().collect()
    }

    /// Returns the client at the other end of a connection.
    pub(in crate::server) fn client(&self, client: ClientId) -> Option<usize> {
        self.connections.get(&client).map(|connection| connection.client())
    }

    pub(in crate::server) fn receive(&mut self, client: ClientId, bytes: &[u8]) {
        self.server.receive(client, bytes);
    }

    /// Carries out the next command of a connection that has arrived as a whole.
    pub(in crate::server) fn carry_out_next(&mut self, client: ClientId) -> Option<CarriedOut> {
        let command = self.server.next_command(client)?;
        let now = micros(&self.clock);
        let stamp = |server: &Server| server.keys(|keys| keys.text(STAMP).map(<[u8]>::to_vec));
        let (before, stamped) = (self.claims(), stamp(&self.server));
        let reply = self.server.execute(client, &command, now);
        let is_stamped = stamped != stamp(&self.server);
        Some(CarriedOut { command, reply, before, after: self.claims(), is_stamped })
    }

    /// Records that a client has read the clock together with the stamp, at a true time.
    pub(in crate::server) fn watch_clock(&mut self, client: usize, at: Instant) {
        self.watched.entry(client).or_insert(at);
    }

    /// Returns the true time since which a client watches the clock.
    pub(in crate::server) fn watched(&self, client: usize) -> Option<Instant> {
        self.watched.get(&client).copied()
    }

    /// Records that a client begins without any knowledge.
    pub(in crate::server) fn begin_watching(&mut self, client: usize) {
        self.watched.remove(&client);
    }

    /// Returns the request of a client that was carried out.
    pub(in crate::server) fn carried_out(
        &self,
        claim: (usize, usize, TokenNumber),
        operation: Operation,
        reply: history::Reply,
        now: Instant,
    ) -> Request {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.carried_out(claim, operation, reply, now)
    }

    /// Returns the true time at which the clock shows a time.
    pub(in crate::server) fn true_time(&self, shown: Instant) -> Instant {
        self.clock.true_time(shown)
    }

    /// Sends replies and pushes.
    pub(in crate::server) fn send(&mut self) {
        for client in self.server.with_output() {
            let bytes = self.server.take_output(client);
            if let Some(connection) = self.connections.get(&client) {
                connection.send_to_client(bytes);
            }
        }
    }

    /// Deletes expired keys, as a server does from time to time, and begins or ends a disturbance.
    pub(in crate::server) fn take_turn(&mut self) {
        self.server.expire(micros(&self.clock));
        self.unavailable = self.unavailable.saturating_sub(1);
        if self.unavailable == 0 {
            self.server.set(|settings| settings.unavailable = None);
        }
        match self.disturbances.as_mut().map(|chance| chance.u32(..600)) {
            Some(0..12) => self.server.flush_scripts(),
            Some(12..14) => self.be_unavailable("BUSY Redis is busy running a script."),
            _ => {}
        }
    }

    /// Makes the server forget its scripts from time to time, or be unavailable for a moment.
    pub(in crate::server) fn disturb(&mut self, seed: u64) {
        self.disturbances = Some(fastrand::Rng::with_seed(seed));
    }

    /// Ends all disturbances.
    pub(in crate::server) fn calm(&mut self) {
        (self.disturbances, self.unavailable) = (None, 0);
        self.server.set(|settings| settings.unavailable = None);
    }

    fn be_unavailable(&mut self, error: &str) {
        let Some(chance) = &mut self.disturbances else { return };
        self.unavailable = chance.u32(1..5);
        self.server.set(|settings| settings.unavailable = Some(error.to_owned()));
    }

    /// Returns the live locks, by token and key.
    fn claims(&self) -> Claims {
        let mut claims = Claims::new();
        for lock in self.server.keys(|keys| keys.locks(micros(&self.clock))) {
            if !lock.key.starts_with(RESERVED) {
                // It exists until the end of its last millisecond.
                let expires = Instant::since_origin(Duration::from_millis(lock.expires + 1));
                claims.entry(lock.token).or_default().insert(lock.key, expires);
            }
        }
        claims
    }

    fn is_lock(key: &[u8]) -> bool {
        !key.starts_with(RESERVED)
    }
}

impl Data for Redis {
    fn clock(&self) -> &WallClock {
        &self.clock
    }

    fn start(&mut self) {
        self.starts += 1;
        self.server.restart(&identity(self.number, self.starts));
        let started = micros(&self.clock);
        self.server.set(|settings| settings.started = started);
        self.be_unavailable("LOADING Redis is loading the dataset in memory");
    }

    fn promote(&mut self) {
        self.promotions += 1;
        let replid2 = identity(self.number, self.promotions);
        self.server.set(|settings| settings.replid2 = replid2);
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn set_read_only(&mut self, is: bool) {
        self.read_only = is;
        self.server.set(|settings| settings.is_replica = is);
    }

    fn set_out_of_memory(&mut self, is: bool) -> bool {
        self.server.set(|settings| settings.out_of_memory = is);
        mem::replace(&mut self.out_of_memory, is)
    }

    fn copy(&mut self) {
        self.copy = self.server.keys(Keyspace::clone);
    }

    fn roll_back(&mut self) -> Vec<Token> {
        let before = self.expiring();
        let mut copy = self.copy.clone();
        // As with the other losses, other values are kept.
        self.server.change(|keys| {
            copy.take_lists(keys);
            *keys = copy;
        });
        let after = self.expiring();
        let is_kept = |(token, until): &(Token, Instant)| {
            after.iter().any(|(other, later)| other == token && later >= until)
        };
        before.into_iter().filter(|lock| !is_kept(lock)).map(|(token, _)| token).collect()
    }

    fn notify_of_loss(&mut self) {
        self.server.push_loss();
        self.send();
    }

    fn set_non_lock_value(&mut self, resource: &Resource) -> bool {
        let (now, key) = (micros(&self.clock), resource.as_bytes());
        let is_possible = !self.read_only && !self.out_of_memory;
        let can = is_possible && !self.server.keys(|keys| keys.exists(key, now));
        if can {
            self.server.change(|keys| keys.set_list(key));
        }
        can
    }

    fn remove_non_lock_value(&mut self, resource: &Resource) -> bool {
        let key = resource.as_bytes();
        self.server.change(|keys| keys.is_list(key) && keys.remove(key))
    }

    fn lose_all_but(&mut self, persistence: &Persistence) -> Vec<Token> {
        match persistence {
            Persistence::All => return Vec::new(),
            Persistence::Older => return self.roll_back(),
            Persistence::Part | Persistence::Counters | Persistence::Nothing => {}
        }
        let now = micros(&self.clock);
        let locks = self.server.keys(|keys| keys.locks(now));
        let locks: Vec<_> = locks.into_iter().filter(|lock| Self::is_lock(&lock.key)).collect();
        let mut keys: Vec<_> = locks.iter().map(|lock| lock.key.clone()).collect();
        keys.dedup();
        let is_lost = |key: &[u8]| {
            let position = keys.iter().position(|other| other == key);
            position.is_some_and(|position| *persistence != Persistence::Part || position % 2 == 0)
        };
        self.server.change(|keys| keys.retain(|key| !is_lost(key) && key != STAMP));
        locks
            .into_iter()
            .filter(|lock| is_lost(&lock.key))
            .map(|lock| Token::from_bytes(lock.token))
            .collect()
    }

    fn lose_counters(&mut self) -> bool {
        self.server.change(|keys| keys.retain(|key| !key.starts_with(RESERVED) || key == STAMP))
    }

    fn count_from_one(&mut self) {
        panic!("the counters of a real server start from its clock");
    }

    fn expiring(&self) -> Vec<(Token, Instant)> {
        let claims = self.claims().into_iter();
        let first = |(token, keys): (Vec<u8>, BTreeMap<_, Instant>)| {
            Some((Token::from_bytes(token), keys.into_values().min()?))
        };
        claims.filter_map(first).collect()
    }
}

/// Returns an identity that no other server has, nor this one at another time.
pub(super) fn identity(server: usize, number: u64) -> String {
    format!("{:020x}{:020x}", server + 1, number + 1)
}

pub(super) fn micros(clock: &WallClock) -> u64 {
    u64::try_from(clock.unix_time().as_micros()).unwrap_or(u64::MAX)
}
