//! Real servers follow the test, keep or lose their data, and never outlive their owner.

use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use redlock_testkit::{RedisServer, Reply};

fn process_id(server: &RedisServer) -> String {
    let info = server.command(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    line.expect("INFO names the process").to_owned()
}

/// Returns whether a process exists. A zombie does, until its parent waits for it.
fn exists(process_id: &str) -> bool {
    std::process::Command::new("kill")
        .args(["-0", process_id])
        .output()
        .expect("kill is there")
        .status
        .success()
}

fn directory(server: &RedisServer) -> String {
    server.command(&["CONFIG", "GET", "dir"]).lines().last().expect("a pair").to_owned()
}

fn accepts(server: &RedisServer) -> bool {
    TcpStream::connect(("127.0.0.1", server.port())).is_ok()
}

#[test]
fn a_server_starts_empty_and_ends_with_its_owner() {
    let server = RedisServer::start();
    assert_eq!(Vec::<String>::new(), server.keys());
    let (process, directory) = (process_id(&server), directory(&server));
    assert!(exists(&process) && Path::new(&directory).exists());
    drop(server);
    assert!(!exists(&process), "the process still runs, or was not reaped");
    assert!(!Path::new(&directory).exists());
}

#[test]
fn a_panic_ends_the_servers_even_a_paused_one() {
    let (processes, started) = mpsc::channel();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let servers = RedisServer::start_many(2);
        for server in &servers {
            processes.send(process_id(server)).expect("the test listens");
        }
        servers[1].pause();
        panic!("a test that fails");
    }));
    assert!(panic.is_err());
    let ended: Vec<_> = started.try_iter().collect();
    assert_eq!(2, ended.len());
    assert!(ended.iter().all(|process| !exists(process)), "one of {ended:?} still runs");
}

#[test]
fn a_killed_server_restarts_on_its_port_without_data() {
    let server = RedisServer::start();
    let (port, process) = (server.port(), process_id(&server));
    server.command(&["SET", "a", "1"]);
    server.kill();
    server.kill();
    assert!(!exists(&process) && !accepts(&server));
    server.restart();
    assert_eq!((port, ""), (server.port(), server.command(&["GET", "a"]).as_str()));
    assert_ne!(process, process_id(&server));
}

#[test]
fn a_restart_loses_the_data_of_a_former_replica() {
    let master = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
    let replica = RedisServer::start();
    master.command(&["SET", "a", "1"]);
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let end = Instant::now() + Duration::from_secs(60);
    while replica.reply(&[b"GET", b"a"]) != Reply::Bytes(b"1".to_vec()) {
        assert!(Instant::now() < end, "the replica has not received the data");
        std::thread::sleep(Duration::from_millis(5));
    }
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    replica.restart();
    assert_eq!(Vec::<String>::new(), replica.keys());
}

