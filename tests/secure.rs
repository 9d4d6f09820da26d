//! A real server that speaks TLS, with a certificate of its own authority.
#![allow(dead_code, clippy::unwrap_used)] // each test uses a part of it; a panic is how a test reports

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use redlock_testkit::RedisServer;

/// A server for `localhost` and the loopback addresses, and its authority's certificate.
pub(crate) struct Secure {
    pub(crate) port: String,
    pub(crate) authority: PathBuf,
    _server: RedisServer,
    folder: PathBuf,
}

impl Secure {
    pub(crate) fn start(name: &str) -> Self {
        Self::asking_for_certificates(name, "no")
    }

    /// As `--tls-auth-clients` says. The server's own certificate does for a client too.
    pub(crate) fn asking_for_certificates(name: &str, asks: &str) -> Self {
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
        let listen = ["--tls-port", &port, "--bind", "127.0.0.1", "::1", "--tls-auth-clients", asks];
        let files =
            ["--tls-cert-file", &certificate, "--tls-key-file", &secret, "--tls-ca-cert-file", &authority];
        let args = listen.iter().chain(&files);
        let server = args.fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start();
        Self { port, authority: authority.into(), _server: server, folder }
    }

    /// The contents of a file such as `server.pem` or `server.key`.
    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.join(name)).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
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
