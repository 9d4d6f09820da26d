//! The examples, run.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

#[path = "../../tests/run_examples.rs"]
mod run_examples;
#[cfg(feature = "tls-rustls")]
#[path = "../../tests/secure.rs"]
mod secure;

use run_examples::{on_fakes, on_servers};

fn everywhere(name: &str, says: &str) {
    for said in [on_fakes(name), on_servers(name)] {
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn quickstart() {
    run_examples::quickstart("quickstart");
}

#[test]
fn job() {
    everywhere("job", "another one runs it");
}

#[test]
fn several() {
    everywhere("several", "balances");
}

#[test]
fn fallback() {
    everywhere("fallback", "the old one will do");
}

#[test]
fn deadline() {
    everywhere("deadline", "in time");
}

#[test]
fn sharing() {
    everywhere("sharing", "released: Released");
}

#[test]
fn own_connection() {
    assert!(on_servers("own_connection").contains("over 3 connections"));
}

#[cfg(feature = "smol")]
#[test]
fn on_smol() {
    assert!(on_servers("on_smol").contains("on smol"));
}

#[cfg(feature = "tls-rustls")]
#[test]
fn tls() {
    let secure = secure::Secure::start("example");
    let mut command = std::process::Command::new(run_examples::program("tls"));
    let said = run_examples::run(command.arg(&secure.authority).arg(secure.url()));
    assert!(said.contains("locked over TLS"), "{said}");
}
