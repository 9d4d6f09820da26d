//! Every run is a new process, so its first request includes the connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use redlock_testkit::{RedisServer, RedisServerBuilder};

use crate::common::{Cluster, output, text};

/// Half of the time of a round trip.
const HALF: Duration = Duration::from_millis(75);

/// Starts a proxy that delays everything. Returns its port.
fn far_away(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Some(count) = from.read(&mut bytes).ok().filter(|count| *count > 0) {
                thread::sleep(HALF);
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        });
    };
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
            pass(near.try_clone().unwrap(), far.try_clone().unwrap());
            pass(far, near);
        }
    });
    own
}

#[test]
fn distant_servers_grant_at_the_first_attempt() {
    let cluster = Cluster::new();
    let nodes = cluster.servers.iter().map(|server| format!("redis://127.0.0.1:{}", far_away(server.port())));
    let nodes = nodes.collect::<Vec<_>>().join(",");
    let found = output(cluster.redlock(["run", "-n", "job", "true"]).env("REDLOCK_NODES", nodes));
    assert_eq!((Some(0), ""), (found.status.code(), &*text(&found.stderr)), "{found:?}");
}

#[test]
fn a_minority_without_an_address_has_no_effect() {
    let cluster = Cluster::new();
    let [first, second, _] = &cluster.servers[..] else { panic!("three servers") };
    let nodes = format!("{},{},redis://no-such-host.invalid", first.url(), second.url());
    let found = output(cluster.redlock(["run", "-n", "job", "true"]).env("REDLOCK_NODES", nodes));
    assert_eq!((Some(0), ""), (found.status.code(), &*text(&found.stderr)), "{found:?}");
}

/// Creates a private CA, and a certificate for this machine that servers and clients use.
fn certificates(cluster: &Cluster) {
    let new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let leaf = "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
    let script = format!(
        "{new} -subj /CN=authority -keyout ca.key -out ca.pem && {new} {leaf} -CA ca.pem -CAkey ca.key -keyout own.key -out own.pem"
    );
    let found = output(&mut cluster.shell(&script));
    assert!(found.status.success(), "{found:?}");
}

#[test]
fn distant_servers_with_tls_grant_at_the_first_attempt() {
    let mut cluster = Cluster::of(Vec::new());
    certificates(&cluster);
    let file = |name: &str| cluster.path(name).to_str().unwrap().to_owned();
    let (authority, own, key) = (file("ca.pem"), file("own.pem"), file("own.key"));
    let files = ["--tls-cert-file", &own, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = ["--tls-port", &port.to_string(), "--tls-auth-clients", "yes"].map(str::to_owned);
        let args = listen.iter().map(String::as_str).chain(files);
        cluster.servers.push(args.fold(RedisServer::builder(), RedisServerBuilder::arg).start());
        nodes.push(format!("rediss://localhost:{}", far_away(port)));
    }
    let run = |options: &[&str]| {
        let words = [&["run", "-n"], options, &["job", "true"]].concat();
        output(cluster.redlock(words).env("REDLOCK_NODES", nodes.join(",")))
    };
    let found = run(&["--cacert", &authority, "--cert", &own, "--key", &key]);
    assert_eq!((Some(0), ""), (found.status.code(), &*text(&found.stderr)), "{found:?}");
    let found = run(&[]);
    assert!(found.status.code() == Some(69) && text(&found.stderr).contains("certificate"), "{found:?}");
    let plain = ["--cacert", &authority, "--node", "redis://127.0.0.1"];
    let found = run(&plain);
    assert!(
        found.status.code() == Some(78) && text(&found.stderr).contains("require rediss://"),
        "{found:?}"
    );
    let found = run(&["--cacert", &authority, "--cert", &own]);
    assert!(found.status.code() == Some(78) && text(&found.stderr).contains("--key"), "{found:?}");
}
