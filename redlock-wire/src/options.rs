//! What can be chosen about a node, whichever client carries it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock_core::Runtime;

use crate::{backoff, fence};

/// The runtime of a node, and its few settings. Made without I/O, anywhere; clones share the runtime.
#[derive(Clone)]
#[must_use = "options do nothing until nodes are made with them"]
pub struct Options {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) connect_timeout: ConnectTimeout,
    pub(crate) reconnect_delay: Duration,
    pub(crate) keys: Arc<Keys>,
}

/// What keys are made with. Shared, so that it is compared by its address, as long as it is the same.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) prefix: Box<[u8]>,
    pub(crate) fence_prefix: Box<[u8]>,
    pub(crate) fence_retention: Duration,
}

/// 300 ms: TCP, TLS and the handshake take some four round trips, so this is enough around the world; and with the
/// longest back-off (200 ms) a node that comes back votes again within a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// The longest time that a node timeout makes of the connect timeout.
const LONGEST_RAISED: Duration = Duration::from_secs(10);

/// How long an attempt to connect may take: what was chosen, or what the node was told, if that is longer. Clones share
/// what the node was told.
#[derive(Clone)]
pub(crate) struct ConnectTimeout {
    chosen: Duration,
    /// In milliseconds.
    raised: Arc<AtomicU32>,
}

impl ConnectTimeout {
    fn of(chosen: Duration) -> Self {
        Self { chosen, raised: Arc::default() }
    }

    /// Makes it at least the node timeout: an answer that would be waited for is worth a connection that takes as long.
    pub(crate) fn raise(&self, node_timeout: Duration) {
        let millis = node_timeout.min(LONGEST_RAISED).as_millis();
        self.raised.fetch_max(u32::try_from(millis).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        self.chosen.max(self.node_timeout())
    }

    /// The node timeout, as far as it was told: at most [`LONGEST_RAISED`].
    pub(crate) fn node_timeout(&self) -> Duration {
        Duration::from_millis(self.raised.load(Ordering::Relaxed).into())
    }
}

impl Options {
    /// The same for one node, which is told its own node timeout.
    pub(crate) fn of_a_node(&self) -> Self {
        Self { connect_timeout: ConnectTimeout::of(self.connect_timeout.chosen), ..self.clone() }
    }

    /// Starts with a runtime, which the nodes' connections and tasks live in.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let keys =
            Keys { prefix: [].into(), fence_prefix: fence::PREFIX.into(), fence_retention: fence::RETENTION };
        let connect_timeout = ConnectTimeout::of(CONNECT_TIMEOUT);
        Self { runtime, connect_timeout, reconnect_delay: backoff::LONGEST, keys: Arc::new(keys) }
    }

    /// Starts with tokio: whichever tokio runtime a node is first used in.
    #[cfg(feature = "tokio")]
    pub fn tokio() -> Self {
        Self::new(Arc::new(redlock_core::TokioRuntime::new()))
    }

    /// Starts with smol's global executor.
    #[cfg(feature = "smol")]
    pub fn smol() -> Self {
        Self::new(Arc::new(redlock_core::SmolRuntime::new()))
    }

    /// Puts `prefix` before the name of every resource to make its key. Nothing if not set: other Redlock
    /// implementations then exclude us and are excluded by us. Its bytes are not necessarily text.
    ///
    /// Set a prefix when names come from users, and there is anything else on the servers: without it a user can choose the
    /// name of any key. `prefix + name` can be the same for two applications, such as `a` with `b:c` and `a:b` with `c`. To
    /// rule that out, use prefixes that all end in the same character and hold it nowhere else.
    ///
    /// A name whose key would be that of a [fencing counter](Options::fence_prefix) is
    /// [`Invalid`](redlock_core::ErrorKind::Invalid).
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        Arc::make_mut(&mut self.keys).prefix = prefix.as_ref().into();
        self
    }

    /// How long one attempt to connect may take: TCP, TLS, authentication and handshake together. 300 ms if not set,
    /// enough around the world; 1 ms at least, and what is less counts as that. If the
    /// [node timeout](redlock_core::Builder::node_timeout) is longer, it takes the place of this, up to 10 s.
    ///
    /// It delays nobody: a request waits for a first connection no longer than the node timeout, and for no later one.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = ConnectTimeout::of(timeout.max(Duration::from_millis(1)));
        self
    }

    /// Sets the longest delay between two attempts to connect. The default is 200 ms. The minimum is 10 ms; shorter values
    /// count as 10 ms.
    ///
    /// The delays double from 10 ms up to this one, and each is random between half of it and the whole. Raise it when many
    /// processes reconnect to a server at once; a node that comes back then votes again later. After a login or a TLS
    /// certificate was refused the delay is 5 s, or this one if it is longer.
    pub fn reconnect_delay(mut self, max: Duration) -> Self {
        self.reconnect_delay = max.max(backoff::SHORTEST);
        self
    }

    /// Puts `prefix` before the key of a resource to make the key of the counter that its fencing tokens come from.
    /// `redlock:fence:` if not set; the counter of `invoice:42` is then `redlock:fence:{invoice:42}`. All programs that take
    /// fenced locks must have the same, and it should hold no braces: they are what keeps a counter in the hash slot of
    /// its resource.
    pub fn fence_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        Arc::make_mut(&mut self.keys).fence_prefix = prefix.as_ref().into();
        self
    }

    /// How long the counter of a resource is kept after the last fenced lock on it has expired. 24 h if not set; a minute at
    /// least, and what is less counts as that. It has to be longer than anybody is paused who still means to write.
    ///
    /// It bounds what counters cost: some 160 bytes for each resource that was locked in that time. A counter that is gone
    /// begins anew with the server's time, which is beyond every number it has given out, unless clocks
    /// differ, or were set back, by more than that time.
    ///
    /// It also bounds how far a counter or a token may be ahead of the server's clock: further ahead it is an error, and the
    /// node has no vote. So the clocks of the servers must agree within this time.
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.keys).fence_retention = retention.max(Duration::from_secs(60));
        self
    }

    /// The runtime, for the builder of a `Redlock` over these nodes.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("runtime", &self.runtime)
            .field("key_prefix", &self.keys.prefix.escape_ascii().to_string())
            .field("connect_timeout", &self.connect_timeout.get())
            .field("reconnect_delay", &self.reconnect_delay)
            .field("fence_prefix", &self.keys.fence_prefix.escape_ascii().to_string())
            .field("fence_retention", &self.keys.fence_retention)
            .finish()
    }
}
