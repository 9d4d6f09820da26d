//! A real server with TLS, and its certificate authority.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use redlock_testkit::RedisServer;
use tempfile::TempDir;

use crate::sentinels::until;

/// A server whose certificate is valid for `localhost` and the loopback addresses.
pub struct Secure {
    /// The port on 127.0.0.1.
    pub port: String,
    /// The file with the certificate of the authority.
    pub authority: PathBuf,
    _server: RedisServer,
    folder: TempDir,
}

impl Secure {
    /// Starts a server that does not require client certificates.
    ///
    /// # Panics
    ///
    /// Panics if there is no `openssl` in the `PATH`.
    pub fn start() -> Self {
        Self::with_client_certificates("no")
    }

    /// Starts a server with a value of `--tls-auth-clients`. A client can use the certificate of the server.
    ///
    /// # Panics
    ///
    /// Same as [`start`](Secure::start).
    pub fn with_client_certificates(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
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
            folder.path(),
            &[&new[..], &["-subj", "/CN=authority", "-keyout", &key, "-out", &authority]].concat(),
        );
        let (certificate, secret) = (file("server.pem"), file("server.key"));
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1";
        let leaf =
            ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE", "-subj", "/CN=localhost"];
        let signed = ["-CA", &authority, "-CAkey", &key, "-keyout", &secret, "-out", &certificate];
        openssl(folder.path(), &[&new[..], &leaf, &signed].concat());

        let (port, server) = with_tls(folder.path(), policy, &[]);
        Self { port, authority: authority.into(), _server: server, folder }
    }

    /// Starts sentinels with TLS that watch this server as the service `locks`, and waits until they know each other.
    /// Returns their ports, and the sentinels.
    pub(crate) fn sentinels(&self, count: usize) -> Vec<(String, RedisServer)> {
        let sentinel = |_| with_tls(self.folder.path(), "no", &["--sentinel", "--tls-replication", "yes"]);
        let sentinels: Vec<_> = (0..count).map(sentinel).collect();
        for (_, sentinel) in &sentinels {
            let quorum = (count / 2 + 1).to_string();
            sentinel.command(&["SENTINEL", "MONITOR", "locks", "127.0.0.1", &self.port, &quorum]);
        }
        let others = format!("num-other-sentinels\n{}\n", count - 1);
        until("the sentinels know each other", || {
            sentinels
                .iter()
                .all(|(_, sentinel)| sentinel.command(&["SENTINEL", "MASTER", "locks"]).contains(&others))
        });
        sentinels
    }

    /// Returns the contents of a file such as `server.pem` or `server.key`.
    ///
    /// # Panics
    ///
    /// Panics if there is no such file.
    pub fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}

/// Starts a server with a port for TLS, beside the one for the tests. Returns that port.
fn with_tls(folder: &Path, policy: &str, more: &[&str]) -> (String, RedisServer) {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let listen = ["--tls-port", &port, "--bind", "127.0.0.1", "::1", "--tls-auth-clients", policy];
    let (certificate, key, authority) = (file("server.pem"), file("server.key"), file("ca.pem"));
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let args = more.iter().chain(&listen).chain(&files);
    let server = args.fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start();
    (port, server)
}

fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(args).output();
    let output = output.expect("the tests of TLS need openssl in the PATH");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
