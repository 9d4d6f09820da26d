//! The examples do what they say, on embedded fake nodes and on real servers, and leave nothing behind.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::path::{Path, PathBuf};
use std::process::Command;

use redlock_testkit::RedisServer;

/// An example of this adapter. `cargo test` builds it, where no `--test` is named.
pub(crate) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    let program = target.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is missing: build it with `cargo build --examples`", program.display());
    program
}

/// Runs it to its end, and answers what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}\n{complained}");
    said.into_owned()
}

pub(crate) fn on_fakes(name: &str) -> String {
    run(Command::new(program(name)).env_remove("REDLOCK_NODES"))
}

pub(crate) fn on_servers(name: &str) -> String {
    let servers = RedisServer::start_many(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let said = run(Command::new(program(name)).env("REDLOCK_NODES", urls.join(",")));
    assert!(servers.iter().all(|server| server.keys().is_empty()), "{said}");
    said
}

pub(crate) fn quickstart(name: &str) {
    let said = run(&mut Command::new(program(name)));
    assert!(said.contains("fake-5: the key is gone") && !said.contains("LEFT"), "{said}");
    let servers = RedisServer::start_many(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let said = run(Command::new(program(name)).args(["--nodes", &urls.join(",")]));
    assert_eq!(3, said.matches("the key is gone").count(), "{said}");
}
