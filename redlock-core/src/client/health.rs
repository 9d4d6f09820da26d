//! Health checks of the nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use crate::client::handle::Handle;
use crate::decide::quorums::Members;
use crate::decide::tally::Tally;
use crate::node::{Quarantine, Status};
use crate::round;
use crate::round::engine::run;
use crate::round::nodes::Nodes;
use crate::runtime::both;
use crate::types::claim::Claim;
use crate::types::clock_rate::ClockRate;
use crate::types::node_list::NodeListDifference;
use crate::types::report::{NodeReport, Outcome};
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;

/// The prefix of the names of health checks.
///
/// A key that is left behind expires after 10 ms.
const PROBE: &[u8] = b"redlock-health-";

/// The result of a health check.
#[derive(Clone, Debug)]
pub struct Health {
    nodes: Vec<NodeHealth>,
    list: ListHealth,
    previous: Option<ListHealth>,
    node_lists: Option<NodeListDifference>,
    drift_factor: f64,
}

/// The result of a health check for one node.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    report: NodeReport,
    clock_rate: Option<ClockRate>,
    /// True if the clock runs faster than the drift factor permits.
    is_clock_fast: bool,
    /// True if the lists of programs are compared on this node. `None` if the comparison is switched off.
    is_list_compared: Option<bool>,
    longer_ttl: Option<Duration>,
}

/// The result of a health check for one list of nodes.
///
/// Returned by [`Health::previous_nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListHealth {
    len: usize,
    up: usize,
    quorum: usize,
}

impl ListHealth {
    /// Returns the number of nodes in the list.
    ///
    /// ```
    /// # use redlock_core::ListHealth;
    /// fn failed(list: ListHealth) -> usize {
    ///     list.node_count() - list.healthy_nodes()
    /// }
    /// ```
    pub fn node_count(self) -> usize {
        self.len
    }

    /// Returns the number of independent servers in the list that are healthy.
    ///
    /// ```
    /// # use redlock_core::ListHealth;
    /// fn may_stop_a_server(list: ListHealth) -> bool {
    ///     list.healthy_nodes() > list.quorum()
    /// }
    /// ```
    pub fn healthy_nodes(self) -> usize {
        self.up
    }

    /// Returns the number of nodes of the list that must grant a lock.
    ///
    /// ```
    /// # use redlock_core::ListHealth;
    /// fn tolerated(list: ListHealth) -> usize {
    ///     list.node_count() - list.quorum()
    /// }
    /// ```
    pub fn quorum(self) -> usize {
        self.quorum
    }

    /// Returns whether enough nodes of the list could vote to grant a lock.
    ///
    /// ```
    /// # use redlock_core::ListHealth;
    /// fn state(list: ListHealth) -> &'static str {
    ///     if list.is_available() { "available" } else { "unavailable" }
    /// }
    /// ```
    pub fn is_available(self) -> bool {
        self.up >= self.quorum
    }
}

impl Health {
    /// Returns whether enough nodes could vote to grant a lock.
    ///
    /// During a [change of the nodes](crate::Builder::previous_nodes), both lists need enough of them.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[2].crash();
    /// // This is the readiness check of a service that needs locks.
    /// let health = redlock.health().await;
    /// let status = if health.is_available() { 200 } else { 503 };
    /// assert_eq!(200, status);
    /// # });
    /// ```
    pub fn is_available(&self) -> bool {
        self.list.is_available() && self.previous.is_none_or(ListHealth::is_available)
    }

    /// Returns the result for the previous nodes, during a [change of the nodes](crate::Builder::previous_nodes).
    ///
    /// ```
    /// # redlock_testkit::example!(|service, ttl| {
    /// # let nodes = fake_nodes(5, service.runtime());
    /// # let nodes: Vec<Arc<dyn redlock_core::node::LockNode>> =
    /// #     nodes.iter().cloned().map(Into::into).collect();
    /// let builder = Redlock::builder(service).nodes(nodes[..3].to_vec());
    /// let redlock = builder.previous_nodes(nodes[2..].to_vec()).build()?;
    /// let previous = redlock.health().await.previous_nodes().expect("two lists");
    /// assert_eq!((3, 2), (previous.healthy_nodes(), previous.quorum()));
    /// # });
    /// ```
    pub fn previous_nodes(&self) -> Option<ListHealth> {
        self.previous
    }

