//! The shards of a cluster as one node, for locks whose keys are in one hash slot.
//!
//! Each request goes to the master of its slot. A master is used only while a majority of the masters *confirms* it: each
//! of them sees it up, with this slot. Masters need such a majority to promote a replica, so a master that was cut off
//! from them is given up. A [surveyor] asks them once a second, and a vote does not count if the last confirmation is
//! older than [`CONFIRMED_FOR`]. Restart admission is always enabled: a promoted server stays in quarantine for
//! [`MARGIN`](crate::sentinel::MARGIN) longer than a server that was restarted, as with sentinels.
//!
//! While a slot is moved to another shard, its keys move with it, and at most one of the two servers carries a request
//! out:
//!
//! - From the beginning of the move on, the former owner carries a request out only if all of its keys are there, and else
//!   replies `ASK`. So it sets no key that has moved a second time.
//! - The new owner replies `MOVED` until it has the slot. It would accept a request behind `ASKING`, which is never sent:
//!   after a migration that was canceled, such a late request could set a key that the former owner has set, too.
//!
//! Such a reply is an error, as is any other. It makes the surveyor ask again, and the caller repeats the request.

pub(crate) mod map;
pub(crate) mod slot;
pub(crate) mod survey;
pub(crate) mod surveyor;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;
use redlock_core::node::{
    Admission, Begun, ConnectionId, Exchange, LockNode, NodeError, NodeErrorKind, Profile, Quarantine,
    QuarantineReason, Reply, Request, ServerId, Status,
};
use redlock_core::runtime::Instant;
use redlock_core::{Error, Resource};

use self::map::{Map, Owner};
use self::slot::slot;
use crate::cluster_members::ClusterMembers;
use crate::connection::Connector;
use crate::journal::Journal;
use crate::options::{self, Options};
use crate::request::ClaimRequest;
use crate::script::key;
use crate::sentinel::CONFIRMED_FOR;
use crate::server_node::{self, NO_RUNTIME, ServerNode};
use crate::stamp::StampKey;
use crate::sync::{Mutex, MutexGuard, locked};

/// The shards of a cluster as one node.
pub(crate) struct ClusterNode<C: Connector>(Arc<Cluster<C>>);

/// The state of the node, shared by its requests and its surveyor, which holds a `Weak` reference to it.
pub(crate) struct Cluster<C: Connector> {
    connector: Arc<C>,
    options: Options,
    state: Mutex<State<C>>,
    /// Notified after each survey, when another one is wanted, and when the node is dropped.
    changed: Event,
    journal: Journal,
}

struct State<C: Connector> {
    /// The last map of a majority.
    map: Map,
    /// The time of the questions for this map.
    asked: Option<Instant>,
    /// The reason why the last survey found no map.
    reason: Option<String>,
    /// The number of surveys that have ended.
    surveys: u64,
    /// The time by which the surveyor should have changed the state. `None`: there is no surveyor.
    due: Option<Instant>,
    /// The epoch of the current surveyor.
    epoch: u64,
    /// True if another survey is wanted at once.
    is_wanted: bool,
    /// By the identity of the server.
    shards: HashMap<String, Shard<C>>,
    /// The number of shards that were created.
    created: u64,
    node_timeout: Option<Duration>,
    clock_drift_factor: Option<f64>,
}

/// The master of a shard.
struct Shard<C: Connector> {
    server: ServerNode<C>,
    owner: Owner,
    /// The slot of its stamp.
    stamp: u16,
    /// Distinguishes its connections from those of all other shards.
    number: u64,
}

