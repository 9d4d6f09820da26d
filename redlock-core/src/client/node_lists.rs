//! The comparison of this program's node list with those of other programs, in the background.
//!
//! A task compares the lists when the first lock is requested, then every ten seconds. It compares at once when a server
//! reports another announcement, and soon after a node has another connection: a server that was restarted is another
//! server. It compares again soon if a list seems to differ, until the other program has renewed its announcement or the
//! announcement is gone. After a new difference, it does so once, so that the other program sees a renewal. The task ends
//! with the last handle, and then retracts the announcement, as `close` does.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::{Event, EventListener};
use tracing::Span;

use crate::decide::node_list::{Finding, Place, Servers};
use crate::decide::observation::Seen;
use crate::decide::quorums::Quorums;
use crate::round::compare::{Compare, Compared, Retract, name};
use crate::round::engine::run;
use crate::round::nodes::Nodes;
use crate::runtime::Alarm;
use crate::sync::{Mutex, locked};
use crate::telemetry;
use crate::types::node_list::NodeListDifference;
use crate::types::token::Token;
use crate::watch::node_watch::NodeWatch;
use crate::watch::watches::Watches;

/// The time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two comparisons, so that a node that changes all the time causes no loop.
const PAUSE: Duration = Duration::from_millis(500);

/// The time in which a program that runs has renewed its announcement.
const RENEWAL: Duration = Duration::from_secs(12);

/// The longest time until a new connection is noticed.
const LOOK: Duration = Duration::from_millis(250);

/// The state of the comparison.
pub(crate) struct NodeLists {
    runs: AtomicBool,
    servers: Mutex<Servers>,
    /// The last difference that was found, until a complete comparison finds none.
    difference: Mutex<Option<NodeListDifference>>,
    /// The announcement of this program.
    announced: Mutex<Option<Token>>,
    /// True once missing rights were logged.
    rejected: AtomicBool,
    ended: Event,
}

/// Resets `runs` when the task ends, also if its runtime drops it.
struct Running(Arc<NodeLists>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Relaxed);
    }
}

impl NodeLists {
    pub(crate) fn new(quorums: Quorums) -> Self {
        Self {
            runs: AtomicBool::new(false),
            servers: Mutex::new(Servers::new(quorums)),
            difference: Mutex::default(),
            announced: Mutex::default(),
            rejected: AtomicBool::new(false),
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

    /// Ends the task.
    pub(crate) fn end(&self) {
        self.ended.notify(usize::MAX);
    }

    /// Compares the lists now, and announces nothing.
    ///
    /// If a list seems to differ, and no task compares, this waits for the next announcement of the other program.
    pub(crate) async fn look(&self, nodes: &Arc<Nodes>) -> Option<NodeListDifference> {
        let end = nodes.now() + RENEWAL;
        loop {
            let compared = self.compare(nodes, true).await;
            let difference = *locked(&self.difference);
            let is_open = difference.is_none() && compared.finding == Finding::Unconfirmed;
            if !is_open || self.runs.load(Ordering::Relaxed) || nodes.now() >= end {
                return difference;
            }
            nodes.runtime.sleep(PAUSE).await;
        }
    }

    async fn compare(&self, nodes: &Arc<Nodes>, read_only: bool) -> Compared {
        let (servers, start) = (locked(&self.servers).clone(), nodes.now());
        let round = Compare::new(nodes.rules, servers, start, read_only);
        let compared = run(nodes, round, start, nodes.rules.node_timeout, Span::none()).await;
        locked(&self.servers).clone_from(&compared.servers);
        self.apply(nodes, &compared);
        compared
    }

    async fn keep(&self, nodes: &Arc<Nodes>) {
        let other = [name(Place::Other)];
        let mut watches = Watches::new(nodes, &other, None);
        let mut ended = [self.ended.listen(), nodes.listen_for_closing()];
        // The last handle may have been dropped before the first poll of this task.
        while !nodes.is_closed() && nodes.unused_since().is_none() {
            let before = *locked(&self.difference);
            let compared = self.compare(nodes, false).await;
            if nodes.rules.quorums.previous().is_none() {
                *locked(&self.announced) = Some(compared.token.clone());
            }
            let is_open = match compared.finding {
                Finding::Equal => false,
                Finding::Unconfirmed => before.is_none(),
                Finding::Differs(difference) => before != Some(difference),
            };
            let interval = if is_open { PAUSE } else { INTERVAL };
            if is_over(nodes, &compared, interval, &mut watches, &mut ended).await {
                break;
            }
        }
        // `close` retracts, so that it need not wait for this task, whose runtime may not be driven any more.
        if !nodes.is_closed() {
            self.retract(nodes).await;
        }
    }

    /// Retracts the announcement on all nodes, if there is one.
    pub(crate) async fn retract(&self, nodes: &Arc<Nodes>) {
        let Some(announced) = locked(&self.announced).take() else { return };
        let round = Retract::new(nodes.rules, announced);
        run(nodes, round, nodes.now(), nodes.rules.node_timeout, Span::none()).await;
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
    ended: &mut [EventListener; 2],
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

/// Returns whether a node has another connection, or reports an announcement that was not compared.
fn is_changed(nodes: &Nodes, compared: &Compared, watches: &Watches<'_>) -> bool {
    let mut connections =
        nodes.peers.iter().map(|peer| peer.node.status().connection).zip(&compared.connections);
    connections.any(|(now, before)| now.is_some() && now != *before)
        || watches.iter().filter_map(NodeWatch::seen).any(|seen| match seen {
            Seen::Held(token) => token != compared.token && !compared.others.contains(&token),
            Seen::Free | Seen::HeldUnnamed(_) => false,
        })
}
