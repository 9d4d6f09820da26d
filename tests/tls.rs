//! `rediss://` against a real server with a certificate of its own authority.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::adapter::IntoConnector;
use redlock_testkit::RedisServer;
use redlock_wire::{Command as Request, Connection, Connector, Hub, Reply, Sent};

/// A server for `localhost` and the loopback addresses, and its authority's certificate.
struct Secure {
    port: String,
    authority: PathBuf,
    _server: RedisServer,
    folder: PathBuf,
}

impl Secure {
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!(
            "{}-tls-{name}-{}",
            env!("CARGO_PKG_NAME"),
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (authority, key) = (file("ca.pem"), file("ca.key"));
        let new = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ];
        openssl(
            &folder,
            &[&new[..], &["-subj", "/CN=authority", "-keyout", &key, "-out", &authority]].concat(),
        );
        let (certificate, secret) = (file("server.pem"), file("server.key"));
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1";
        let leaf =
            ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE", "-subj", "/CN=localhost"];
        let signed = ["-CA", &authority, "-CAkey", &key, "-keyout", &secret, "-out", &certificate];
        openssl(&folder, &[&new[..], &leaf, &signed].concat());

        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let listen = ["--tls-port", &port, "--bind", "127.0.0.1", "::1", "--tls-auth-clients", "no"];
        let files =
            ["--tls-cert-file", &certificate, "--tls-key-file", &secret, "--tls-ca-cert-file", &authority];
        let args = listen.iter().chain(&files);
        let server = args.fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start();
        Self { port, authority: authority.into(), _server: server, folder }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn openssl(folder: &Path, args: &[&str]) {
    let made = Command::new("openssl").current_dir(folder).args(args).output();
    let made = made.expect("the tests of TLS need openssl in the PATH");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let secure = Secure::start("unknown");
    let connector = format!("rediss://:hunter2@localhost:{}", secure.port).into_connector().unwrap();
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
        assert_eq!(Reply::Bytes(b"OK".to_vec()), connection.call(set).await.unwrap());
    }
}

const PORT: &str = "REDLOCK_TLS_PORT";
