//! The connection of a node in every interleaving of requests and supervisors.

use std::future::pending;
use std::sync::Arc;
use std::task::Poll;

use loom::future::block_on;
use loom::thread;
use redlock_core::node::ConnectionId;
use redlock_core::runtime::Instant;

use super::{ConnState, Link, State};
use crate::connection::Connection;
use crate::handshake::described;
use crate::message::{Command, Failure, Reply};
use crate::push::Hub;
use crate::socket::SocketHandle;

/// A connection without a server.
#[derive(Default)]
struct Line(SocketHandle);

impl Connection for Line {
    type Packed = ();

    fn pack(_: Command<'_>) {}

    async fn call(&self, (): ()) -> Result<Reply, Failure> {
        pending().await
    }

    async fn pipeline(&self, _: Vec<()>) -> Result<Vec<Reply>, Failure> {
        pending().await
    }

    fn pushes(&self) -> bool {
        false
    }

    fn socket(&self) -> Option<&SocketHandle> {
        Some(&self.0)
    }

    async fn lost(&self) {}
}

type Conn = ConnState<Line>;

/// Returns the epoch of a new supervisor.
fn take_over(conn: &Conn) -> u64 {
    conn.take_over(|_| Some(State::Connecting { due: Instant::ORIGIN })).expect("it is not conditional")
}

fn up(conn: &Conn, epoch: u64) -> Option<Arc<Link<Line>>> {
    let server = described("", Err(String::new()));
    conn.up(epoch, Line::default(), Hub::default(), server, None)
}

fn connection(conn: &Conn) -> Option<ConnectionId> {
    conn.state().link().and_then(|link| link.id())
}

/// Returns whether the client can send.
fn sends(link: &Link<Line>) -> bool {
    matches!(link.connection.0.write(|| Poll::Ready(Ok(()))), Poll::Ready(Ok(())))
}

#[test]
fn nothing_is_sent_over_a_connection_that_is_not_in_use() {
    loom::model(|| {
        let conn = Arc::new(Conn::new("line"));
        let epoch = take_over(&conn);
        let link = up(&conn, epoch).expect("it is the only supervisor");
        let in_use = connection(&conn);
        let request = {
            let conn = Arc::clone(&conn);
            thread::spawn(move || conn.broken(1, "broken", Instant::ORIGIN))
        };
        if connection(&conn) != in_use {
            assert!(!sends(&link) && link.is_replaced());
        }
        request.join().unwrap();
    });
}

#[test]
fn a_connection_that_is_seen_twice_was_in_use_in_between() {
    loom::model(|| {
        let conn = Arc::new(Conn::new("line"));
        let epoch = take_over(&conn);
        let link = up(&conn, epoch).expect("it is the only supervisor");
        let supervisor = {
            let conn = Arc::clone(&conn);
            thread::spawn(move || {
                assert!(conn.down(epoch, "lost".to_owned(), Instant::ORIGIN));
                assert!(up(&conn, epoch).is_some());
            })
        };
        let before = connection(&conn);
        let sent = sends(&link);
        if before == connection(&conn) {
            assert_eq!(before == Some(ConnectionId(link.generation)), sent);
        }
        supervisor.join().unwrap();
    });
}

#[test]
fn a_supervisor_that_is_replaced_notices_it_and_changes_nothing() {
    loom::model(|| {
        let conn = Arc::new(Conn::new("line"));
        let old = take_over(&conn);
        let request = {
            let conn = Arc::clone(&conn);
            thread::spawn(move || {
                let new = take_over(&conn);
                up(&conn, new).expect("it is the last supervisor").generation
            })
        };
        let link = up(&conn, old);
        block_on(async {
            while conn.is_current(old) {
                // Listens before looking, so that no change is missed.
                let changed = conn.listen();
                if conn.is_current(old) {
                    changed.await;
                }
            }
        });
        assert!(!conn.down(old, "late".to_owned(), Instant::ORIGIN));
        conn.ended(old);
        let generation = request.join().unwrap();
        assert!(conn.is_up(generation));
        assert!(link.is_none_or(|link| !sends(&link)));
    });
}

#[test]
fn the_supervisor_notices_a_doubt() {
    loom::model(|| {
        let conn = Conn::new("line");
        let link = up(&conn, take_over(&conn)).expect("it is the only supervisor");
        let request = {
            let link = Arc::clone(&link);
            thread::spawn(move || link.doubt(Instant::ORIGIN))
        };
        let doubted = link.listen_for_doubt();
        if !link.is_doubted() {
            block_on(doubted);
        }
        assert!(link.is_doubted());
        request.join().unwrap();
    });
}