#[test]
#[should_panic(expected = "the server has ended")]
fn a_server_that_has_ended_by_itself_cannot_be_paused() {
    let server = RedisServer::start();
    // The server closes the connection instead of a reply.
    let shutdown = catch_unwind(AssertUnwindSafe(|| server.command(&["SHUTDOWN", "NOSAVE"])));
    assert!(shutdown.is_err());
    // Its process may end a little later.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        server.pause();
        server.resume();
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_persistent_server_loses_data_only_on_request() {
    let server = RedisServer::builder().persistent(true).start();
    for round in 1..=3 {
        for number in 0..100 {
            server.command(&["SET", &format!("{round}:{number}"), "x"]);
        }
        server.kill();
        server.restart();
        assert_eq!(round * 100, server.keys().len());
    }
    server.restart_empty();
    assert_eq!(Vec::<String>::new(), server.keys());
}

#[test]
fn a_paused_server_replies_when_it_resumes() {
    let server = RedisServer::start();
    std::thread::scope(|scope| {
        server.pause();
        assert!(accepts(&server), "the kernel accepts connections");
        let (reply, replies) = mpsc::channel();
        let server = &server;
        scope.spawn(move || reply.send(server.command(&["SET", "a", "1"])));
        assert!(replies.recv_timeout(Duration::from_millis(100)).is_err(), "a reply while paused");
        server.resume();
        assert_eq!(Ok("OK".to_owned()), replies.recv_timeout(Duration::from_secs(10)));
    });
}

#[test]
fn a_paused_server_can_be_killed_and_restarted() {
    let server = RedisServer::start();
    server.pause();
    server.pause();
    server.restart();
    server.pause();
    server.resume();
    server.resume();
    server.pause();
    server.kill();
    server.restart();
    assert_eq!("PONG", server.command(&["PING"]));
}

#[test]
#[should_panic(expected = "was taken by another process")]
fn a_port_of_another_process_is_an_error() {
    let server = RedisServer::start();
    server.kill();
    let _theirs = std::net::TcpListener::bind(("127.0.0.1", server.port())).expect("it is free");
    server.restart();
}

#[test]
fn servers_share_nothing() {
    let servers = RedisServer::start_many(5);
    servers[0].command(&["SET", "a", "1"]);
    assert!(servers[1..].iter().all(|server| server.keys().is_empty()));
    let mut ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(5, ports.len());
}

#[test]
fn a_password_is_required_and_in_the_url_but_not_in_debug() {
    let server = RedisServer::builder().password("sword fish").start();
    assert_eq!(format!("redis://:sword%20fish@127.0.0.1:{}", server.port()), server.url());
    assert_eq!("PONG", server.command(&["PING"]));
    assert!(!format!("{server:?}").contains("fish"));
    assert!(
        matches!(server.authenticated("other").reply(&[b"PING"]), Reply::Error(no) if no.starts_with("WRONGPASS"))
    );

    server.command(&["CONFIG", "SET", "requirepass", "other"]);
    assert_eq!("PONG", server.authenticated("other").command(&["PING"]));
}

#[test]
fn a_socket_exists_on_request() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server.socket().expect("the server was started with a socket");
    assert!(std::os::unix::net::UnixStream::connect(path).is_ok());
    assert_eq!(None, RedisServer::start().socket());
}

#[test]
fn arguments_take_precedence() {
    let server = RedisServer::builder().arg("--maxmemory").arg("5mb").start();
    assert_eq!("maxmemory\n5242880", server.command(&["CONFIG", "GET", "maxmemory"]));
}

#[test]
fn replies_commands_and_keys_are_visible() {
    let server = RedisServer::start();
    assert_eq!(0, server.commandstats("set"));
    assert_eq!("OK", server.command(&["SET", "a", "1"]));
    assert_eq!("2", server.command(&["INCR", "a"]));
    assert_eq!("", server.command(&["GET", "b"]));
    assert_eq!(Reply::Bytes(b"OK".to_vec()), server.reply(&[b"SET", b"\x00\xff", b"\r\n"]));
    assert_eq!(Reply::Bytes(b"\r\n".to_vec()), server.reply(&[b"GET", b"\x00\xff"]));
    assert_eq!((2, 1), (server.commandstats("SET"), server.commandstats("incr")));
    assert_eq!(vec!["\\x00\\xff", "a"], server.keys());
}

#[test]
#[should_panic(expected = "LPUSH: WRONGTYPE")]
fn an_error_reply_panics() {
    let server = RedisServer::start();
    server.command(&["SET", "a", "1"]);
    server.command(&["LPUSH", "a", "1"]);
}

#[test]
#[should_panic(expected = "install redis-server")]
fn a_missing_program_is_named_in_the_error() {
    RedisServer::builder().program("no-such-server").start();
}

#[test]
#[should_panic(expected = "no-such-option")]
fn the_output_of_a_failed_start_is_in_the_error() {
    RedisServer::builder().arg("--no-such-option").arg("1").start();
}
