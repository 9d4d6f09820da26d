//! Runs the examples.
#![cfg(feature = "tokio")]

use redlock_adapter_tests::examples;

#[test]
fn quickstart() {
    examples::quickstart("quickstart_fred");
}

#[test]
fn own_client() {
    assert!(examples::on_servers("own_client").contains("over 3 clients"));
}
