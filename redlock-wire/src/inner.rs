//! The state of a node, shared by its requests and its supervisor.

use std::sync::{Arc, Once};
use std::time::Duration;

use redlock_core::node::{Admission, Quarantine, QuarantineReason};

use crate::admission::keeper::Keeper;
use crate::clock_rate::MeasuredClock;
use crate::conn_state::{ConnState, Link};
use crate::connection::Connector;
use crate::journal::Journal;
use crate::options::Options;
use crate::sentinel::MARGIN;
use crate::stamp::StampKey;

/// The state of a node. The supervisor holds a `Weak` reference to it.
pub(crate) struct Inner<C: Connector> {
    pub(crate) connector: Arc<C>,
    pub(crate) options: Options,
    pub(crate) conn: ConnState<C::Connection>,
    /// Ensures that missing support for notifications is logged once.
    pub(crate) no_pushes: Once,
    pub(crate) journal: Journal,
    /// The restart admission, if there is any.
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) clock_rate: Arc<MeasuredClock>,
}

impl<C: Connector> Inner<C> {
    pub(crate) fn new(connector: C, options: &Options) -> Self {
        let is_chosen = connector.sentinels().is_some();
        let (connector, options) = (Arc::new(connector), options.of_a_node(is_chosen));
        let can_be_promoted = is_chosen || options.shard.is_some();
        let margin = if can_be_promoted { MARGIN } else { Duration::ZERO };
        let clock_rate = Arc::new(MeasuredClock::new(connector.label(), options.longest.is_none()));
        let keeper = |longest| {
            Arc::new(Keeper::new(
                connector.label(),
                options.shard.as_ref().map_or(StampKey::Plain, |shard| shard.stamp),
                longest,
                options.strict_clocks,
                margin,
                Arc::clone(&clock_rate),
            ))
        };
        let keeper = options.longest.clone().map(keeper);
        let conn = ConnState::new(options.shard.as_ref().map_or(connector.label(), |shard| &shard.cluster));
        let (no_pushes, journal) = (Once::new(), Journal::default());
        Self { connector, options, conn, no_pushes, journal, keeper, clock_rate }
    }

    /// Returns whether votes over the connection in use count.
    pub(crate) fn admission(&self, in_use: Option<&Link<C::Connection>>) -> Admission {
        match (&self.keeper, in_use) {
            (None, _) => Admission::Unchecked,
            (Some(keeper), Some(link)) => {
                link.hub.gate().admission(|| keeper.wait(), || self.options.runtime.now())
            }
            (Some(_), None) => Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked)),
        }
    }
}

/// Wakes the supervisor, which then finds that the node is gone.
impl<C: Connector> Drop for Inner<C> {
    fn drop(&mut self) {
        self.conn.notify();
    }
}