impl<C: Connector> ClusterNode<C> {
    /// Creates the node of a connector that [leads to a cluster](Connector::cluster).
    pub(crate) fn new(connector: C, options: &Options) -> Self {
        let state = State {
            map: Map::default(),
            asked: None,
            reason: None,
            surveys: 0,
            due: None,
            epoch: 0,
            is_wanted: false,
            shards: HashMap::new(),
            created: 0,
            node_timeout: None,
            clock_drift_factor: None,
        };
        let shard = options::Shard { stamp: StampKey::Plain, cluster: connector.label().into() };
        Self(Arc::new(Cluster {
            connector: Arc::new(connector),
            options: options.of_a_shard(shard),
            state: Mutex::new(state),
            changed: Event::new(),
            journal: Journal::default(),
        }))
    }

    /// Returns whether the masters have confirmed the map within the last seconds.
    pub(crate) fn is_connected(&self) -> bool {
        locked(&self.0.state).is_confirmed(self.0.options.runtime.now())
    }

    /// Returns the slot of a request, whose keys must all be in one.
    fn slot(&self, request: &Request) -> Result<u16, NodeError> {
        let options = &self.0.options;
        let prefix = &options.keys.prefix;
        let slots: Vec<_> = match ClaimRequest::new(request, options) {
            Some(claim) => claim.keys().iter().map(|key| slot(key)).collect(),
            None => request.resources().iter().map(|resource| slot(&key(prefix, resource))).collect(),
        };
        match slots.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => Ok(*first),
            Some(_) => Err(NodeError::rejected("the keys of the request are in several hash slots")),
            None => Err(NodeError::unsupported(request)),
        }
    }

    /// Returns the state with a map that is confirmed, and starts a surveyor if there is none.
    fn confirmed(&self) -> Result<MutexGuard<'_, State<C>>, Begun> {
        let now = self.0.options.runtime.now();
        let started = self.0.start(now);
        let state = locked(&self.0.state);
        if state.is_confirmed(now) {
            return Ok(state);
        }
        let reason = match &state.reason {
            _ if started && state.due.is_none() => NO_RUNTIME.to_owned(),
            Some(reason) => reason.clone(),
            // The first survey is in progress, or this process was paused since the last one.
            None => return Err(Begun::connecting(surveyed(Arc::clone(&self.0), state.surveys))),
        };
        Err(Begun::failed(NodeError::unavailable(reason)))
    }

    /// Begins a request that the owner of a slot carries out.
    fn begin_at(&self, slot: u16, request: &Request) -> Result<Begun, Begun> {
        let mut state = self.confirmed()?;
        let owner = match state.map.owner(slot) {
            Ok(owner) => owner.clone(),
            Err(reason) => {
                drop(state);
                self.0.want_survey();
                return Err(Begun::failed(NodeError::unavailable(reason)));
            }
        };
        let identity = state.map.owner(0).ok().map(|first| ServerId::new(&first.id));
        let (shard, replaced) = state.shard(&owner, &self.0);
        let (server, number) = (shard.server.clone(), shard.number);
        drop(state);
        drop(replaced);
        let Exchange { connection, reply, .. } = match server.begin(request) {
            Begun::Sent(exchange) => exchange,
            connecting @ Begun::Connecting(_) => return Err(connecting),
        };
        let (cluster, is_vote) = (Arc::clone(&self.0), request.is_vote());
        Ok(Begun::Sent(Exchange {
            connection: connection.map(|connection| of_shard(connection, number)),
            server: identity,
            reply: Box::pin(async move { cluster.judge(slot, &owner.id, is_vote, reply.await) }),
        }))
    }

    /// Vouches for the data of all shards, one after the other.
    fn vouch(&self) -> Result<Begun, Begun> {
        let mut state = self.confirmed()?;
        let owners = state.map.confirmed().map(|owners| owners.into_iter().cloned().collect::<Vec<_>>());
        let owners = owners.map_err(|reason| Begun::failed(NodeError::unavailable(reason)))?;
        let (mut servers, mut replaced) = (Vec::new(), Vec::new());
        for owner in &owners {
            let (shard, before) = state.shard(owner, &self.0);
            servers.push(shard.server.clone());
            replaced.extend(before);
        }
        drop(state);
        drop(replaced);
        let (mut exchanges, mut connecting) = (Vec::new(), None);
        // All of them begin to connect.
        for server in servers {
            match server.begin(&Request::Vouch) {
                Begun::Sent(exchange) => exchanges.push(exchange),
                begun @ Begun::Connecting(_) => connecting = Some(begun),
            }
        }
        if let Some(connecting) = connecting {
            return Err(connecting);
        }
        Ok(Begun::sent(async {
            for exchange in exchanges {
                exchange.reply.await?;
            }
            Ok(Reply::Granted)
        }))
    }
}

