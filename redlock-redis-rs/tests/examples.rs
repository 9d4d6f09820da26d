//! Runs the examples.
#![cfg(feature = "tokio")]

use redlock_adapter_tests::examples::{self, on_fakes, on_servers};

fn everywhere(name: &str, text: &str) {
    for printed in [on_fakes(name), on_servers(name)] {
        assert!(printed.contains(text), "{printed}");
    }
}

#[test]
fn quickstart() {
    examples::quickstart("quickstart");
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
    let secure = redlock_adapter_tests::secure::Secure::start();
    let mut command = std::process::Command::new(examples::program("tls"));
    let printed = examples::run(command.arg(&secure.authority).arg(secure.url()));
    assert!(printed.contains("locked over TLS"), "{printed}");
}
