//! The examples of an adapter, run as processes on embedded fake nodes and on real servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use redlock_testkit::RedisServer;

/// Returns the program of an example of the crate under test.
///
/// # Panics
///
/// Panics if it is not built. `cargo test` builds the examples, unless it is limited to other targets.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    let program = target.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is missing: build it with `cargo build --examples`", program.display());
    program
}

/// Runs a program to completion and returns its output.
///
/// # Panics
///
/// Panics if the program fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{printed}\n{errors}");
    printed.into_owned()
}

/// Runs an example on fake nodes and returns its output.
pub fn on_fakes(name: &str) -> String {
    run(Command::new(program(name)).env_remove("REDLOCK_NODES"))
}

/// Runs an example on three servers and returns its output.
///
/// # Panics
///
/// Panics if the example leaves a key behind.
pub fn on_servers(name: &str) -> String {
    let servers = RedisServer::start_many(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let printed = run(Command::new(program(name)).env("REDLOCK_NODES", urls.join(",")));
    assert!(servers.iter().all(|server| server.keys().is_empty()), "{printed}");
    printed
}

/// Runs the quickstart on fake nodes and on three servers, and checks its output.
///
/// # Panics
///
/// Panics if the example leaves a key behind.
pub fn quickstart(name: &str) {
    let printed = run(&mut Command::new(program(name)));
    assert!(printed.contains("fake-5: the key is gone") && !printed.contains("LEFT"), "{printed}");
    let servers = RedisServer::start_many(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let printed = run(Command::new(program(name)).args(["--nodes", &urls.join(",")]));
    assert_eq!(3, printed.matches("the key is gone").count(), "{printed}");
}
