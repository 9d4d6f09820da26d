//! `rediss://` with a real server whose certificate is from a private CA.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::process::Command as Process;
use std::time::Duration;

use redlock_core::node::{self, LockNode, NodeErrorKind, Request};
use redlock_testkit::RedisServer;
use redlock_wire::{Command, Connection, Connector, Hub, Options, Reply, Sent};

use crate::Adapter;
use crate::node::{claim, minute};
use crate::secure::Secure;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_certificate_of_an_unknown_authority_is_rejected<A: Adapter>() {
    let secure = Secure::start();
    let connector = A::connector(secure.url().replace("//", "//:hunter2@")).unwrap();
    let Err(failure) = connector.connect(None, &Hub::default()).await else { panic!("the client connects") };
    assert_eq!(Sent::No, failure.sent);
    assert!(failure.message.to_lowercase().contains("certificate"), "{}", failure.message);
    assert!(!failure.message.contains("hunter2"), "{}", failure.message);
}

/// Runs the next test in another process, because the root certificates of the system come from its environment.
pub(crate) fn the_authorities_of_the_system_are_trusted<A: Adapter>() {
    let secure = Secure::start();
    let run = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::connects_to_the_server_in_the_environment", "--ignored"])
        .env("SSL_CERT_FILE", &secure.authority)
        .env(PORT, &secure.port)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && output.contains("1 passed"), "{output}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn connects_to_the_server_in_the_environment<A: Adapter>() {
    let port = std::env::var(PORT).expect("the port of a server with TLS");
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let connector = A::connector(format!("rediss://{host}:{port}")).unwrap();
        let connection = connector.connect(None, &Hub::default()).await.unwrap();
        let set = Command::SetIfAbsent { key: host.as_bytes(), value: b"v", millis: 60_000, get: false };
        assert_eq!(
            vec![Reply::Bytes(b"OK".to_vec())],
            connection.pipeline(vec![packed(&connection, set)]).await.unwrap()
        );
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn chosen_certificates_are_used<A: Adapter>() {
    let secure = Secure::with_client_certificates("yes");
    let limit = Duration::from_secs(10); // for a busy machine
    let trusting = Options::tokio().connect_timeout(limit).root_certificates(secure.file("ca.pem"));
    let node = A::node(secure.url(), &trusting).unwrap();
    let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");

    let identified = trusting.client_identity(secure.file("server.pem"), secure.file("server.key"));
    let node = A::node(secure.url(), &identified).unwrap();
    assert_eq!(
        node::Reply::Granted,
        node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap()
    );
}

/// A server without TLS takes the first message of the handshake for a line that has not ended yet.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_plain_server_that_waits_for_a_line_is_named_at_the_time_limit<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(format!("rediss://127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");
    let expected = "TLS handshake not completed; does the server speak TLS on this port?";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[tokio::main(flavor = "current_thread")]
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

fn packed<C: Connection>(_: &C, command: Command<'_>) -> C::Packed {
    C::pack(command)
}

const PORT: &str = "REDLOCK_TLS_PORT";
