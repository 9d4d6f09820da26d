//! What every adapter promises: on real servers, and on scripted ones that misbehave.

use redlock_fred as adapter;

#[path = "../../tests/conformance.rs"]
mod conformance;
#[path = "../../tests/connect.rs"]
mod connect;
#[path = "../../tests/counters.rs"]
mod counters;
#[path = "../../tests/hostile.rs"]
mod hostile;
#[path = "../../tests/node.rs"]
mod node;
#[path = "../../tests/scripted.rs"]
mod scripted;
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
#[path = "../../tests/secure.rs"]
mod secure;
#[path = "../../tests/servers/mod.rs"]
mod servers;
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
#[path = "../../tests/tls.rs"]
mod tls;
#[path = "../../tests/watch.rs"]
mod watch;
