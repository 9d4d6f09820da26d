//! A server whose data is a fake node of the testkit. It receives requests, not commands.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use redlock_core::node::{Claim, LockNode, NodeError, Reply, Token, Ttl};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{FencingToken, Resource};
use redlock_server::Command;
use redlock_testkit::sim::{Clock, Process};
use redlock_testkit::{MemoryNode, Operation, Request, block_on};

use super::redis::micros;
use super::stamped::Stamped;
use super::{Data, Persistence};
use crate::server::Executed;
use crate::server::wall_clock::WallClock;

pub(in crate::server) struct Memory {
    /// It completes every request at the first poll.
    node: MemoryNode,
    clock: WallClock,
    out_of_memory: bool,
    read_only: bool,
    stamped: Stamped,
    /// An older copy of all data: a snapshot, or a replica that is behind.
    copy: Copy,
    /// The resources that were ever locked.
    known: BTreeSet<Resource>,
}

/// A copy of the data of a server. The default is that of an empty server.
#[derive(Default)]
struct Copy {
    locks: Vec<(Resource, Token, Instant)>,
    counters: Vec<(Resource, Option<FencingToken>)>,
    stamp: Option<Vec<u8>>,
}

impl Memory {
    /// `world` is a process whose clock is right.
    pub(in crate::server) fn new(clock: Clock, world: Process) -> Self {
        let clock = WallClock::new(clock, world);
        let node = MemoryNode::with_runtime("store", Arc::new(clock.clone()));
        let (stamped, copy, known) = (Stamped::new(), Copy::default(), BTreeSet::new());
        Self { node, clock, out_of_memory: false, read_only: false, stamped, copy, known }
    }

    /// Carries a look at the stamp out. Returns the reply, and whether it has changed the stamp.
    pub(in crate::server) fn look(&mut self, command: &Command) -> (redlock_wire::Reply, bool) {
        self.stamped.look(command, self.read_only, micros(&self.clock))
    }

    pub(in crate::server) fn carry_out(&mut self, request: &Request) -> Executed {
        self.known.extend(request.claim().into_iter().flat_map(Claim::resources).cloned());
        let outcome = match self.rejection(request.operation()) {
            Some(error) => Err(error),
            None => block_on(self.node.call(request.clone())),
        };
        let is_written = outcome.as_ref().is_ok_and(Reply::is_grant);
        let until = if is_written { self.until(request) } else { None };
        Executed { outcome, until }
    }

    /// Returns the error reply to all requests of an operation, if there is one.
    fn rejection(&self, operation: Operation) -> Option<NodeError> {
        match operation {
            Operation::Inspect | Operation::Watch => None,
            _ if self.read_only => Some(NodeError::rejected("READONLY You can't write against a replica")),
            Operation::Acquire if self.out_of_memory => Some(NodeError::rejected("OOM command not allowed")),
            _ => None,
        }
    }

    /// Returns the true time at which the first key of a claim expires.
    fn until(&self, request: &Request) -> Option<Instant> {
        let claim = request.claim()?;
        let locks = self.node.locks().into_iter();
        let own = locks
            .filter(|(resource, lock)| lock.token == *claim.token() && claim.resources().contains(resource));
        let remaining = own.filter_map(|(_, lock)| lock.remaining).min()?;
        Some(self.clock.true_time(self.clock.now() + remaining))
    }
}

