//! Commands that replace scripts: on servers that support them, and on scripted servers that reject them.

use std::collections::HashMap;
use std::sync::Mutex;

use redlock_core::node::{LockNode, NodeErrorKind, Request};
use redlock_testkit::{RedisServer, Reply};
use redlock_wire::{Node, Options};

use crate::Adapter;
use crate::node::{GRANTED, claim, denied_by, minute, node_of, nothing_there, of};
use crate::scripted::{Answer, Scripted, greet};

/// Returns the command of a server that deletes a key if it holds a given value, if the server has such a command.
pub(crate) fn delete_of(server: &RedisServer) -> Option<&'static str> {
    ["delifeq", "delex"].into_iter().find(|name| {
        let reply = server.reply(&[name.as_bytes()]);
        matches!(reply, Reply::Error(message) if message.contains("wrong number of arguments"))
    })
}

/// Returns the number of commands that release locks, scripts or not.
pub(crate) fn releases(server: &RedisServer) -> u64 {
    ["evalsha", "eval", "delifeq", "delex"].iter().map(|name| server.commandstats(name)).sum()
}

pub(crate) async fn one_resource_needs_no_script_if_the_server_has_the_commands<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio().native_commands(true)).unwrap();
    let mine = claim("a", "mine");
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(mine.clone())).await));
    let scripts = server.commandstats("evalsha");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    let by_scripts = server.commandstats("evalsha") - scripts;
    match delete_of(&server) {
        Some(name) => assert_eq!((0, 2), (by_scripts, server.commandstats(name))),
        None => assert_eq!(1, by_scripts),
    }
}

pub(crate) async fn scripts_are_the_default<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio()).unwrap();
    let mine = claim("a", "mine");
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(mine.clone())).await));
    let scripts = server.commandstats("evalsha");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    assert_eq!(1, server.commandstats("evalsha") - scripts);
}

/// Returns a node whose user may do everything except run scripts.
fn without_scripts<A: Adapter>(server: &RedisServer) -> Node<A::Connector> {
    let rights = ["ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-@scripting"];
    assert_eq!("OK", server.command(&rights));
    A::node(server.url().replace("//", "//few:pw@"), &Options::tokio()).unwrap()
}

pub(crate) async fn one_resource_is_locked_on_a_server_that_forbids_scripts<A: Adapter>() {
    let server = RedisServer::start();
    let node = without_scripts::<A>(&server);
    let (mine, other) = (claim("a", "mine"), claim("a", "other"));
    if delete_of(&server).is_none() {
        let error = node.call(Request::Acquire(mine.clone(), minute())).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind());
        assert!(error.to_string().starts_with("locks cannot be released: NOPERM"), "{error}");
        return;
    }
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::Acquire(other.clone(), minute())).await));
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(other.clone())).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    assert!(server.keys().is_empty());

    // Everything else is rejected, and the connection stays open.
    let both = claim(["a", "b"], "mine");
    assert_eq!(Err(NodeErrorKind::Rejected), of(node.call(Request::Acquire(both.clone(), minute())).await));
    assert_eq!(
        Err(NodeErrorKind::Rejected),
        of(node.call(Request::AcquireFenced(mine.clone(), minute())).await)
    );
    assert_eq!(Err(NodeErrorKind::Rejected), of(node.call(Request::Extend(mine.clone(), minute())).await));
    assert!(node.call(Request::Inspect(mine.resources()[0].clone())).await.is_err());
    assert!(server.keys().is_empty() && node.status().connection.is_some());
}

pub(crate) async fn a_key_of_another_type_is_not_changed<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    server.command(&["LPUSH", "a", "mine"]);
    let mine = claim("a", "mine");
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(mine.clone())).await));
    assert_eq!(["a"], server.keys()[..]);
}

/// Returns a reply of this text as a bulk string, or null in RESP3, which has no null bulk string.
fn bulk(text: Option<&str>) -> Answer {
    Answer::Say(match text {
        None => "_\r\n",
        Some(text) => format!("${}\r\n{text}\r\n", text.len()).leak(),
    })
}

