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
//! Such a reply is an error, as is any other, and the caller repeats the request. After `MOVED`, the surveyor asks again
//! at once.
//!
//! # Stamps
//!
//! A server counts by its [stamp](crate::admission), a key that it must have a slot for. All programs have to use the same
//! one, because a stamp is also how they share what each of them notices: jumps of the clock, the longest TTL, and that
//! an operator vouches. Each map determines the stamp of a master: see [`Master::stamp`](routes::Master::stamp).
//! Maps of several programs differ while slots move, so that alone is not sufficient:
//!
//! 1. When another number than before is the least one, the program keeps both stamps. The [successor](Shard::successor)
//!    has a connection of its own, over which it is checked like any other. The program uses the former stamp until the
//!    server counts by the new one, unless its slot is moved to another server. It then drops the former one.
//! 2. A stamp that is new to a server is younger than a quarantine, which lasts for 14 s at least. Thus no program uses it
//!    within that time.
//! 3. A map is older than [`CONFIRMED_FOR`] for no vote that counts, and each survey applies 1 to all shards in use. So
//!    within a few seconds, which are less than the time in 2, every program that runs keeps the new stamp.
//! 4. Hence, when the first program uses the new stamp, all others keep it as well: what they notice is in it. Before that,
//!    all of them use the former one. A program that starts meanwhile uses neither until it counts by the new one.
//!
//! `docs/operating.md` lists the losses of data that this does not detect while slots are moved.

pub(crate) mod map;
pub(crate) mod routes;
pub(crate) mod slot;
pub(crate) mod survey;
pub(crate) mod surveyor;

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;
use redlock_core::node::{
    Admission, Begun, ConnectionId, Exchange, LockNode, NodeError, NodeErrorKind, Profile, Quarantine,
    QuarantineReason, Reply, Request, Status,
};
use redlock_core::runtime::Instant;
use redlock_core::{Error, Resource};

use self::map::Owner;
use self::routes::{Master, Numbered, Routes};
use self::slot::{SLOTS, slot};
use self::survey::Surveys;
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

/// The masters of a cluster, for programs that check them.
#[derive(Debug)]
pub struct Masters<C> {
    /// A connector for each master that is confirmed for any slot.
    pub connectors: Vec<C>,
    /// The number of slots without a confirmed master and the reason for the first one, if there are such slots.
    pub unserved: Option<String>,
}

impl<C: Connector> Masters<C> {
    /// Asks the masters of a cluster once. A majority of them must reply within the connect timeout of `options`.
    ///
    /// If the future is dropped, its connections are closed.
    ///
    /// # Errors
    ///
    /// The reason why there is no majority.
    pub async fn find(cluster: &ClusterMembers<C>, options: &Options) -> Result<Self, String> {
        let map = Surveys::new(cluster, options).ask().await;
        map.check()?;
        let routes = Routes::new(map);
        let connector = |master: &Master| (cluster.server)(&master.owner.host, master.owner.port);
        let connectors = routes.masters().iter().map(connector).collect();
        let mut reasons = (0..SLOTS).filter_map(|slot| routes.master(slot).err());
        let unserved = reasons.next().map(|first| {
            format!("{} of {SLOTS} slots have no confirmed master: {first}", 1 + reasons.count())
        });
        Ok(Self { connectors, unserved })
    }
}

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
    /// Of the last map of a majority.
    routes: Arc<Routes>,
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
    owner: Owner,
    in_use: Stamped<C>,
    /// The same server with the stamp that the map determines, until it counts by that one.
    successor: Option<Stamped<C>>,
}

/// A server that counts by one stamp.
struct Stamped<C: Connector> {
    server: ServerNode<C>,
    stamp: Numbered,
    /// Distinguishes its connections from all others of the node.
    number: u64,
}

