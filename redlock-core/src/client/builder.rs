//! The builder of a [`Redlock`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::handle::{Handle, Settings};
use crate::client::listed::listed;
use crate::client::redlock::Redlock;
use crate::decide::validity::DriftFactor;
use crate::node::LockNode;
use crate::runtime::Runtime;
use crate::telemetry;
use crate::types::error::Error;
use crate::types::owner::Owner;
use crate::types::ttl::Ttl;

/// A builder of a [`Redlock`] from nodes and settings.
///
/// It does no I/O, and it can be used outside a runtime.
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// # use std::time::Duration;
/// # use redlock_testkit::MemoryNode;
/// # use redlock_core::{Redlock, TokioRuntime};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
/// let redlock = Redlock::builder(TokioRuntime::new())
///     .node(MemoryNode::new("10.0.0.1:6379"))
///     .node_timeout(Duration::from_millis(100))
///     .owner("host-1:4242")
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    runtime: Arc<dyn Runtime>,
    nodes: Vec<Arc<dyn LockNode>>,
    /// `None` unless the nodes are changed.
    previous_nodes: Option<Vec<Arc<dyn LockNode>>>,
    node_timeout: Duration,
    retry_delay: Duration,
    max_concurrent_attempts: usize,
    local_queue: bool,
    drift_factor: f64,
    owner: Option<String>,
    compare_node_lists: bool,
    node_lists_must_agree: bool,
}

/// The default node timeout: 200 ms.
///
/// That is a hundred round trips within a data center, and two around the world. It is a fiftieth of 10 s, the most
/// frequent TTL. A node that takes longer votes too late to be useful.
const NODE_TIMEOUT: Duration = Duration::from_millis(200);

/// The default retry delay: 200 ms, as in the reference implementations.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The default limit of attempts in flight: 256.
///
/// It is as fast as any larger limit on five local servers. A process that handles 5,000 attempts a second reads the
/// reply to the last of them after 50 ms, a quarter of the node timeout.
const MAX_CONCURRENT_ATTEMPTS: usize = 256;