/// Waits until a survey has ended after this number of them, or the surveyor.
async fn surveyed<C: Connector>(cluster: Arc<Cluster<C>>, before: u64) {
    loop {
        // Listens before looking, so that no change is missed.
        let changed = cluster.changed.listen();
        {
            let state = locked(&cluster.state);
            if state.due.is_none() || state.surveys != before {
                return;
            }
        }
        changed.await;
    }
}

/// Returns the identifier of a connection that no other shard uses.
fn of_shard(connection: ConnectionId, number: u64) -> ConnectionId {
    ConnectionId((number << 32) | (connection.0 & u64::from(u32::MAX)))
}

impl<C: Connector> Cluster<C> {
    /// Makes the surveyor ask again at once.
    fn want_survey(&self) {
        locked(&self.state).is_wanted = true;
        self.changed.notify(usize::MAX);
    }

    /// Returns the reply of the master of a slot, without its vote if that master is not confirmed any more.
    fn judge(
        &self,
        slot: u16,
        id: &str,
        is_vote: bool,
        reply: Result<Reply, NodeError>,
    ) -> Result<Reply, NodeError> {
        let reply = reply.map_err(|error| match explained(slot, &error) {
            Some(explained) => {
                self.want_survey();
                explained
            }
            None => error,
        })?;
        let is_confirmed = || {
            let state = locked(&self.state);
            state.is_confirmed(self.options.runtime.now())
                && state.map.owner(slot).is_ok_and(|owner| owner.id == id)
        };
        if !is_vote || is_confirmed() {
            return Ok(reply);
        }
        let unconfirmed = Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked));
        Ok(unconfirmed.judge(reply, unconfirmed))
    }
}

/// Returns the explanation of an error reply of a server that does not have the slot, or not all of its keys.
fn explained(slot: u16, error: &NodeError) -> Option<NodeError> {
    if error.kind() != NodeErrorKind::Rejected {
        return None;
    }
    let reply = error.to_string();
    let reason = match reply.split(' ').next()? {
        "MOVED" => "is at another master",
        "ASK" | "TRYAGAIN" => "is being moved to another master",
        "CLUSTERDOWN" => "is not served: its master does not reach a majority of the masters",
        _ => return None,
    };
    Some(NodeError::rejected(format!("slot {slot} {reason} ({reply})")))
}

impl<C: Connector> State<C> {
    /// Returns whether a majority of the masters has replied within the last seconds.
    fn is_confirmed(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now < asked + CONFIRMED_FOR)
    }

    /// Returns the shard of a master, and the one that it replaces. The caller drops that without the mutex.
    fn shard(&mut self, owner: &Owner, cluster: &Cluster<C>) -> (&Shard<C>, Option<Shard<C>>) {
        let is_usable =
            self.shards.get(&owner.id).is_some_and(|shard| shard.is_of(&self.map) && shard.owner == *owner);
        let mut replaced = None;
        if !is_usable {
            let (tag, stamp) = self.map.stamp_of(owner);
            let members = cluster.members();
            let shard =
                options::Shard { stamp: StampKey::Tagged(tag), cluster: cluster.connector.label().into() };
            let options = cluster.options.of_a_shard(shard);
            let server = ServerNode::new((members.server)(&owner.host, owner.port), &options);
            if let Some(timeout) = self.node_timeout {
                server.set_node_timeout(timeout);
            }
            if let Some(factor) = self.clock_drift_factor {
                server.set_clock_drift_factor(factor);
            }
            self.created += 1;
            let shard = Shard { server, owner: owner.clone(), stamp, number: self.created };
            replaced = self.shards.insert(owner.id.clone(), shard);
        }
        (&self.shards[&owner.id], replaced)
    }
}

