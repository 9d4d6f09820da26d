//! `rediss://` with a real server whose certificate is from a private CA.

use std::process::Command as Process;
use std::time::Duration;

use redlock_core::node::{self, LockNode, NodeErrorKind, Request};
use redlock_wire::{Command, Connection, Connector, Hub, Options, Reply, Sent};

use crate::Adapter;
use crate::node::{claim, minute};
use crate::secure::Secure;
use crate::servers::NODE_TIMEOUT;
use crate::servers::admission::vouch;

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

/// The sentinels name the server by its address, for which its certificate is valid.
pub(crate) async fn sentinels_and_the_master_that_they_name_are_reached<A: Adapter>() {
    let secure = Secure::start();
    let sentinels = secure.sentinels(3);
    let hosts: Vec<_> = sentinels.iter().map(|(port, _)| format!("localhost:{port}")).collect();
    let url = format!("rediss+sentinel://{}/locks", hosts.join(","));

    let stranger = A::node(url.clone(), &Options::tokio()).unwrap();
    let error = stranger.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind(), "no authority is known: {error}");

    let options = Options::tokio().root_certificates(secure.file("ca.pem"));
    let redlock = A::builder_with([url], &options).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    // The server is new, so it may have lost locks.
    vouch(&redlock, 1).await;
    let guard = redlock.lock("a", Duration::from_secs(10)).await.unwrap();
    guard.release().await.unwrap();
    redlock.close().await;
}

fn packed<C: Connection>(_: &C, command: Command<'_>) -> C::Packed {
    C::pack(command)
}

const PORT: &str = "REDLOCK_TLS_PORT";
