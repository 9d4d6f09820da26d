//! The restart admission of a node without its I/O, for the fast layer of the simulation.
//!
//! The state, the rules and the script are those of every connection. The caller carries the commands to the server, and the
//! replies and pushes back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::{Admission, ClockReading, QuarantineReason};
use redlock_core::runtime::{Instant, Runtime};

use crate::admission::keeper::Keeper;
use crate::admission::look::{self, LOOK, Look};
use crate::clock_rate::MeasuredClock;
use crate::gate::rule::Finding;
use crate::gate::{Gate, Ticket};
use crate::longest::Longest;
use crate::message::Reply;
use crate::stamp::StampKey;

/// The admission of a node over its present connection.
pub struct NodeAdmission {
    keeper: Keeper,
    gate: Gate,
}

/// A look that has begun.
#[derive(Clone, Copy, Debug)]
pub struct BegunLook {
    look: Look,
    ticket: Ticket,
}

impl NodeAdmission {
    /// Returns the admission before the first connection.
    #[must_use]
    pub fn new(label: &str, longest_ttl: Duration) -> Self {
        let clock = Arc::new(MeasuredClock::new(label, false));
        let keeper =
            Keeper::new(label, StampKey::Plain, Longest::new(longest_ttl), false, Duration::ZERO, clock);
        Self { keeper, gate: Gate::default() }
    }

    /// Begins with another connection.
    pub fn connect(&mut self) {
        self.gate = Gate::default();
    }

    /// Returns the admission at a time.
    pub fn admission(&self, now: Instant) -> Admission {
        self.gate.admission(|| self.keeper.wait(), || now)
    }

    /// Returns how long a server stays in quarantine.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.keeper.wait()
    }

    /// Returns the time until the next look: zero if there is a reason to look.
    #[must_use]
    pub fn next_look(&self, now: Instant) -> Duration {
        self.keeper.next_look(&self.gate, now)
    }

    /// Begins a look. Its [command](BegunLook::command) is to be sent after that.
    #[must_use]
    pub fn begin(&self, now: Instant) -> BegunLook {
        BegunLook { look: self.keeper.look(false), ticket: self.gate.begin(now) }
    }

    /// Applies the reply to a look. Returns whether the server is a replica.
    pub fn apply(&self, BegunLook { look, ticket }: BegunLook, reply: &Reply, now: Instant) -> bool {
        let finding = found(reply).unwrap_or(Finding::Nothing);
        self.keeper.apply(&self.gate, ticket, look, &finding, now);
        finding == Finding::Replica
    }

    /// Returns the command of a look that is sent behind a request.
    #[must_use]
    pub fn look_behind(&self) -> Vec<Vec<u8>> {
        command(self.keeper.look_behind())
    }

    /// Applies the reply to a look that was sent behind a request.
    pub fn apply_behind(&self, reply: &Reply) {
        self.gate.compare_found(found(reply).as_ref());
    }

    /// Applies a reading of the server's clock that was sent with a look, after the look itself.
    pub fn read_clock(&self, reading: ClockReading) {
        self.keeper.read_clock(&self.gate, Some(reading));
    }

    /// Applies the time of the server that was read behind a vote, just now.
    pub fn check_clock(&self, server: Duration, runtime: &dyn Runtime) {
        self.keeper.check_clock(&self.gate, server, runtime);
    }

    /// Records that the server may have lost locks.
    pub fn lose(&self, reason: QuarantineReason) {
        self.gate.lose(reason);
    }

    /// Records that the stamp was written.
    pub fn touch(&self) {
        self.gate.touch();
    }

    /// Returns whether there is a reason to look again.
    #[must_use]
    pub fn is_look_due(&self) -> bool {
        self.gate.is_look_due()
    }
}

impl BegunLook {
    /// Returns the command of the look.
    #[must_use]
    pub fn command(&self) -> Vec<Vec<u8>> {
        command(self.look)
    }
}

fn command(look: Look) -> Vec<Vec<u8>> {
    let name = std::iter::once(b"EVAL".to_vec());
    name.chain(look.words(LOOK.text)).collect()
}

fn found(reply: &Reply) -> Option<Finding> {
    look::read(std::slice::from_ref(reply))
}

impl fmt::Debug for NodeAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeAdmission").field("gate", &self.gate).finish_non_exhaustive()
    }
}