    /// Returns the results of all nodes, in configured order.
    ///
    /// Previous nodes that are not in the list of nodes come last.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[2].crash();
    /// let health = redlock.health().await;
    /// let failed: Vec<_> =
    ///     health.nodes().iter().filter(|node| !node.is_healthy()).collect();
    /// assert_eq!(1, failed.len());
    /// println!("check this server: {}", failed[0]);
    /// # });
    /// ```
    pub fn nodes(&self) -> &[NodeHealth] {
        &self.nodes
    }

    /// Returns the number of independent servers that are healthy.
    ///
    /// It does not count [previous nodes](Health::previous_nodes).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[2].crash();
    /// let health = redlock.health().await;
    /// assert_eq!(2, health.healthy_nodes());
    /// let reserve = health.healthy_nodes().saturating_sub(health.quorum());
    /// assert_eq!(0, reserve, "no further server may fail");
    /// # });
    /// ```
    pub fn healthy_nodes(&self) -> usize {
        self.list.up
    }

    /// Returns the number of nodes that must grant a lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// let health = redlock.health().await;
    /// let tolerated = health.nodes().len() - health.quorum();
    /// assert_eq!(1, tolerated, "one of three servers may fail");
    /// # });
    /// ```
    pub fn quorum(&self) -> usize {
        self.list.quorum
    }

    /// Returns how the node list of another program differs, if one does and lists are
    /// [compared](crate::Builder::compare_node_lists).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let health = redlock.health().await;
    /// if let Some(difference) = health.node_list_difference() {
    ///     panic!("two programs can hold one lock: {difference}");
    /// }
    /// # });
    /// ```
    pub fn node_list_difference(&self) -> Option<&NodeListDifference> {
        self.node_lists.as_ref()
    }

    /// Returns the [clock drift factor](crate::Builder::clock_drift_factor) in use.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let factor = redlock.health().await.clock_drift_factor();
    /// println!("a lease is valid for {:.1} % of its TTL", (1.0 - factor) * 100.0);
    /// # assert_eq!(0.01, factor);
    /// # });
    /// ```
    pub fn clock_drift_factor(&self) -> f64 {
        self.drift_factor
    }
}