impl Data for Memory {
    fn clock(&self) -> &WallClock {
        &self.clock
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn set_read_only(&mut self, is: bool) {
        self.read_only = is;
    }

    fn set_out_of_memory(&mut self, is: bool) -> bool {
        mem::replace(&mut self.out_of_memory, is)
    }

    fn start(&mut self) {
        self.stamped.starts += 1;
    }

    fn promote(&mut self) {
        self.stamped.promotions += 1;
    }

    fn copy(&mut self) {
        let now = self.clock.now();
        let locks = self.node.locks().into_iter();
        let locks = locks.filter_map(|(resource, lock)| Some((resource, lock.token, now + lock.remaining?)));
        let counters = self.known.iter();
        let counters =
            counters.map(|resource| (resource.clone(), self.node.fencing_counter(resource.clone())));
        self.copy =
            Copy { locks: locks.collect(), counters: counters.collect(), stamp: self.stamped.stamp.clone() };
    }

    fn roll_back(&mut self) -> Vec<Token> {
        let now = self.clock.now();
        let before = self.expiring();
        let shortened = |token: &Token, expires: Instant| {
            before.iter().any(|(other, until)| other == token && *until > expires)
        };
        let mut lost = self.lose_all_but(&Persistence::Nothing);
        self.node.clear_counters();
        for (resource, token, expires) in &self.copy.locks {
            // A remaining time that is too short for a TTL ends before it matters.
            if let Ok(ttl) = Ttl::new(expires.saturating_duration_since(now)) {
                self.node.set_holder(resource.clone(), token.clone(), ttl);
                lost.retain(|other| other != token || shortened(other, *expires));
            }
        }
        for (resource, counter) in &self.copy.counters {
            self.node.set_counter(resource.clone(), *counter);
        }
        self.stamped.stamp.clone_from(&self.copy.stamp);
        lost
    }

    fn set_non_lock_value(&mut self, resource: &Resource) -> bool {
        let is_free =
            matches!(block_on(self.node.call(Request::Inspect(resource.clone()))), Ok(Reply::Free { .. }));
        let can = is_free && self.rejection(Operation::Acquire).is_none();
        if can {
            self.node.set_non_lock_value(resource);
        }
        can
    }

    fn remove_non_lock_value(&mut self, resource: &Resource) -> bool {
        let exists = block_on(self.node.call(Request::Inspect(resource.clone()))).is_err();
        if exists {
            self.node.remove(resource);
        }
        exists
    }

    fn lose_all_but(&mut self, persistence: &Persistence) -> Vec<Token> {
        let is_lost = |position: usize| match persistence {
            Persistence::All => false,
            Persistence::Part => position % 2 == 0,
            Persistence::Counters | Persistence::Older | Persistence::Nothing => true,
        };
        if *persistence == Persistence::Older {
            return self.roll_back();
        }
        if *persistence != Persistence::All {
            self.stamped.stamp = None;
        }
        let locks = self.node.locks().into_iter().enumerate();
        let lost = locks.filter(|(position, _)| is_lost(*position)).map(|(_, lock)| lock);
        lost.map(|(resource, lock)| {
            self.node.remove(&resource);
            lock.token
        })
        .collect()
    }

    fn lose_counters(&mut self) -> bool {
        self.node.clear_counters()
    }

    fn count_from_one(&mut self) {
        self.node.count_from_one();
    }

    fn expiring(&self) -> Vec<(Token, Instant)> {
        let now = self.clock.now();
        let locks = self.node.locks().into_iter();
        locks.filter_map(|(_, lock)| Some((lock.token, now + lock.remaining?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlock_core::IntoResources;
    use redlock_core::node::{Claim, Ttl};
    use redlock_testkit::sim::Simulation;

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::since_origin(Duration::from_micros(micros))
    }

    struct World {
        simulation: Simulation,
        machine: Memory,
    }

    impl World {
        fn new(clock: Clock) -> Self {
            let simulation = Simulation::new(1);
            let machine = Memory::new(clock, simulation.process("world"));
            Self { simulation, machine }
        }

        fn wait_until(&self, at: Instant) {
            self.simulation.run_for(at.saturating_duration_since(self.simulation.now()));
        }

        /// Acquires a resource with the shortest TTL of 10 ms. Returns the true time of its expiry.
        fn acquire(&mut self, resource: &str) -> Option<Instant> {
            let claim = Claim::new(resource.into_resources().unwrap(), Token::from_bytes(resource));
            self.machine.carry_out(&Request::Acquire(claim, Ttl::MIN)).until
        }
    }

    #[test]
    fn a_key_expires_less_than_a_millisecond_early() {
        let mut world = World::new(Clock::default());
        world.wait_until(at(900));
        assert_eq!(Some(at(10_000)), world.acquire("a"));
        world.wait_until(at(9_999));
        assert_eq!(1, world.machine.locks().len());
        world.wait_until(at(10_000));
        assert_eq!(0, world.machine.locks().len());
    }

    #[test]
    fn a_clock_step_forward_shortens_keys_and_a_step_back_lengthens_them() {
        for (millis, until) in [(4, 6_000), (-4, 14_000)] {
            let mut world = World::new(Clock::default());
            world.acquire("a");
            let moved = world.machine.step_clock(millis);
            assert_eq!(vec![(Token::from_bytes("a"), at(until))], moved);
            assert_eq!(moved, world.machine.locks());
        }
    }

    #[test]
    fn a_clock_step_beyond_the_ttl_expires_keys_at_once() {
        let mut world = World::new(Clock::default());
        world.acquire("a");
        world.wait_until(at(2_000));
        assert_eq!(vec![(Token::from_bytes("a"), at(2_000))], world.machine.step_clock(60_000));
        assert!(world.machine.locks().is_empty());
    }

    #[test]
    fn a_fast_clock_expires_keys_early() {
        let mut world = World::new(Clock { drift_ppm: 250_000, ..Clock::default() });
        assert_eq!(Some(at(8_000)), world.acquire("a"));
    }

    #[test]
    fn a_clock_that_is_slewed_expires_keys_early() {
        let mut world = World::new(Clock::default());
        world.acquire("a");
        world.wait_until(at(2_000));
        assert_eq!(vec![(Token::from_bytes("a"), at(8_400))], world.machine.slew_clock(250_000));
        world.wait_until(at(4_000));
        assert_eq!(vec![(Token::from_bytes("a"), at(9_500))], world.machine.slew_clock(0));
        world.wait_until(at(9_500));
        assert!(world.machine.locks().is_empty());
    }

    #[test]
    fn an_expired_key_is_not_lost() {
        let lost = |persistence, micros| {
            let mut world = World::new(Clock::default());
            for name in ["a", "b", "c"] {
                world.acquire(name);
            }
            world.wait_until(at(micros));
            world.machine.lose_all_but(&persistence).len()
        };
        let lost_at_once =
            [Persistence::All, Persistence::Part, Persistence::Nothing].map(|all| lost(all, 1));
        assert_eq!([0, 2, 3], lost_at_once);
        assert_eq!(0, lost(Persistence::Nothing, 10_000));
    }
}
