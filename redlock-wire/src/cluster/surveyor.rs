//! The task that keeps the map of a cluster up to date.
//!
//! It holds only a `Weak` reference to the node, so it ends when the node is dropped. When its runtime ends, its drop
//! records that, and the next request starts another surveyor. One that is overdue is replaced.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redlock_core::runtime::Instant;

use super::map::Map;
use super::routes::Routes;
use super::survey::{Surveys, limit};
use super::{Cluster, State};
use crate::connection::Connector;
use crate::first::{First, first};
use crate::options::Options;
use crate::sync::locked;
use crate::until::until;

/// The time between two surveys.
const INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two surveys.
const PAUSE: Duration = Duration::from_millis(100);

/// The time that a surveyor may be overdue before it is replaced as not running.
const PATIENCE: Duration = Duration::from_secs(1);

struct Surveyor<C: Connector> {
    node: Weak<Cluster<C>>,
    connector: Arc<C>,
    options: Options,
    epoch: u64,
}

impl<C: Connector> Cluster<C> {
    /// Starts a surveyor if none is running. Returns whether it has started one.
    pub(super) fn start(self: &Arc<Self>, now: Instant) -> bool {
        let epoch = {
            let mut state = locked(&self.state);
            if state.due.is_some_and(|due| now <= due) {
                return false;
            }
            state.epoch += 1;
            state.due = Some(due(&self.options, now));
            state.epoch
        };
        let (connector, options) = (Arc::clone(&self.connector), self.options.clone());
        let surveyor = Surveyor { node: Arc::downgrade(self), connector, options, epoch };
        self.options.runtime.spawn(Box::pin(surveyor.run()));
        true
    }

    /// Publishes the result of a survey. Returns the reason why it is not used, or `None` if this surveyor was replaced.
    fn publish(&self, epoch: u64, asked: Instant, map: Map) -> Option<Result<(), String>> {
        let now = self.options.runtime.now();
        let (mut gone, mut former) = (Vec::new(), Vec::new());
        let result = {
            let mut state = locked(&self.state);
            if state.epoch != epoch {
                return None;
            }
            state.due = Some(due(&self.options, now));
            state.surveys += 1;
            let result = map.check();
            state.reason = result.clone().err();
            if result.is_ok() {
                state.asked = Some(asked);
                if *state.routes.map() != map {
                    state.routes = Arc::new(Routes::new(map));
                    // A server that no master names with slots any more is a replica, or has left the cluster.
                    let routes = Arc::clone(&state.routes);
                    let is_named = |id: &str| routes.map().owners().any(|owner| owner.id == id);
                    let left: Vec<_> = state.shards.keys().filter(|id| !is_named(id)).cloned().collect();
                    gone.extend(left.iter().filter_map(|id| state.shards.remove(id)));
                }
                former.extend(state.follow_stamps(self));
            }
            result
        };
        // Dropped without the mutex: this wakes tasks.
        drop((gone, former));
        self.changed.notify(usize::MAX);
        match &result {
            Ok(()) => self.journal.up(self.connector.label(), None),
            Err(reason) => self.journal.down(self.connector.label(), reason, now),
        }
        Some(result)
    }
}

/// Returns the time by which a surveyor should have changed the state.
fn due(options: &Options, now: Instant) -> Instant {
    now + INTERVAL + limit(options, false) + PATIENCE
}

impl<C: Connector> Surveyor<C> {
    async fn run(self) {
        let Some(members) = self.connector.cluster() else { return };
        let runtime = &*self.options.runtime;
        let mut surveys = Surveys::new(members, &self.options);
        loop {
            let asked = runtime.now();
            let First::Left(map) = first(surveys.ask(), self.replaced()).await else { return };
            let Some(node) = self.node.upgrade() else { return };
            if node.publish(self.epoch, asked, map).is_none() {
                return;
            }
            drop(node);
            if let First::Right(()) = first(runtime.sleep(PAUSE), self.replaced()).await {
                return;
            }
            let wanted = self.until(|state| mem::take(&mut state.is_wanted));
            first(runtime.sleep(INTERVAL.saturating_sub(PAUSE)), wanted).await;
        }
    }

    /// Completes when this surveyor is replaced or the node is dropped.
    async fn replaced(&self) {
        self.until(|state| state.epoch != self.epoch).await;
    }

    /// Completes when `over` holds for the state, or the node is dropped.
    async fn until(&self, over: impl Fn(&mut State<C>) -> bool) {
        until(&self.node, |node| node.changed.listen(), |node| over(&mut locked(&node.state))).await;
    }
}

/// Also runs if the runtime drops the task: the next request then starts another one.
impl<C: Connector> Drop for Surveyor<C> {
    fn drop(&mut self) {
        let Some(node) = self.node.upgrade() else { return };
        {
            let mut state = locked(&node.state);
            if state.epoch != self.epoch {
                return;
            }
            state.due = None;
        }
        node.changed.notify(usize::MAX);
    }
}
