//! `rediss://` with servers that do not speak TLS. The adapter makes the handshake itself, so it can name the reason.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use redlock_core::node::{LockNode, NodeErrorKind, Request};
use redlock_testkit::RedisServer;
use redlock_wire::{Connector, Hub, Options, Sent};

use crate::Adapter;
use crate::node::{claim, minute};

/// A server without TLS takes the first message of the handshake for a line that has not ended yet.
pub(crate) async fn a_plain_server_that_waits_for_a_line_is_named_at_the_time_limit<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(format!("rediss://127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");
    let expected = "TLS handshake not completed; does the server speak TLS on this port?";
    assert!(error.to_string().ends_with(expected), "{error}");
}

pub(crate) async fn a_reply_that_is_not_tls_is_reported_as_such<A: Adapter>() {
    for (reply, expected) in [
        (&b"-ERR unknown command\r\n"[..], "TLS handshake failed: the server does not speak TLS ("),
        (b"", "TLS handshake failed: the server closed the connection; does it speak TLS on this port? ("),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("rediss://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut hello = [0; 4096];
            assert!(socket.read(&mut hello).unwrap() > 0);
            socket.write_all(reply).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            // Until the client has closed it, so that no reset overtakes the reply.
            while socket.read(&mut hello).is_ok_and(|count| count > 0) {}
        });
        let connector = A::connector(url).unwrap();
        let Err(failure) = connector.connect(None, &Hub::default()).await else {
            panic!("the client connects")
        };
        assert_eq!(Sent::No, failure.sent);
        assert!(failure.message.starts_with(expected), "{}", failure.message);
        server.join().unwrap();
    }
}
