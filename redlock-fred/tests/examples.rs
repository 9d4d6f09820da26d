//! The examples, run.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

#[path = "../../tests/run_examples.rs"]
#[allow(dead_code)] // fred's are not all that there are
mod run_examples;

#[test]
fn quickstart() {
    run_examples::quickstart("quickstart_fred");
}

#[test]
fn own_client() {
    assert!(run_examples::on_servers("own_client").contains("over 3 clients"));
}