/// Replies as Redis 8.4 does, after its documentation. Scripts are loaded and never called, or forbidden.
fn redis_8_4(keys: &Mutex<HashMap<String, String>>, scripts: bool, command: &str) -> Answer {
    let words: Vec<_> = command.split(' ').collect();
    let mut keys = keys.lock().unwrap();
    match words[..] {
        ["INFO", ..] => bulk(Some("redis_version:8.4.0\r\n")),
        ["SCRIPT" | "EVALSHA", ..] if !scripts => {
            Answer::Say("-NOPERM User default has no permissions to run the 'evalsha' command\r\n")
        }
        ["SCRIPT", ..] => Answer::Say("+sha\r\n"),
        ["EVALSHA", _, "0"] => Answer::Say(":0\r\n"),
        // Clients write the options in different orders.
        ["SET", key, value, "NX", "PX", _, "GET"] | ["SET", key, value, "PX", _, "NX", "GET"] => {
            let before = keys.get(key).cloned();
            keys.entry(key.to_owned()).or_insert_with(|| value.to_owned());
            bulk(before.as_deref())
        }
        ["DELEX", key, "IFEQ", value] => {
            let equal = keys.get(key).is_some_and(|held| held == value);
            if equal {
                keys.remove(key);
            }
            Answer::Say(if equal { ":1\r\n" } else { ":0\r\n" })
        }
        ["DELIFEQ", ..] => Answer::Say("-ERR unknown command 'DELIFEQ'\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    }
}

pub(crate) async fn redis_8_4_locks_without_scripts<A: Adapter>() {
    for scripts in [true, false] {
        let keys = Mutex::new(HashMap::new());
        let server = Scripted::start(move |command| redis_8_4(&keys, scripts, command)).await;
        let node =
            A::node(format!("redis://127.0.0.1:{}", server.port()), &Options::tokio().native_commands(true))
                .unwrap();
        let (mine, other) = (claim("a", "mine"), claim("a", "other"));
        assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
        // Each handshake calls a script. On a slow machine, there may have been more than one.
        let handshakes = server.seen("EVALSHA");
        assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(other.clone())).await));
        assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
        assert_eq!(2, server.seen("DELEX a IFEQ "), "with scripts: {scripts}");
        assert_eq!(handshakes, server.seen("EVALSHA"), "no script except in the handshake");
    }
}

pub(crate) async fn a_rejected_command_is_replaced_by_the_script_permanently<A: Adapter>() {
    for rejection in [
        "-NOPERM User default has no permissions to run the 'delifeq' command\r\n",
        "-ERR unknown command 'DELIFEQ'\r\n",
        "-ERR syntax error\r\n",
    ] {
        let server = Scripted::start(move |command| {
            let words: Vec<_> = command.split(' ').collect();
            match words[..] {
                ["INFO", ..] => bulk(Some("redis_version:7.2.4\r\nvalkey_version:9.1.0\r\n")),
                ["DELIFEQ", ..] => Answer::Say(rejection),
                ["SCRIPT", ..] => Answer::Say("+sha\r\n"),
                ["EVALSHA", _, "0"] => Answer::Say(":0\r\n"),
                ["EVALSHA" | "EVAL", ..] => Answer::Say(":1\r\n"),
                _ => greet(command).unwrap_or(Answer::HangUp),
            }
        })
        .await;
        let url = format!("redis://127.0.0.1:{}", server.port());
        let mine = claim("a", "mine");
        let node = A::node(url, &Options::tokio().native_commands(true)).unwrap();
        assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
        let handshakes = server.seen("EVALSHA");
        for _ in 0..2 {
            assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
        }
        assert_eq!((1, 1), (server.seen("DELIFEQ"), server.seen("EVAL ")), "{rejection}");
        assert_eq!(2, server.seen("EVALSHA") - handshakes, "the later releases");
    }
}

/// Replies as Valkey 9.1 does, where `mine` reads `read` and has locked `written`.
fn valkey_9_1(command: &str) -> Answer {
    let words: Vec<_> = command.split(' ').collect();
    match words[..] {
        ["INFO", ..] => bulk(Some("redis_version:7.2.4\r\nvalkey_version:9.1.0\r\n")),
        ["DELIFEQ", "written", "mine"] => Answer::Say(":1\r\n"),
        ["DELIFEQ", "read", _] => Answer::Say("-WRONGTYPE Operation against a key\r\n"),
        ["SCRIPT", ..] => Answer::Say("+sha\r\n"),
        ["EVALSHA", _, "0"] => Answer::Say(":0\r\n"),
        ["EVALSHA", _, "1", "read", token] => Answer::Say(if token == "mine" { ":1\r\n" } else { ":0\r\n" }),
        _ => greet(command).unwrap_or(Answer::HangUp),
    }
}

pub(crate) async fn a_reader_is_released_by_the_script_and_a_writer_by_the_command<A: Adapter>() {
    let server = Scripted::start(valkey_9_1).await;
    let node =
        A::node(format!("redis://127.0.0.1:{}", server.port()), &Options::tokio().native_commands(true))
            .unwrap();
    let written = claim("written", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Release(written.clone())).await));
    let handshakes = server.seen("EVALSHA");
    for _ in 0..2 {
        assert_eq!(GRANTED, of(node.call(Request::Release(claim("read", "mine"))).await));
        assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(claim("read", "other"))).await));
        assert_eq!(GRANTED, of(node.call(Request::Release(written.clone())).await));
    }
    assert_eq!((4, 3), (server.seen("DELIFEQ read"), server.seen("DELIFEQ written")));
    assert_eq!(4, server.seen("EVALSHA") - handshakes, "the readers only");
}
