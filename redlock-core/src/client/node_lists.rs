//! The comparison of this program's node list with those of other programs, in the background.
//!
//! A task compares the lists when the first lock is requested, then every ten seconds. It compares at once when a server
//! reports another announcement, and soon after a node has another connection: a server that was restarted is another
//! server. It compares again soon if a list seems to differ, until the other program has renewed its announcement or the
//! announcement is gone. After a new difference, it does so once, so that the other program sees a renewal. The task ends
//! with the last handle or `close`, and then retracts the announcement.
//!
//! If the lists [must agree](crate::decide::agreement), the first request waits for the first comparison. A program that is
//! blocked compares every second. The task continues after `close`, because guards may be held, and the announcement
//! stays until it expires: other programs with the same list rely on it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::{Event, EventListener};
use tracing::Span;

use crate::decide::agreement::Agreement;
use crate::decide::announcements::{Announced, Finding, Place, Servers};
use crate::decide::observation::Seen;
use crate::decide::quorums::Quorums;
use crate::round::compare::{Compare, Compared, Retract, Seen as NodeSeen, name};
use crate::round::engine::run;
use crate::round::nodes::Nodes;
use crate::runtime::{Alarm, both, first, sleep_until_or};
use crate::sync::{Mutex, locked};
use crate::telemetry;
use crate::types::node_list::NodeListDifference;
use crate::types::owner::Owner;
use crate::types::token::Token;
use crate::watch::node_watch::NodeWatch;
use crate::watch::watches::Watches;

/// The time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two comparisons, so that a node that changes all the time causes no loop.
const PAUSE: Duration = Duration::from_millis(500);

/// The time between two comparisons of a program whose votes do not count because another program lists other nodes.
const INTERVAL_IF_BLOCKED: Duration = Duration::from_secs(1);

/// The time in which a program that runs has renewed its announcement.
const RENEWAL: Duration = Duration::from_secs(12);

/// The longest time until a new connection is noticed.
const LOOK: Duration = Duration::from_millis(250);

/// The state of the comparison.
pub(crate) struct NodeLists {
    runs: AtomicBool,
    servers: Mutex<Servers>,
    /// Used if votes count without an agreement.
    agreement: Mutex<Agreement>,
    /// The last difference that was found, until a complete comparison finds none.
    difference: Mutex<Option<NodeListDifference>>,
    /// The announcements of this program, once it has made them: its own, and that for programs with other lists.
    announced: Mutex<Option<[Token; 2]>>,
    /// True once missing rights were logged.
    rejected: AtomicBool,
    /// True once the lists were compared by the task.
    compared: AtomicBool,
    /// Notified at each comparison of the task, and when the task ends.
    changed: Event,
    ended: Event,
}

/// Resets `runs` when the task ends, also if its runtime drops it.
struct Running(Arc<NodeLists>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Relaxed);
        self.0.changed.notify(usize::MAX);
    }
}

impl NodeLists {
    pub(crate) fn new(quorums: Quorums, must_agree: bool, owner: Option<Owner>) -> Self {
        Self {
            runs: AtomicBool::new(false),
            servers: Mutex::new(Servers::new(quorums, must_agree, owner)),
            agreement: Mutex::new(Agreement::new(quorums.nodes())),
            difference: Mutex::default(),
            announced: Mutex::default(),
            rejected: AtomicBool::new(false),
            compared: AtomicBool::new(false),
            changed: Event::new(),
            ended: Event::new(),
        }
    }

    /// Starts the task, unless it runs.
    pub(crate) fn start(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        if self.runs.load(Ordering::Relaxed) || self.runs.swap(true, Ordering::Relaxed) {
            return;
        }
        let (running, nodes) = (Running(Arc::clone(self)), Arc::clone(nodes));
        nodes.runtime.clone().spawn(Box::pin(async move { running.0.keep(&nodes).await }));
    }

