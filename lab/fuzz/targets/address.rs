//! Addresses: no panic, no password in any text, and the same verdict and label from both adapters.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_wire::{Address, Endpoint, Options};

/// A marker for passwords in the input. No text may contain it.
const SECRET: &str = "hunter2";

fuzz_target!(|url: &str| {
    let parsed = Address::parse(url);
    match &parsed {
        Ok(address) => {
            let text = format!("{address} {address:?} {address:#?}");
            let outside_password = match address.endpoint() {
                Endpoint::Tcp { host, .. } => host.contains(SECRET),
                Endpoint::Unix { path } => path.to_string_lossy().contains(SECRET),
                Endpoint::Cluster { servers, .. } => servers.iter().any(|(host, _)| host.contains(SECRET)),
                Endpoint::Sentinels { service, sentinels, .. } => {
                    service.contains(SECRET) || sentinels.iter().any(|(host, _)| host.contains(SECRET))
                }
            } || address.user().is_some_and(|user| user.contains(SECRET));
            assert!(outside_password || !text.contains(SECRET), "{url:?} is shown as {text}");
        }
        Err(error) => {
            let text = format!("{error} {error:?}");
            assert!(!may_be_password(url) || !text.contains(SECRET), "{url:?} is shown as {text}");
        }
    }

    let options = Options::tokio();
    let label = parsed.as_ref().ok().map(ToString::to_string);
    let labels = [
        redlock_redis_rs::node(url, &options).map(|node| node_label(&node)),
        redlock_fred::node(url, &options).map(|node| node_label(&node)),
    ];
    for node in labels {
        match (node, &label) {
            (Ok(node), label) => assert_eq!(Some(&node), label.as_ref()),
            // An adapter may support neither TLS nor such a database number.
            (Err(error), _) => {
                let text = format!("{error} {error:?}");
                assert!(!may_be_password(url) || !text.contains(SECRET), "{url:?} is shown as {text}");
            }
        }
    }
});

fn node_label(node: &dyn redlock_core::node::LockNode) -> String {
    node.label().to_owned()
}

/// Returns whether the secret is only between the scheme and an `@`.
fn may_be_password(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return true };
    let behind = rest.rsplit_once(SECRET).map_or("", |(_, behind)| behind);
    !scheme.contains(SECRET) && behind.contains('@')
}
