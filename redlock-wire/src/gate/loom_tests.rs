//! The gate in every interleaving of requests, looks and flushes.

use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::thread;
use redlock_core::node::{Admission, QuarantineReason};
use redlock_core::runtime::Instant;

use super::Gate;
use crate::gate::rule::Standing;
use crate::sync::{Mutex, locked};

const WAIT: Duration = Duration::from_secs(10);
const NOW: Instant = Instant::ORIGIN;

/// A server with one connection, which delivers the push of a flush before the reply to any later request.
#[derive(Default)]
struct Server {
    gate: Gate,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_flushed: bool,
    is_pushed: bool,
    /// True once the quarantine that follows from the flush is over.
    is_over: bool,
}

impl Server {
    /// Returns a server that counts.
    fn admitted() -> Arc<Self> {
        let server = Arc::new(Self::default());
        server.look();
        assert!(server.gate.is_admitted());
        server
    }

    fn flush(&self) {
        locked(&self.state).is_flushed = true;
    }

    /// Carries out a request and reads its reply. Returns the state of the server at the time of the request.
    fn request(&self) -> State {
        let mut state = locked(&self.state);
        if state.is_flushed && !state.is_pushed {
            state.is_pushed = true;
            self.gate.lose(QuarantineReason::DataLost);
        }
        *state
    }

    /// Returns whether to look again at once.
    fn look(&self) -> bool {
        let ticket = self.gate.begin(NOW);
        let State { is_flushed, is_over, .. } = self.request();
        let age = if is_flushed && !is_over { Duration::ZERO } else { WAIT };
        let standing = Standing::Intact { age, at: NOW, reason: QuarantineReason::Recent };
        self.gate.apply(ticket, standing, Some(b"stamp".as_slice().into()), WAIT, NOW)
    }

    fn admission(&self) -> Admission {
        self.gate.admission(|| WAIT, || NOW)
    }
}

#[test]
fn a_vote_behind_a_flush_does_not_count() {
    loom::model(|| {
        let server = Server::admitted();
        let keeper = {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                server.flush();
                locked(&server.state).is_over = true;
                server.look();
            })
        };
        let before = server.admission();
        let was_over = locked(&server.state).is_over;
        let at = server.request();
        if matches!(before, Admission::Admitted(_)) && before == server.admission() {
            assert!(!at.is_flushed || was_over, "the lock of another client may be lost");
        }
        keeper.join().unwrap();
    });
}

#[test]
fn a_look_that_a_flush_overtakes_admits_nothing() {
    loom::model(|| {
        let server = Server::admitted();
        let keeper = {
            let server = Arc::clone(&server);
            thread::spawn(move || server.look())
        };
        server.flush();
        server.request();
        keeper.join().unwrap();
        assert!(!server.gate.is_admitted());
    });
}

#[test]
fn a_loss_is_followed_by_a_look() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let receiver = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.lose(QuarantineReason::DataLost))
        };
        let ticket = gate.begin(NOW);
        let standing = Standing::Out(QuarantineReason::Replica);
        let again = gate.apply(ticket, standing, None, WAIT, NOW);
        receiver.join().unwrap();
        assert!(ticket.facts.was_lost || again || gate.is_look_due());
    });
}

#[test]
fn a_change_of_the_stamp_is_followed_by_a_look() {
    loom::model(|| {
        let server = Arc::new(Server::default());
        let writer = {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                server.flush();
                server.gate.touch();
            })
        };
        let ticket = server.gate.begin(NOW);
        let seen = locked(&server.state).is_flushed;
        server.gate.apply(ticket, Standing::Out(QuarantineReason::Replica), None, WAIT, NOW);
        writer.join().unwrap();
        assert!(seen || server.gate.is_look_due());
    });
}

#[test]
fn the_keeper_notices_a_loss() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let receiver = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.lose(QuarantineReason::DataLost))
        };
        // Listens before it checks the gate, so that no loss is missed.
        let change = gate.listen();
        if !gate.is_look_due() {
            block_on(change);
        }
        assert!(gate.is_look_due() && !gate.is_admitted());
        receiver.join().unwrap();
    });
}