    /// Returns whether votes count only after a comparison, and there was none.
    pub(crate) fn is_awaited(&self, nodes: &Nodes) -> bool {
        nodes.agreement.is_some() && !self.compared.load(Ordering::Relaxed)
    }

    /// Waits for the first comparison, or until the client is closed.
    ///
    /// The runtime of the task may drop it meanwhile. Then the task starts again, in the runtime of this call.
    pub(crate) async fn first(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        let mut closing = nodes.listen_for_closing();
        loop {
            let changed = self.changed.listen();
            if !self.is_awaited(nodes) || nodes.is_closed() {
                return;
            }
            self.start(nodes);
            if !self.runs.load(Ordering::Relaxed) {
                // There is no runtime to run it.
                return;
            }
            first(changed, &mut closing).await;
        }
    }

    /// Ends the task.
    pub(crate) fn end(&self) {
        self.ended.notify(usize::MAX);
    }

    /// Compares the lists now, and announces nothing. Returns the difference, if there is one, and for each node whether
    /// lists are compared on it.
    ///
    /// If a list seems to differ, and no task compares, this waits for the next announcement of the other program.
    pub(crate) async fn look(&self, nodes: &Arc<Nodes>) -> (Option<NodeListDifference>, Vec<bool>) {
        let end = nodes.now() + RENEWAL;
        loop {
            let compared = self.compare(nodes, true).await;
            let difference = *locked(&self.difference);
            let is_open = difference.is_none() && compared.finding == Finding::Unconfirmed;
            if !is_open || self.runs.load(Ordering::Relaxed) || nodes.now() >= end {
                return (difference, compared.nodes.iter().map(NodeSeen::is_compared).collect());
            }
            nodes.runtime.sleep(PAUSE).await;
        }
    }

    pub(super) async fn compare(&self, nodes: &Arc<Nodes>, read_only: bool) -> Compared {
        let (servers, start) = (locked(&self.servers).clone(), nodes.now());
        let agreement = nodes.agreement.as_ref().unwrap_or(&self.agreement);
        let before = locked(agreement).clone();
        let round = Compare::new(nodes.rules, servers, before, start, read_only);
        let compared = run(nodes, round, start, nodes.rules.node_timeout, Span::none()).await;
        locked(&self.servers).clone_from(&compared.servers);
        // Only the task changes it.
        if !read_only {
            locked(agreement).clone_from(&compared.agreement);
        }
        self.apply(nodes, &compared);
        compared
    }

    async fn keep(&self, nodes: &Arc<Nodes>) {
        let other = [name(Place::Other)];
        let mut watches = Watches::new(nodes, &other, None);
        let mut ended = vec![self.ended.listen()];
        if nodes.agreement.is_none() {
            ended.push(nodes.listen_for_closing());
        }
        let is_ended = || nodes.agreement.is_none() && nodes.is_closed() || nodes.unused_since().is_some();
        // The last handle may have been dropped before the first poll of this task.
        while !is_ended() {
            let before = *locked(&self.difference);
            let compared = self.compare(nodes, false).await;
            *locked(&self.announced) =
                Some([compared.servers.place(), Place::Other].map(|it| compared.servers.token(it)));
            self.compared.store(true, Ordering::Relaxed);
            self.changed.notify(usize::MAX);
            let is_open = match compared.finding {
                Finding::Equal => false,
                Finding::Unconfirmed => before.is_none(),
                Finding::Differs(difference) => before != Some(difference),
            };
            let interval = match nodes.agreement {
                _ if is_open || compared.is_unfinished => PAUSE,
                Some(_) if compared.agreement.is_blocked() => INTERVAL_IF_BLOCKED,
                _ => INTERVAL,
            };
            if is_over(nodes, &compared, interval, &mut watches, &mut ended).await {
                break;
            }
        }
        // `close` retracts itself: the runtime of this task may not be driven any more.
        if !nodes.is_closed() {
            self.retract(nodes).await;
        }
    }

