//! From nodes and settings to a [`Redlock`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decide::validity::DriftFactor;
use crate::error::Error;
use crate::node::LockNode;
use crate::owner::Owner;
use crate::redlock::Redlock;
use crate::runtime::Runtime;
use crate::shared::{Presence, Settings, Shared};

/// Collects nodes and settings, and checks them. Does no I/O and needs no runtime around it.
#[derive(Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    runtime: Arc<dyn Runtime>,
    nodes: Vec<Arc<dyn LockNode>>,
    node_timeout: Duration,
    retry_delay: Duration,
    max_concurrent_attempts: usize,
    local_queue: bool,
    drift_factor: f64,
    owner: Option<String>,
}

/// 200 ms: a hundred round trips within a data centre and two around the world, and a fiftieth of the 10 s TTL that most
/// locks have. A node that takes longer votes too late to be of use.
const NODE_TIMEOUT: Duration = Duration::from_millis(200);

/// 200 ms: what the reference implementations have.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// 256: as fast as any larger number on five local servers, and a process that handles 5,000 attempts a second reads the
/// reply to the last of them after 50 ms, a quarter of the node timeout.
const MAX_CONCURRENT_ATTEMPTS: usize = 256;

impl Builder {
    /// Starts with a runtime and no nodes.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let drift_factor = 0.01;
        Self {
            runtime,
            nodes: Vec::new(),
            node_timeout: NODE_TIMEOUT,
            retry_delay: RETRY_DELAY,
            max_concurrent_attempts: MAX_CONCURRENT_ATTEMPTS,
            local_queue: true,
            drift_factor,
            owner: None,
        }
    }

    /// Adds a node. Nodes are independent lock servers: never a replica of another, never two names of one.
    ///
    /// An odd number is best: an even number tolerates no more failures than one node less. One node is the
    /// single-instance lock, with no tolerance at all.
    pub fn node(mut self, node: Arc<dyn LockNode>) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds several nodes.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Arc<dyn LockNode>>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    /// How long one node may take to answer: small against the TTL, and generous against the round trip. 200 ms if not
    /// set; 1 ms at least. Never more than half of the TTL in question.
    ///
    /// It measures the nodes: if this process did not run for a while, replies that arrived meanwhile are read before a node
    /// counts as silent, which then takes longer.
    ///
    /// It costs nothing while a quorum answers sooner. Nodes that connect allow an attempt to connect at least this long.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// The longest delay between two attempts, after nodes that failed, or at a lock that someone else has where too few
    /// nodes can [tell](crate::LockNode::watch) when it may be free. Each is random between half of it and the whole, and
    /// at least 1 ms. 200 ms if not set.
    ///
    /// While a quorum of nodes tells, an attempt is made when they do, when the key expires by what they said, or after 5 s;
    /// after the delay, where [attempts](crate::LockRequest::attempts) are counted.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Sets how many attempts at locks may be in flight at once, on all nodes together: further ones wait until others are
    /// decided, in the order in which they came. Renewals by keep-alive have as many places of their own, and while one of
    /// them waits no attempt begins. The default is 256; the minimum is 1.
    ///
    /// For each of them 256 requests may wait, 65,536 by default; further ones fail at once with
    /// [`Overloaded`](crate::ErrorKind::Overloaded).
    ///
    /// The bound keeps a burst of requests from delaying the replies to all of them beyond the node timeout. A request that
    /// has no place when its [wait](crate::LockRequest::wait) is over fails with
    /// [`Overloaded`](crate::ErrorKind::Overloaded). A request that is not polled any more, and is not dropped, occupies its place
    /// until it is; if none is given back for two node timeouts, one more attempt begins. Over a slow network the bound limits the rate: with a round trip of
    /// 100 ms, 256 attempts in flight are 2,560 attempts a second.
    pub fn max_concurrent_attempts(mut self, max: usize) -> Self {
        self.max_concurrent_attempts = max;
        self
    }

    /// Whether tasks that share the [`Redlock`] queue among themselves for a resource: on, if not set. First come, first
    /// served, and only one of them at a time asks the nodes; [`try_lock`](Redlock::try_lock) asks none while another task
    /// has the lock or waits for it.
    ///
    /// Without it, tasks contend at the nodes like strangers.
    pub fn local_queue(mut self, on: bool) -> Self {
        self.local_queue = on;
        self
    }

    /// How far the clocks of nodes and clients may run apart, as a share of the TTL: 0.01 if not set, which is 20 times
    /// what clocks disciplined by NTP are off. From 0 to less than 1. 2 ms are added in any case, since servers count whole
    /// milliseconds: the rule is that of the [article], "Safety arguments".
    ///
    /// [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
    pub fn clock_drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// Who locks, for people: a host and a process, say. The label precedes the random part of every token
    /// (`host-1:4242#5f0c..`), so that errors, [`inspect`](Redlock::inspect) and `redis-cli` show who holds a lock. None
    /// if not set.
    ///
    /// 1 to 64 printable ASCII characters, but spaces, quotes (`"`, `'` and the backtick), backslashes and `#`. It is no
    /// secret, and identifies nobody to the nodes: two processes may have the same.
    pub fn owner(mut self, label: impl Into<String>) -> Self {
        self.owner = Some(label.into());
        self
    }

    /// Checks nodes and settings. Connects to nothing: nodes connect when they are first used.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) without nodes, with two nodes of the same label (one server listed twice),
    /// with a control character in a label, or with a node timeout, a number of attempts, a clock drift factor or an owner's
    /// label out of its bounds.
    pub fn build(self) -> Result<Redlock, Error> {
        if self.nodes.is_empty() {
            return Err(Error::invalid("no nodes were given; a lock needs at least one"));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.label().contains(char::is_control) {
                let label = node.label();
                return Err(Error::invalid(format!(
                    "the label {label:?} of node {index} has a control character"
                )));
            }
            if let Some(first) = self.nodes[..index].iter().position(|other| other.label() == node.label()) {
                let label = node.label();
                return Err(Error::invalid(format!(
                    "nodes {first} and {index} are the same server: {label}"
                )));
            }
        }
        if self.node_timeout < Duration::from_millis(1) {
            let timeout = self.node_timeout;
            return Err(Error::invalid(format!(
                "a node timeout of {timeout:?} is too short; the minimum is 1 ms"
            )));
        }
        if self.max_concurrent_attempts == 0 {
            return Err(Error::invalid("max_concurrent_attempts is 0; the minimum is 1"));
        }
        let settings = Settings {
            node_timeout: self.node_timeout,
            retry_delay: self.retry_delay,
            max_concurrent_attempts: self.max_concurrent_attempts,
            local_queue: self.local_queue,
            drift: DriftFactor::new(self.drift_factor)?,
            owner: self.owner.as_deref().map(Owner::new).transpose()?,
        };
        self.nodes.iter().for_each(|node| node.set_node_timeout(self.node_timeout));
        Ok(Redlock::new(Presence(Arc::new(Shared::new(self.nodes, self.runtime, settings)))))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = self.nodes.iter().map(|node| node.label()).collect();
        f.debug_struct("Builder").field("nodes", &labels).finish_non_exhaustive()
    }
}
