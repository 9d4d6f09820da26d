//! Every run is a new process, so its first request includes the connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

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
fn a_minority_without_an_address_is_not_seen() {
    let cluster = Cluster::new();
    let [first, second, _] = &cluster.servers[..] else { panic!("three servers") };
    let nodes = format!("{},{},redis://no-such-host.invalid", first.url(), second.url());
    let found = output(cluster.redlock(["run", "-n", "job", "true"]).env("REDLOCK_NODES", nodes));
    assert_eq!((Some(0), ""), (found.status.code(), &*text(&found.stderr)), "{found:?}");
}