    /// Retracts the announcement on all nodes when the client is closed.
    ///
    /// A comparison of the task that has begun may still announce, so this waits for its end first, for one node timeout
    /// at most.
    pub(crate) async fn close(&self, nodes: &Arc<Nodes>) {
        if nodes.agreement.is_some() {
            return;
        }
        let end = nodes.now() + nodes.rules.node_timeout;
        loop {
            let changed = self.changed.listen();
            if !self.runs.load(Ordering::Relaxed) || nodes.now() >= end {
                break;
            }
            sleep_until_or(&*nodes.runtime, end, changed).await;
        }
        self.retract(nodes).await;
    }

    /// Retracts the announcement on all nodes, if there is one, and votes count without it.
    async fn retract(&self, nodes: &Arc<Nodes>) {
        if nodes.agreement.is_some() {
            return;
        }
        let Some([own, shared]) = locked(&self.announced).take() else { return };
        let retract = |token: Token| {
            let round = Retract::new(nodes.rules, token);
            run(nodes, round, nodes.now(), nodes.rules.node_timeout, Span::none())
        };
        // Without a label of the program there is one announcement.
        let other = (shared != own).then(|| retract(shared));
        both(retract(own), async {
            if let Some(other) = other {
                other.await;
            }
        })
        .await;
    }

    /// Records and reports the result of a comparison.
    fn apply(&self, nodes: &Nodes, compared: &Compared) {
        let (before, now) = {
            let mut difference = locked(&self.difference);
            let before = *difference;
            match compared.finding {
                Finding::Differs(found) => *difference = Some(found),
                Finding::Equal if compared.is_complete => *difference = None,
                // A node that has not replied may be the one with the announcement of another list.
                Finding::Equal | Finding::Unconfirmed => {}
            }
            (before, *difference)
        };
        if before != now {
            telemetry::node_lists_changed(now.as_ref());
        }
        telemetry::node_lists_differ(now.is_some());
        if let Some((node, error)) = &compared.rejection {
            if !self.rejected.swap(true, Ordering::Relaxed) {
                telemetry::node_lists_not_compared(nodes.label(*node), error);
            }
        }
    }
}

/// Waits until the next comparison is due, after `interval` at the latest. Returns `true` if none is, because the last
/// handle is gone.
async fn is_over(
    nodes: &Nodes,
    compared: &Compared,
    interval: Duration,
    watches: &mut Watches<'_>,
    ended: &mut [EventListener],
) -> bool {
    let (start, mut alarm) = (nodes.now(), Alarm::default());
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            if ended.iter_mut().any(|event| Pin::new(event).poll(cx).is_ready()) {
                return Poll::Ready(true);
            }
            let now = nodes.now();
            let next = watches.poll(cx, now);
            let is_due = now >= start + interval;
            if is_due || now >= start + PAUSE && is_changed(nodes, compared, watches) {
                return Poll::Ready(false);
            }
            let look = (now + LOOK).min(start + interval);
            let look = next.map_or(look, |next| next.min(look));
            if alarm.poll_at(&*nodes.runtime, look, cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Returns whether a node has another connection, is out of quarantine, or reports an announcement that was not compared.
fn is_changed(nodes: &Nodes, compared: &Compared, watches: &Watches<'_>) -> bool {
    let mut connections = nodes.peers.iter().map(|peer| peer.node.status()).zip(&compared.nodes);
    let (own, others) =
        (compared.servers.token(Place::Other), || compared.nodes.iter().map(|seen| &seen.announced));
    connections.any(|(now, before)| {
        now.connection.is_some() && now.connection != before.connection
            || before.is_quarantined() && now.quarantine.is_none()
    }) || watches.iter().filter_map(NodeWatch::seen).any(|seen| match seen {
        Seen::Held(token) => {
            let is_seen =
                |announced: &Announced| announced.at(Place::Other).is_some_and(|it| it.token == token);
            token != own && !others().any(is_seen)
        }
        Seen::Free | Seen::HeldUnnamed(_) => false,
    })
}