impl<C: Connector> ClusterNode<C> {
    /// Creates the node of a connector that [leads to a cluster](Connector::cluster).
    pub(crate) fn new(connector: C, options: &Options) -> Self {
        let state = State {
            routes: Arc::default(),
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
        let routes = Arc::clone(&state.routes);
        let unavailable = |reason| Begun::failed(NodeError::unavailable(reason));
        let master = routes.master(slot).map_err(unavailable)?;
        let (used, replaced) = state.in_use(master, &self.0);
        let (server, number) = (used.server.clone(), used.number);
        drop(state);
        drop(replaced);
        let Exchange { connection, reply, .. } = match server.begin(request) {
            Begun::Sent(exchange) => exchange,
            connecting @ Begun::Connecting(_) => return Err(connecting),
        };
        let (cluster, is_vote, id) = (Arc::clone(&self.0), request.is_vote(), master.owner.id.clone());
        Ok(Begun::Sent(Exchange {
            connection: connection.map(|connection| of_shard(connection, number)),
            server: routes.identity(),
            reply: Box::pin(async move { cluster.judge(slot, &id, is_vote, reply.await) }),
        }))
    }

    /// Vouches for the data of all shards, one after the other.
    fn vouch(&self) -> Result<Begun, Begun> {
        let mut state = self.confirmed()?;
        let routes = Arc::clone(&state.routes);
        let masters = routes.all().map_err(|reason| Begun::failed(NodeError::unavailable(reason)))?;
        let (mut servers, mut replaced) = (Vec::new(), Vec::new());
        for master in masters {
            let (_, before) = state.in_use(master, &self.0);
            servers.extend(state.shards.get(&master.owner.id).into_iter().flat_map(Shard::servers).cloned());
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
        let reply = reply.map_err(|error| {
            let Some((explained, is_map_wrong)) = explained(slot, &error) else { return error };
            if is_map_wrong {
                self.want_survey();
            }
            explained
        })?;
        let is_confirmed = || {
            let state = locked(&self.state);
            state.is_confirmed(self.options.runtime.now())
                && state.routes.master(slot).is_ok_and(|master| master.owner.id == id)
        };
        if !is_vote || is_confirmed() {
            return Ok(reply);
        }
        let unconfirmed = Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked));
        Ok(unconfirmed.judge(reply, unconfirmed))
    }
}

/// Returns the explanation of an error reply of a server that does not have the slot, or not all of its keys, and whether
/// the map is wrong.
fn explained(slot: u16, error: &NodeError) -> Option<(NodeError, bool)> {
    if error.kind() != NodeErrorKind::Rejected {
        return None;
    }
    let reply = error.to_string();
    let (reason, is_map_wrong) = match reply.split(' ').next()? {
        "MOVED" => ("is at another master", true),
        "ASK" | "TRYAGAIN" => ("is being moved to another master", false),
        "CLUSTERDOWN" => (
            "is not served: its master does not reach a majority of the masters, or any slot has no master",
            false,
        ),
        _ => return None,
    };
    Some((NodeError::rejected(format!("slot {slot} {reason} ({reply})")), is_map_wrong))
}