impl<C: Connector> LockNode for ClusterNode<C> {
    fn label(&self) -> &str {
        self.0.connector.label()
    }

    /// Without the order of waiters, because their places are in another slot than the resource.
    fn profile(&self) -> Profile {
        let mut profile = server_node::profile::<C>(&self.0.options);
        profile.places = false;
        profile
    }

    /// There is no quarantine while the votes of any shard count. Otherwise, it is the shortest one.
    fn status(&self) -> Status {
        let servers: Vec<_> =
            locked(&self.0.state).shards.values().map(|shard| shard.server.clone()).collect();
        let statuses: Vec<_> = servers.iter().map(ServerNode::status).collect();
        let rate = statuses.iter().filter_map(|status| status.clock_rate).max_by_key(|rate| rate.ppm);
        let status = Status::default().with_clock_rate(rate);
        let quarantines = statuses.iter().map(|status| status.quarantine).collect::<Option<Vec<_>>>();
        let shortest = quarantines.and_then(|all| {
            all.into_iter().min_by_key(|quarantine| quarantine.remaining.unwrap_or(Duration::MAX))
        });
        match shortest {
            Some(quarantine) => status.in_quarantine(quarantine),
            None => status,
        }
    }

    fn begin(&self, request: &Request) -> Begun {
        let begun = match request {
            Request::Vouch => self.vouch(),
            _ => match self.slot(request) {
                Ok(slot) => self.begin_at(slot, request),
                Err(error) => Err(Begun::failed(error)),
            },
        };
        begun.unwrap_or_else(|begun| begun)
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        server_node::check(&self.0.options, resource)
    }

    fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
        let prefix = &self.0.options.keys.prefix;
        let mut slots = resources.iter().map(|resource| (slot(&key(prefix, resource)), resource));
        let Some((first, one)) = slots.next() else { return Ok(()) };
        match slots.find(|(slot, _)| *slot != first) {
            None => Ok(()),
            Some((_, other)) => Err(Error::invalid(format!(
                "cannot lock {one:?} and {other:?} together: their keys are in different hash slots of the cluster; give \
                 the names a common hash tag, such as {{orders}}:42 and {{orders}}:43"
            ))),
        }
    }

    fn set_node_timeout(&self, timeout: Duration) {
        for server in self.0.with_setting(|state| state.node_timeout = Some(timeout)) {
            server.set_node_timeout(timeout);
        }
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        for server in self.0.with_setting(|state| state.clock_drift_factor = Some(factor)) {
            server.set_clock_drift_factor(factor);
        }
    }
}

impl<C: Connector> Cluster<C> {
    /// Changes a setting of the shards. Returns those that exist already.
    fn with_setting(&self, change: impl FnOnce(&mut State<C>)) -> Vec<ServerNode<C>> {
        let mut state = locked(&self.state);
        change(&mut state);
        state.shards.values().map(|shard| shard.server.clone()).collect()
    }

    fn members(&self) -> &ClusterMembers<C> {
        self.connector.cluster().expect("the connector of a cluster")
    }
}

impl<C: Connector> Shard<C> {
    /// Returns whether no other master has the slot of its stamp.
    fn is_of(&self, map: &Map) -> bool {
        map.owner(self.stamp).map_or(true, |owner| owner.id == self.owner.id)
    }
}

/// Wakes the surveyor, which then finds that the node is gone.
impl<C: Connector> Drop for Cluster<C> {
    fn drop(&mut self) {
        self.changed.notify(usize::MAX);
    }
}