impl Builder {
    /// Creates a builder with a runtime and no nodes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redlock_core::Builder;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime};
    /// // The program uses the same runtime for other tasks.
    /// let runtime: Arc<dyn Runtime> = Arc::new(ThreadRuntime);
    /// let node = MemoryNode::new("10.0.0.1:6379");
    /// let redlock = Builder::new(Arc::clone(&runtime)).node(node).build()?;
    /// assert!(redlock.now() <= runtime.now());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let drift_factor = 0.01;
        Self {
            runtime,
            nodes: Vec::new(),
            previous_nodes: None,
            node_timeout: NODE_TIMEOUT,
            retry_delay: RETRY_DELAY,
            max_concurrent_attempts: MAX_CONCURRENT_ATTEMPTS,
            local_queue: true,
            drift_factor,
            owner: None,
            compare_node_lists: false,
            node_lists_must_agree: false,
        }
    }

    /// Adds a node.
    ///
    /// Every node must be an independent lock server: neither a replica of another node, nor a second name of one. Use
    /// an odd number of nodes: an even number tolerates no more failures than one node less. A single node is a lock
    /// without any fault tolerance.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// let redlock = Redlock::builder(TokioRuntime::new())
    ///     .node(MemoryNode::new("10.0.0.1:6379"))
    ///     .node(MemoryNode::new("10.0.0.2:6379"))
    ///     .node(MemoryNode::new("10.0.0.3:6379"))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn node(mut self, node: impl LockNode) -> Self {
        self.nodes.push(Arc::new(node));
        self
    }

    /// Adds several nodes, of the same type or of different types.
    ///
    /// Same as [`node`](Builder::node) for each of them, for nodes that are behind an `Arc` already.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use redlock_testkit::MemoryNode;
    /// use std::sync::Arc;
    ///
    /// use redlock_core::node::LockNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// let mut nodes: Vec<Arc<dyn LockNode>> = Vec::new();
    /// for label in ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"] {
    ///     nodes.push(Arc::new(MemoryNode::new(label)));
    /// }
    /// let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # Ok(()) }
    /// ```
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Arc<dyn LockNode>>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    /// Adds the nodes that were used before, during a change of the nodes.
    ///
    /// A lock then needs a quorum of the nodes **and** a quorum of the previous nodes. So does everything else that needs
    /// a quorum: extensions, releases, fencing tokens, inspections, notifications. Thus the nodes can be changed while
    /// locks are held, in three deployments:
    ///
    /// 1. All programs have the old list.
    /// 2. All programs have the new list as their nodes, and the old list as previous nodes.
    /// 3. All programs have the new list, without previous nodes.
    ///
    /// Programs of step 1 and step 2 exclude each other, and programs of step 2 and step 3 do. Those of step 1 and step 3
    /// do **not**: finish each deployment before the next one. See [Changing the nodes].
    ///
    /// The lists may have different lengths, and any nodes in common. Nodes with the same label are one node. It is in
    /// both lists, has one connection, and is the one that [`node`](Builder::node) or [`nodes`](Builder::nodes) added.
    /// The lists together have at most 64 nodes. The default is no previous nodes.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use redlock_testkit::MemoryNode;
    /// use std::sync::Arc;
    ///
    /// use redlock_core::node::LockNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// // Step 2: from one server to three.
    /// let old: Arc<dyn LockNode> = Arc::new(MemoryNode::new("10.0.0.1:6379"));
    /// let redlock = Redlock::builder(TokioRuntime::new())
    ///     .node(MemoryNode::new("10.0.0.1:6379"))
    ///     .node(MemoryNode::new("10.0.0.2:6379"))
    ///     .node(MemoryNode::new("10.0.0.3:6379"))
    ///     .previous_nodes([old])
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// [Changing the nodes]: https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#changing-the-nodes
    pub fn previous_nodes(mut self, nodes: impl IntoIterator<Item = Arc<dyn LockNode>>) -> Self {
        self.previous_nodes.get_or_insert_default().extend(nodes);
        self
    }

    /// Sets how long one node may take to reply.
    ///
    /// The default is 200 ms; the minimum is 1 ms, and the maximum 24 days. Each lock uses at most half of its TTL. Choose
    /// a value that is small compared to the TTL, and large compared to a round trip. A long timeout costs nothing while a
    /// quorum replies sooner.
    ///
    /// The timeout measures the nodes, not this process. After a pause of the process, it reads the replies that
    /// arrived in the pause before a node counts as silent. The timeout then takes longer. It also takes up to three
    /// times as long while the node replies to many other requests of this client, because a long queue in this process
    /// is not a failure of the node.
    ///
    /// Nodes with connections allow at least this time for one connection attempt.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
    /// # block_on(async {
    /// # let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
    /// # nodes[2].inject(Fault::hang());
    /// # let builder = Redlock::builder(ThreadRuntime).nodes(nodes.into_iter().map(Into::into));
    /// // All nodes are in the same data center, and one of them hangs.
    /// let redlock = builder.node_timeout(Duration::from_millis(20)).build()?;
    /// let health = redlock.health().await;
    /// assert_eq!(2, health.healthy_nodes());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Sets the longest delay between two attempts.
    ///
    /// The default is 200 ms. Each delay is random between half of this value and all of it, and at least 1 ms. A delay
    /// follows an attempt that failed because of the nodes. It also follows a denied attempt, if too few nodes can
    /// [notify](crate::node::Request::Watch) the waiter.
    ///
    /// While a quorum of nodes sends notifications, the next attempt starts at a notification. Otherwise it starts when
    /// the key expires according to the nodes, or after 5 s. If the [attempts](crate::LockRequest::max_attempts) are
    /// limited, it starts after the delay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Token, Ttl};
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let node = MemoryNode::new("a");
    /// # node.set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// # let builder = Redlock::builder(ThreadRuntime).node(node);
    /// # let ttl = Duration::from_secs(10);
    /// // The three attempts are 5 ms to 10 ms apart.
    /// let redlock = builder.retry_delay(Duration::from_millis(10)).build()?;
    /// let request = redlock.lock("orders:42", ttl).max_attempts(3);
    /// assert_eq!(ErrorKind::Contended, request.await.unwrap_err().kind());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Sets how many attempts may be in flight at once, on all nodes together.
    ///
    /// The default is 256; the minimum is 1. Further attempts wait until others are decided, and start in the order of
    /// their requests. Renewals by keep-alive have a separate limit of the same size, and no attempt starts while a
    /// renewal waits. Queries for the state of a lock that another client holds have a third limit of this size.
    ///
    /// Up to 256 times as many requests may wait, which is 65,536 by default. Further requests fail at once with
    /// [`Overloaded`](crate::ErrorKind::Overloaded). So does a request that is still waiting for its attempt when its
    /// [wait](crate::LockRequest::max_wait) is over.
    ///
    /// The limit prevents a burst of requests from delaying all replies past the node timeout. Over a slow network it
    /// limits the rate: with a round trip of 100 ms, 256 attempts in flight are 2,560 attempts a second.
    ///
    /// A request that is neither polled nor dropped stays in flight. If no attempt ends for two node timeouts, one more
    /// attempt starts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let builder = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a"));
    /// # let ttl = Duration::from_secs(10);
    /// // A batch job sends few requests at once, however many locks it needs.
    /// let redlock = builder.max_concurrent_attempts(4).build()?;
    /// let requests = (0..20).map(|id| redlock.lock(format!("orders:{id}"), ttl).into_future());
    /// let guards = futures_util::future::try_join_all(requests).await?;
    /// assert!(guards.iter().all(|guard| guard.is_held()));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn max_concurrent_attempts(mut self, max: usize) -> Self {
        self.max_concurrent_attempts = max;
        self
    }

    /// Sets whether tasks that share the [`Redlock`] queue for a resource.
    ///
    /// The default is `true`: first come, first served, and only one task at a time sends requests to the nodes.
    /// [`try_now`](crate::LockRequest::try_now) sends none while another task holds the lock or waits for it. Without the queue,
    /// tasks contend at the nodes like separate processes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{FakeNode, Operation, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let node = FakeNode::new("a", Arc::new(ThreadRuntime));
    /// # let builder = Redlock::builder(ThreadRuntime).node(node.clone());
    /// # let ttl = Duration::from_secs(10);
    /// // In a test, tasks contend at the nodes like separate processes.
    /// let redlock = builder.local_queue(false).build()?;
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// assert_eq!(2, node.request_count(Operation::Acquire));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn local_queue(mut self, on: bool) -> Self {
        self.local_queue = on;
        self
    }

    /// Sets how far the clocks of nodes and clients may drift apart.
    ///
    /// The value is a share of the TTL, from 0 to less than 1. The default is 0.01. 2 ms are always added, because
    /// servers count whole milliseconds. See "Safety arguments" in the [article].
    ///
    /// The default suffices if time services correct the clocks of nodes and clients by at most 500 ppm, as ntpd does.
    /// By default, chrony corrects clocks by up to 8.3 %. Limit that rate ([Clocks]), or raise the factor. Choose 0.1
    /// if clocks of nodes are corrected so fast, and 0.16 if clocks of clients are, too. No factor covers clock steps.
    ///
    /// Validity ends earlier by this share. The keys of a lock that is [kept](crate::Guard::keep_for) live longer by it,
    /// but by at most 500 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let builder = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a"));
    /// // The servers run chrony with its default settings, so their clocks may be fast by 8.3 %.
    /// let redlock = builder.clock_drift_factor(0.1).build()?;
    /// let guard = redlock.lock("orders:42", Duration::from_secs(10)).await?;
    /// // The validity is the TTL less 10 % and 2 ms.
    /// assert!(guard.remaining() <= Duration::from_millis(8998));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
    /// [Clocks]: https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#clocks
    pub fn clock_drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// Sets a human-readable owner label, for example a host and a process.
    ///
    /// The default is none. A label has 1 to 64 printable ASCII characters, except spaces, quotes (`"`, `'` and the
    /// backtick), backslashes and `#`.
    ///
    /// The label precedes the random part of every token (`host-1:4242#5f0c..`). Thus errors,
    /// [`inspect`](Redlock::inspect) and `redis-cli` show the holder of a lock. The label is not a secret, and it does
    /// not identify a client to the nodes: two processes may use the same label.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let builder = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a"));
    /// # let ttl = Duration::from_secs(10);
    /// let redlock = builder.owner("host-1:4242").build()?;
    /// let guard = redlock.lock("orders:42", ttl).await?;
    ///
    /// // Any other client can find out who holds the lock.
    /// let inspection = redlock.inspect("orders:42").await?;
    /// let holder = inspection.holder().expect("the lock is held");
    /// assert_eq!(Some("host-1:4242"), holder.owner());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn owner(mut self, label: impl Into<String>) -> Self {
        self.owner = Some(label.into());
        self
    }

    /// Compares this program's node list with those of other programs.
    ///
    /// Two programs with different lists can hold one lock at the same time. It happens with a typing error, during a
    /// deployment, or if a name resolves differently in another zone. A difference is logged as a warning, is in
    /// [`health`](Redlock::health), and sets the metric `redlock_node_lists_differ`. It is reported until all nodes have
    /// replied without it. Locks are granted as before, unless [lists must agree](Builder::node_lists_must_agree).
    ///
    /// Each program announces the identities of its servers on all of its nodes, in the keys `redlock:nodes`,
    /// `redlock:nodes:change` and `redlock:nodes:other` with the [prefix] of its locks. They are deleted by
    /// [`close`](Redlock::close) and when the last handle is dropped, and expire after 30 s. If lists must agree, they only
    /// expire, because other programs may rely on them. The comparison begins with the first lock, and is repeated every
    /// ten seconds and when a server reports another announcement. It costs four requests to each node in ten seconds, and
    /// nothing for a lock.
    ///
    /// A difference goes unnoticed in these cases:
    ///
    /// - No node is in both lists, or none that both programs reach.
    /// - The nodes do not support [`Inspect`](crate::node::Request::Inspect), or reject the requests, which is logged.
    /// - Servers do not state an [identity](crate::node::ServerId), and the lists have the same length.
    ///
    /// A server that was restarted counts as another server. Therefore an announcement shows a difference only if it was
    /// made or renewed after this program first saw its present servers. A program that has just started notices a
    /// difference about a second later, and without notifications up to 11 s later. Lists of different lengths are
    /// noticed at once. If the clock of a server is set back after a program was killed, a restart may be reported as a
    /// difference, until the announcement of that program has expired.
    ///
    /// The default is `false`. The builders of the adapters switch it on.
    ///
    /// ```
    /// # redlock_testkit::example!(|service, ttl| {
    /// # let nodes = fake_nodes(5, service.runtime());
    /// let redlock_over = |nodes: &[FakeNode]| {
    ///     let builder = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into));
    ///     builder.compare_node_lists(true).build()
    /// };
    /// let (one, two) = (redlock_over(&nodes[..3])?, redlock_over(&nodes[2..])?);
    /// let _both = (one.lock("report", ttl).await?, two.lock("report", ttl).await?);
    /// # service.sleep(Duration::from_secs(11)).await; // the lists are announced again
    ///
    /// let health = two.health().await;
    /// let difference = health.node_list_difference().expect("the lists differ");
    /// assert_eq!("this program lists 3 nodes, another lists 3, 1 in common", difference.to_string());
    /// # });
    /// ```
    ///
    /// [prefix]: https://docs.rs/redlock-wire/latest/redlock_wire/struct.Options.html#method.key_prefix
    pub fn compare_node_lists(mut self, on: bool) -> Self {
        self.compare_node_lists = on;
        self
    }

    /// Sets whether votes count only while the node lists of programs agree.
    ///
    /// Then two programs with different lists never hold one lock at the same time, if they have a node in common that
    /// both reach. The program that was first continues. A program with another list gets no lock, as soon as it starts:
    /// the votes of all its nodes do not count, for the reason `another program lists other nodes`. Programs in
    /// neighbouring steps of a [change of the nodes](Builder::previous_nodes) agree. If no node is in both lists of a change,
    /// a running program with both lists keeps the programs with one of them apart, unless they start within ten seconds.
    /// Set it in all programs. It implies [`compare_node_lists`](Builder::compare_node_lists), which states the requirements
    /// of the comparison.
    ///
    /// The default is `false`, because the setting has these costs:
    ///
    /// - The first request takes four more round trips, and up to ten if announcements are replaced: lists are compared
    ///   first.
    /// - Nodes that reject the comparison have no votes, and neither have those whose servers do not state an
    ///   [identity](crate::node::ServerId).
    /// - After the last program with another list has ended, a program gets no lock for up to 45 s, because
    ///   announcements expire after 30 s. It does not wait for locks with a longer TTL that were not released.
    /// - If all programs have ended and a server was restarted, the next program gets no lock for up to 45 s, too.
    ///
    /// A program notices nothing on a node that it does not reach. If another program has announced its list there
    /// meanwhile, for example after 30 s without a connection, this program gets no more lock once it reaches the node.
    ///
    /// ```
    /// # redlock_testkit::example!(|service, ttl| {
    /// # let nodes = fake_nodes(5, service.runtime());
    /// let redlock_over = |nodes: &[FakeNode]| {
    ///     let builder = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into));
    ///     builder.node_lists_must_agree(true).build()
    /// };
    /// let (one, two) = (redlock_over(&nodes[..3])?, redlock_over(&nodes[2..])?);
    /// let _held = one.lock("report", ttl).await?;
    /// let error = two.lock("report", ttl).max_attempts(1).await.unwrap_err();
    /// let quarantine = error.node_reports()[0].quarantine().expect("no vote");
    /// assert_eq!(QuarantineReason::OtherNodeList, quarantine.reason);
    /// # });
    /// ```
    pub fn node_lists_must_agree(mut self, must: bool) -> Self {
        self.node_lists_must_agree = must;
        self
    }

    /// Validates the settings and builds the [`Redlock`].
    ///
    /// It does not connect: each node connects when it is first used.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use redlock_core::{ErrorKind, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// let error = Redlock::builder(TokioRuntime::new()).build().unwrap_err();
    /// assert_eq!(ErrorKind::InvalidInput, error.kind());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) in each of these cases:
    ///
    /// - There are no nodes.
    /// - Two nodes have the same label, because one server is listed twice; or two previous nodes have.
    /// - The list of previous nodes is given, and empty; or the lists together have more than 64 nodes.
    /// - A label contains a control character.
    /// - The node timeout, the number of attempts, the clock drift factor or the owner label is out of bounds.
    pub fn build(self) -> Result<Redlock, Error> {
        let (nodes, quorums) = listed(self.nodes, self.previous_nodes)?;
        let (timeout, longest) = (self.node_timeout, Ttl::MAX.as_duration());
        if timeout < Duration::from_millis(1) {
            let message = format!("a node timeout of {timeout:?} is too short; the minimum is 1 ms");
            return Err(Error::invalid(message));
        }
        if timeout > longest {
            let message = format!("a node timeout of {timeout:?} is too long; the maximum is 24 days");
            return Err(Error::invalid(message));
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
            compare_node_lists: self.compare_node_lists,
            node_lists_must_agree: self.node_lists_must_agree,
        };
        for node in &nodes {
            node.set_node_timeout(self.node_timeout);
            node.set_clock_drift_factor(self.drift_factor);
        }
        telemetry::built();
        Ok(Redlock::new(Arc::new(Handle::new(nodes, quorums, self.runtime, settings))))
    }
}

impl Redlock {
    /// Creates a builder for custom nodes.
    ///
    /// An adapter crate has its own `builder`, which takes addresses.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// let redlock = Redlock::builder(TokioRuntime::new())
    ///     .node(MemoryNode::new("10.0.0.1:6379"))
    ///     .node(MemoryNode::new("10.0.0.2:6379"))
    ///     .node(MemoryNode::new("10.0.0.3:6379"))
    ///     .node_timeout(Duration::from_millis(100))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(runtime: impl Runtime) -> Builder {
        Builder::new(Arc::new(runtime))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = self.nodes.iter().map(|node| node.label()).collect();
        let previous = self.previous_nodes.iter().flatten().map(|node| node.label());
        let mut debug = f.debug_struct("Builder");
        debug.field("nodes", &labels);
        if self.previous_nodes.is_some() {
            debug.field("previous_nodes", &previous.collect::<Vec<_>>());
        }
        debug.finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Builder>();
};
