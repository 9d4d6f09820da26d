//! A server of the whole stack: it receives bytes, carries out the commands in them, and records what they do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redlock_core::node::Token;
use redlock_core::runtime::{Instant, Runtime};
use redlock_server::{ClientId, Settings};
use redlock_testkit::Operation;
use redlock_testkit::sim::Clock;

use super::machine::{CarriedOut, Claims, Machine, Redis, STAMP, is_place};
use super::{Received, Server, Shared, State};
use crate::history::{EventKind, Reply};
use crate::network::{Calls, Connection, EXACT, Effect, Network};

/// The time between two turns of a server, in which it searches for expired keys.
const TURN: Duration = Duration::from_millis(100);

/// Bytes that have arrived over a connection.
pub(super) struct Arrived {
    client: ClientId,
    bytes: Vec<u8>,
    travelled: Duration,
}

impl Server {
    /// Creates a server that receives commands.
    pub(crate) fn of_commands(
        number: usize,
        clock: Clock,
        network: &Network,
        calls: Arc<Mutex<Calls>>,
        settings: Settings,
    ) -> Self {
        let (world, recorder) = (network.world().clone(), network.recorder().clone());
        let machine = Machine::Redis(Redis::new(number, clock, world.clone(), calls, settings));
        let me = Self::with(number, machine, world.clone(), recorder);
        let (weak, timer) = (Arc::downgrade(&me.0), world.clone());
        world.spawn(Box::pin(async move {
            loop {
                timer.sleep(TURN).await;
                let Some(me) = Weak::upgrade(&weak).map(Self) else { return };
                me.take_turn();
            }
        }));
        me
    }

    /// Accepts a connection. A stopped server accepts it, too: the kernel does. `None`: it is down.
    pub(crate) fn accept(&self, connection: &Arc<Connection>) -> Option<ClientId> {
        let mut state = self.state();
        if !state.up {
            return None;
        }
        state.machine.redis().map(|redis| redis.accept(Arc::clone(connection)))
    }

    /// Receives bytes over a connection. Returns `false` if there is no such connection any more.
    pub(crate) fn receive_bytes(&self, client: ClientId, bytes: Vec<u8>, travelled: Duration) -> bool {
        let mut state = self.state();
        if !state.up || state.machine.redis().and_then(|redis| redis.client(client)).is_none() {
            return false;
        }
        let arrived = Arrived { client, bytes, travelled };
        match &mut state.received {
            Some(received) => received.push(Received::Bytes(arrived)),
            None => self.carry_out_commands(&mut state, &arrived),
        }
        true
    }

    /// Ends a connection. If it `discards`, a stopped server loses what it has received over it.
    pub(crate) fn close(&self, client: ClientId, discards: bool) {
        let mut state = self.state();
        let is_of =
            |received: &Received| matches!(received, Received::Bytes(arrived) if arrived.client == client);
        match &mut state.received {
            Some(received) => {
                received.retain(|one| !discards || !is_of(one));
                received.push(Received::Close(client));
            }
            None => state.machine.redis().into_iter().for_each(|redis| redis.close(client)),
        }
    }

    /// Makes a server of the whole stack forget its scripts from time to time, or be unavailable for a moment.
    pub(crate) fn disturb(&self, seed: u64) {
        self.state().machine.redis().into_iter().for_each(|redis| redis.disturb(seed));
    }

    /// Ends these disturbances.
    pub(crate) fn calm(&self) {
        self.state().machine.redis().into_iter().for_each(Redis::calm);
    }

    /// Ends all connections at the end of a run.
    pub(crate) fn disconnect_all(&self) {
        let connections = self.state().machine.redis().map(Redis::disconnect_all);
        drop(connections);
    }

    /// Records that a client begins without any knowledge of the server.
    pub(crate) fn begin_watching(&self, client: usize) {
        self.state().machine.redis().into_iter().for_each(|redis| redis.begin_watching(client));
    }

    /// Returns whether the clock has moved ahead within a time before `at`, unseen by a client of the whole stack.
    pub(crate) fn has_jumped_unseen_by(&self, client: usize, at: Instant, within: Duration) -> bool {
        let watched = self.state().machine.redis().and_then(|redis| redis.watched(client));
        self.has_jumped_unseen(watched, at, within)
    }

    fn take_turn(&self) {
        let mut state = self.state();
        let is_running = state.up && state.received.is_none();
        if let Some(redis) = state.machine.redis().filter(|_| is_running) {
            redis.take_turn();
            redis.send();
        }
    }

    /// Carries out the commands that are complete.
    pub(super) fn carry_out_commands(&self, state: &mut State, arrived: &Arrived) {
        let Some(redis) = state.machine.redis() else { return };
        redis.receive(arrived.client, &arrived.bytes);
        let Some(client) = redis.client(arrived.client) else { return };
        // A look is followed by a reading of the clock.
        let (mut has_looked, mut is_stamped) = (false, false);
        while let Some(carried) = redis.carry_out_next(arrived.client) {
            self.0.record(redis, client, arrived.travelled, &carried);
            is_stamped |= carried.is_stamped;
            has_looked |= carried.command.iter().any(|word| word == STAMP);
            if has_looked && carried.command[0] == b"TIME" && arrived.travelled <= EXACT {
                redis.watch_clock(client, self.0.world.now());
            }
        }
        redis.send();
        if is_stamped {
            state.renewed = self.0.world.now();
        }
    }
}

impl Shared {
    /// Records a command, and all other changes of claims by it.
    fn record(&self, redis: &Redis, client: usize, travelled: Duration, carried: &CarriedOut) {
        let CarriedOut { command, reply, before, after, .. } = carried;
        let effect = Effect::of(command, reply);
        let mut own = None;
        if let Some(Effect { operation, token, keys, reply }) = effect {
            let number = self.recorder.number(&Token::from_bytes(&token));
            let request =
                redis.carried_out((client, self.number, number), operation, reply, self.world.now());
            let is_written = reply.is_grant() && operation != Operation::Release;
            let until = is_written.then(|| self.until(redis, after, &token, &keys));
            let again = false;
            self.recorder.record(EventKind::CarriedOut { request, reply, until, travelled, again });
            own = (is_written || reply == Reply::Granted).then_some(token);
        }
        let tokens: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for token in tokens {
            // A lock ends with its first key. A place has each of its reservations alone.
            let end = |claims: &Claims| {
                let ends = claims.get(token)?.values().copied();
                if is_place(token) { ends.max() } else { ends.min() }
            };
            let (earlier, later) = (end(before), end(after));
            if earlier != later && own.as_ref() != Some(token) {
                let until = later.map_or(self.world.now(), |later| redis.true_time(later));
                let token = self.recorder.number(&Token::from_bytes(token));
                self.recorder.record(EventKind::Moved { server: self.number, token, until });
            }
        }
    }

    /// Returns the true time at which the first key of a claim expires; now if one is missing.
    fn until(&self, redis: &Redis, claims: &Claims, token: &[u8], keys: &[Vec<u8>]) -> Instant {
        let held = claims.get(token);
        let expiry = keys.iter().map(|key| held.and_then(|held| held.get(key)));
        let first = expiry.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min().copied());
        first.map_or(self.world.now(), |first| redis.true_time(first))
    }
}