impl<C: Connector> State<C> {
    /// Returns whether a majority of the masters has replied within the last seconds.
    fn is_confirmed(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now < asked + CONFIRMED_FOR)
    }

    /// Returns the server of a master with the stamp in use, and the shard that it replaces. The caller drops that without
    /// the mutex.
    fn in_use(&mut self, master: &Master, cluster: &Cluster<C>) -> (&Stamped<C>, Option<Shard<C>>) {
        let Master { owner, stamp } = master;
        let is_usable = self.shards.get(&owner.id).is_some_and(|shard| shard.is_usable(&self.routes, owner));
        let mut replaced = None;
        if !is_usable {
            // The successor may have the right stamp already, over its own connection.
            let before = self.shards.remove(&owner.id);
            let (in_use, former) = match before {
                Some(Shard { owner: same, successor: Some(successor), in_use })
                    if same == *owner && successor.stamp == *stamp =>
                {
                    (successor, Some(Shard { owner: same, in_use, successor: None }))
                }
                before => (self.stamped(owner, *stamp, cluster), before),
            };
            replaced = former;
            let shard = Shard { owner: owner.clone(), in_use, successor: None };
            self.shards.insert(owner.id.clone(), shard);
        }
        (&self.shards[&owner.id].in_use, replaced)
    }

    /// Lets each shard follow the stamp that the map determines. Returns what is not needed any more.
    ///
    /// The caller drops that without the mutex.
    fn follow_stamps(&mut self, cluster: &Cluster<C>) -> Vec<Stamped<C>> {
        let mut gone = Vec::new();
        let routes = Arc::clone(&self.routes);
        for master in routes.masters() {
            let Some(shard) = self.shards.get(&master.owner.id) else { continue };
            // If its stamp is elsewhere, the next request replaces it. If the masters do not agree yet, it waits.
            let is_here = |confirmed: &Master| confirmed.owner.id == shard.owner.id;
            if shard.owner != master.owner || !routes.master(shard.in_use.stamp.slot).is_ok_and(is_here) {
                continue;
            }
            let is_followed = |next: &Stamped<C>| next.stamp == master.stamp;
            let successor = match &shard.successor {
                _ if shard.in_use.stamp == master.stamp => None,
                Some(successor) if is_followed(successor) => continue,
                _ => Some(self.stamped(&master.owner, master.stamp, cluster)),
            };
            if let Some(successor) = &successor {
                successor.server.connect();
            }
            if let Some(shard) = self.shards.get_mut(&master.owner.id) {
                gone.extend(mem::replace(&mut shard.successor, successor));
            }
        }
        for shard in self.shards.values_mut() {
            let counts = |next: &mut Stamped<C>| next.server.status().quarantine.is_none();
            if let Some(successor) = shard.successor.take_if(counts) {
                gone.push(mem::replace(&mut shard.in_use, successor));
            }
        }
        gone
    }

    /// Creates a server that counts by a stamp.
    fn stamped(&mut self, owner: &Owner, stamp: Numbered, cluster: &Cluster<C>) -> Stamped<C> {
        let key = StampKey::Numbered(stamp.number);
        let shard = options::Shard { stamp: key, cluster: cluster.connector.label().into() };
        let options = cluster.options.of_a_shard(shard);
        let server = ServerNode::new((cluster.members().server)(&owner.host, owner.port), &options);
        if let Some(timeout) = self.node_timeout {
            server.set_node_timeout(timeout);
        }
        if let Some(factor) = self.clock_drift_factor {
            server.set_clock_drift_factor(factor);
        }
        self.created += 1;
        Stamped { server, stamp, number: self.created }
    }

    /// Returns the servers with the stamps in use.
    fn servers(&self) -> impl Iterator<Item = &ServerNode<C>> {
        self.shards.values().map(|shard| &shard.in_use.server)
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
        let servers: Vec<_> = locked(&self.0.state).servers().cloned().collect();
        let statuses: Vec<_> = servers.iter().map(ServerNode::status).collect();
        let rate = statuses.iter().filter_map(|status| status.clock_rate).max_by_key(|rate| rate.ppm);
        let longer_ttl = statuses.iter().filter_map(|status| status.longer_ttl).max();
        let status = Status::default().with_clock_rate(rate).with_longer_ttl(longer_ttl);
        // A shard that is merely not connected has none for the log.
        let is_quarantined =
            |reason| !matches!(reason, QuarantineReason::NotChecked | QuarantineReason::Changed);
        let mut known = statuses.iter().filter_map(|status| status.quarantine);
        let status = status.partly_quarantined(known.any(|quarantine| is_quarantined(quarantine.reason)));
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
        state.shards.values().flat_map(Shard::servers).cloned().collect()
    }

    fn members(&self) -> &ClusterMembers<C> {
        self.connector.cluster().expect("the connector of a cluster")
    }
}

impl<C: Connector> Shard<C> {
    /// Returns whether it is still the server of this master, and no other master has the slot of its stamp.
    fn is_usable(&self, routes: &Routes, owner: &Owner) -> bool {
        self.owner == *owner && !routes.is_elsewhere(self.in_use.stamp.slot, &owner.id)
    }

    /// Returns the server with each stamp that this program keeps.
    fn servers(&self) -> impl Iterator<Item = &ServerNode<C>> {
        [&self.in_use].into_iter().chain(&self.successor).map(|stamped| &stamped.server)
    }
}

/// Wakes the surveyor, which then finds that the node is gone.
impl<C: Connector> Drop for Cluster<C> {
    fn drop(&mut self) {
        self.changed.notify(usize::MAX);
    }
}
