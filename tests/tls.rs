//! `rediss://` against a real server with a certificate of its own authority.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::process::Command;

use crate::adapter::IntoConnector;
use crate::secure::Secure;
use redlock_wire::{Command as Request, Connection, Connector, Hub, Reply, Sent};

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let secure = Secure::start("unknown");
    let connector = secure.url().replace("//", "//:hunter2@").into_connector().unwrap();
    let Err(failure) = connector.connect(&Hub::default()).await else { panic!("it connects") };
    assert_eq!(Sent::No, failure.sent);
    assert!(failure.message.to_lowercase().contains("certificate"), "{}", failure.message);
    assert!(!failure.message.contains("hunter2"), "{}", failure.message);
}

/// The system's roots are read from the environment, which a test may set for another process only: this one runs the
/// next.
#[test]
fn the_authorities_of_the_system_are_trusted() {
    let secure = Secure::start("known");
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::connects_to_the_server_in_the_environment", "--ignored"])
        .env("SSL_CERT_FILE", &secure.authority)
        .env(PORT, &secure.port)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by the test above, in a process whose roots include the server's authority"]
async fn connects_to_the_server_in_the_environment() {
    let port = std::env::var(PORT).expect("the port of a server with TLS");
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let connector = format!("rediss://{host}:{port}").into_connector().unwrap();
        let connection = connector.connect(&Hub::default()).await.unwrap();
        let set = Request::SetIfAbsent { key: host.as_bytes(), value: b"v", millis: 60_000, get: false };
        assert_eq!(
            vec![Reply::Bytes(b"OK".to_vec())],
            connection.pipeline(vec![packed(&connection, set)]).await.unwrap()
        );
    }
}

fn packed<C: Connection>(_: &C, command: Request<'_>) -> C::Packed {
    C::pack(command)
}

const PORT: &str = "REDLOCK_TLS_PORT";
