//! Tests of the credentials of a callback.

use std::sync::Mutex;

use super::*;
use crate::credentials::Credentials;

/// Returns a node whose callback returns these passwords in order, and then an error.
fn node_with(passwords: &'static [&'static str]) -> (Fake, Node<Fake>) {
    let left = Arc::new(Mutex::new(passwords.iter()));
    let options = Options::new(Arc::new(TokioRuntime::new())).credentials(move || {
        let next = left.lock().unwrap().next();
        async move {
            let password = next.ok_or("the secret store\nis down")?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(Credentials::new("locks", *password))
        }
    });
    let fake = Fake::default();
    (fake.clone(), Node::new(fake, &options))
}

#[tokio::test(start_paused = true)]
async fn the_callback_runs_for_each_connection() {
    let (fake, node) = node_with(&["first", "second"]);
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    fake.cut();
    fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await;
    assert_eq!(["first", "second"].map(|password| Credentials::new("locks", password)), *fake.logins());
}

#[tokio::test(start_paused = true)]
async fn without_credentials_no_connection_is_attempted_for_some_seconds() {
    let (fake, node) = node_with(&[]);
    let start = Now::now();
    assert_eq!("credentials unavailable: the secret store", unavailable(lock(&node).await));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reason = at_once(node.call(Request::Release(claim("a")))).await.expect("the call waits");
    assert!(unavailable(reason).contains("credentials"));
    assert_eq!((0, true), (fake.connects(), start.elapsed() < Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn a_password_of_the_callback_is_redacted() {
    let (fake, node) = node_with(&["hunter2"]);
    fake.is(|behavior| behavior.accepts = Err("ERR bad command: AUTH hunter2"));
    assert_eq!("ERR bad command: AUTH ...", unavailable(lock(&node).await));
    let shown = format!("{:?}", fake.logins());
    assert!(shown.contains("locks") && !shown.contains("hunter2"), "{shown}");
}