impl NodeHealth {
    /// Returns the node's position in the configuration, from 0.
    ///
    /// ```
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// let addresses = ["10.0.0.1:6379", "10.0.0.2:6379"];
    /// # let nodes = addresses.map(|address| MemoryNode::new(address).into());
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes).build()?;
    /// for node in redlock.health().await.nodes() {
    ///     assert_eq!(addresses[node.index()], node.label());
    /// }
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn index(&self) -> usize {
        self.report.index()
    }

    /// Returns the node's label, such as `10.0.0.1:6379`.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[1].crash();
    /// let health = redlock.health().await;
    /// let mut failed = health.nodes().iter().filter(|node| !node.is_healthy());
    /// assert_eq!(Some("fake-1"), failed.next().map(|node| node.label()));
    /// # });
    /// ```
    pub fn label(&self) -> &str {
        self.report.label()
    }

    /// Returns whether the node could vote.
    ///
    /// A healthy node replied to the request for a lock, and to its release. It is not in
    /// [quarantine](NodeHealth::quarantine).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// // The server is full: it accepts connections, and no writes.
    /// nodes[1].inject(Fault::reject());
    /// let health = redlock.health().await;
    /// assert!(!health.nodes()[1].is_healthy());
    /// assert!(health.is_available(), "the other two are a quorum");
    /// # });
    /// ```
    pub fn is_healthy(&self) -> bool {
        matches!(self.report.outcome(), Outcome::Denied(_) | Outcome::Granted)
    }

    /// Returns the quarantine of the node: the reason why its votes do not count, and the time left.
    ///
    /// The node may have lost locks, or [lists must agree](crate::Builder::node_lists_must_agree) and another program lists
    /// other nodes. Such a node is not [healthy](NodeHealth::is_healthy).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node| {
    /// # node.set_longest_ttl(Duration::from_secs(10));
    /// // The server was flushed, so it may have lost locks.
    /// node.flush();
    /// let health = redlock.health().await;
    /// let quarantine = health.nodes()[0].quarantine().expect("the data is lost");
    /// assert_eq!(QuarantineReason::DataLost, quarantine.reason);
    /// # });
    /// ```
    pub fn quarantine(&self) -> Option<&Quarantine> {
        self.report.quarantine()
    }

    /// Returns the longest TTL that the server keeps for another program, if it is longer than this program states.
    ///
    /// It applies to the [quarantines](NodeHealth::quarantine) of this node, even if no program states it any more. The
    /// guide describes how to lower it. `None` if no other program has stated a longer one, and for backends without
    /// restart admission.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// for node in redlock.health().await.nodes() {
    ///     if let Some(longer) = node.longer_ttl() {
    ///         println!("{}: quarantines as for locks of {longer:?}", node.label());
    ///     }
    /// }
    /// # });
    /// ```
    pub fn longer_ttl(&self) -> Option<Duration> {
        self.longer_ttl
    }

    /// Returns how long the reply took, or how long the check waited for it.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// // One server is farther away than the others.
    /// nodes[2].inject(Fault::delay(Duration::from_millis(20)));
    /// let health = redlock.health().await;
    /// let slowest = health.nodes().iter().max_by_key(|node| node.latency());
    /// assert_eq!(Some("fake-2"), slowest.map(|node| node.label()));
    /// # });
    /// ```
    pub fn latency(&self) -> Duration {
        self.report.latency()
    }

    /// Returns the measured rate of the node's clock.
    ///
    /// `None` if it is not known: the node has been connected for a few seconds only, the server does not permit `TIME`,
    /// or the backend does not measure it. The nodes of the adapters read the clock every five seconds, and every second
    /// with a longest TTL. The rate is the [fastest](crate::node::ClockMeter::record) one of about the last minute.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// for node in redlock.health().await.nodes() {
    ///     match node.clock_rate() {
    ///         Some(rate) => println!("{}: {} ± {} ppm", node.label(), rate.ppm, rate.error_ppm),
    ///         None => println!("{}: clock not measured", node.label()),
    ///     }
    /// }
    /// # });
    /// ```
    pub fn clock_rate(&self) -> Option<ClockRate> {
        self.clock_rate
    }

    /// Returns whether the node's clock certainly runs faster than the [drift factor](Health::clock_drift_factor)
    /// permits, or has stepped forward.
    ///
    /// Keys then expire before the validity of their leases ends. With a longest TTL, such a node is in
    /// [quarantine](NodeHealth::quarantine). Without one, it is [healthy](NodeHealth::is_healthy): its votes count, and two
    /// clients can hold the same lock. Once the clock is right again, this returns `true` for
    /// about another minute.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let health = redlock.health().await;
    /// let mut fast = health.nodes().iter().filter(|node| node.is_clock_fast());
    /// assert!(fast.next().is_none(), "limit how fast NTP corrects the clock");
    /// # });
    /// ```
    pub fn is_clock_fast(&self) -> bool {
        self.is_clock_fast
    }

    /// Returns whether the [node lists](crate::Builder::compare_node_lists) of programs are compared on this node.
    ///
    /// `false` if the comparison is off, the node has not replied or rejects the requests, or its server does not state its
    /// identity. Servers of the adapters state it only to users with the right to run `INFO`. If lists [must
    /// agree](crate::Builder::node_lists_must_agree), such a node has no vote. Otherwise a difference may go unnoticed.
    ///
    /// ```
    /// # redlock_testkit::example!(|service, ttl| {
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let nodes = nodes.iter().cloned().map(Into::into);
    /// let redlock = Redlock::builder(service).nodes(nodes).compare_node_lists(true).build()?;
    /// let health = redlock.health().await;
    /// assert!(health.nodes().iter().all(|node| node.is_node_list_compared()));
    /// # });
    /// ```
    pub fn is_node_list_compared(&self) -> bool {
        self.is_list_compared == Some(true)
    }

    /// Returns the first node that is the same server, as index and label.
    ///
    /// The two nodes have one vote together.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// // At startup, the program rejects two addresses of one server.
    /// let health = redlock.health().await;
    /// let mut others = health.nodes().iter().map(|node| node.same_server_as());
    /// assert!(others.all(|other| other.is_none()), "two nodes are one server");
    /// # });
    /// ```
    pub fn same_server_as(&self) -> Option<(usize, &str)> {
        self.report.same_server_as()
    }
}

/// Formats a line with the numbers, and then a line for each node.
///
/// ```text
/// available: 2 of 3 nodes healthy, 2 required
///   node 0 (10.0.0.1:6379): healthy, replied after 0.2ms
///   node 1 (10.0.0.2:6379): healthy, replied after 0.3ms
///   node 2 (10.0.0.3:6379): connection refused (after 0.1ms)
/// ```
///
/// The line of a node ends with the rate of its clock, if it is known. `keeps a longest TTL of 300s of another program`
/// follows if there is a [longer TTL](NodeHealth::longer_ttl), and `node list not compared` if a healthy node does not
/// permit the [comparison](NodeHealth::is_node_list_compared).
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_available() { "available" } else { "unavailable" };
        let ListHealth { len, up, quorum } = self.list;
        write!(f, "{state}: {up} of {len} nodes healthy, {quorum} required")?;
        if let Some(ListHealth { len, up, quorum }) = self.previous {
            write!(f, "; {up} of {len} previous nodes healthy, {quorum} required")?;
        }
        self.nodes.iter().try_for_each(|node| write!(f, "\n  {node}"))?;
        match &self.node_lists {
            Some(difference) => write!(f, "\n  node lists differ between programs: {difference}"),
            None => Ok(()),
        }
    }
}

/// Formats as `node 2 (10.0.0.3:6379): healthy, replied after 0.2ms, clock 12 ppm fast (± 9 ppm, over 60s)`.
impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, label, latency) = (self.index(), self.label(), self.latency());
        match (self.same_server_as(), self.quarantine()) {
            (None, Some(quarantine)) => {
                write!(f, "node {index} ({label}): replied after {latency:.1?}, not counted: {quarantine}")?;
            }
            (None, None) if self.is_healthy() => {
                write!(f, "node {index} ({label}): healthy, replied after {latency:.1?}")?;
            }
            _ => self.report.fmt(f)?,
        }
        match self.clock_rate {
            Some(rate) if self.is_clock_fast => write!(f, ", {rate}: faster than the drift factor permits")?,
            Some(rate) => write!(f, ", {rate}")?,
            None => {}
        }
        if let Some(longer) = self.longer_ttl {
            write!(f, ", keeps a longest TTL of {longer:?} of another program")?;
        }
        if self.is_healthy() && self.is_list_compared == Some(false) {
            f.write_str(", node list not compared")?;
        }
        Ok(())
    }
}

pub(crate) async fn health(handle: &Handle) -> Health {
    let nodes: &Arc<Nodes> = handle;
    if handle.node_lists_must_agree() {
        handle.compare_node_lists().await;
    }
    let token = Token::random(|bytes| nodes.runtime.fill_random(bytes), None);
    let name = [PROBE, token.as_bytes()].concat();
    let resources = Resource::new(name).and_then(|name| Resources::new([name])).expect("one short name");
    let (start, limit) = (nodes.now(), nodes.rules.node_timeout);
    let round = round::health::Health::new(nodes.rules, Claim::new(resources, token), start);
    let comparison = async {
        match &handle.node_lists {
            Some(lists) => Some(lists.look(nodes).await),
            None => None,
        }
    };
    let (votes, looked) = both(run(nodes, round, start, limit, Span::none()), comparison).await;
    let reports = votes.reports(nodes.now(), |node| nodes.label(node));
    let drift_factor = handle.rules.drift.get();
    let with_status = |report: NodeReport| {
        let Status { clock_rate, longer_ttl, .. } = handle.peers[report.index()].node.status();
        let is_clock_fast = clock_rate.is_some_and(|rate| rate.exceeds(drift_factor));
        let is_list_compared = looked.as_ref().map(|(_, compared)| compared[report.index()]);
        NodeHealth { report, clock_rate, is_clock_fast, is_list_compared, longer_ttl }
    };
    let nodes = reports.into_iter().map(with_status).collect();
    let node_lists = looked.as_ref().and_then(|(difference, _)| *difference);
    let of = |(list, tally): (Members, Tally)| ListHealth {
        len: list.len(),
        up: tally.replies(),
        quorum: list.quorum(),
    };
    let (current, mut lists) = (votes.quorums.current(), votes.tallies().map(of));
    let list = lists.next().unwrap_or(ListHealth { len: current.len(), up: 0, quorum: current.quorum() });
    Health { nodes, list, previous: lists.next(), node_lists, drift_factor }
}
