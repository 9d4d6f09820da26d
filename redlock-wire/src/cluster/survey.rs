//! The questions to the masters of a cluster.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::map::{Map, Owner, View};
use crate::attended::elapse;
use crate::cluster_members::ClusterMembers;
use crate::connection::{Connection, Connector};
use crate::first::first;
use crate::message::{Command, Reply};
use crate::options::Options;
use crate::push::Hub;
use crate::secret::Secret;

/// The time limit of a survey. Masters that do not reply within it have no vote.
const LIMIT: Duration = Duration::from_millis(500);

/// The host and the port of a server.
type Target = (String, u16);

/// Surveys of one cluster, with connections that are kept for the next one.
pub(crate) struct Surveys<'a, C: Connector> {
    cluster: &'a ClusterMembers<C>,
    options: &'a Options,
    open: HashMap<Target, C::Connection>,
    /// The masters of slots in the last map of a majority.
    known: Vec<Target>,
    /// True if the last survey had a majority. Otherwise the servers that the program knew at its start are asked, too.
    is_complete: bool,
}

impl<'a, C: Connector> Surveys<'a, C> {
    pub(crate) fn new(cluster: &'a ClusterMembers<C>, options: &'a Options) -> Self {
        Self { cluster, options, open: HashMap::new(), known: Vec::new(), is_complete: false }
    }

    /// Asks all masters that are known, and those that they name.
    pub(crate) async fn ask(&mut self) -> Map {
        let mut map = Map::default();
        let (options, limit) = (self.options, limit(self.options, self.is_complete));
        first(self.hear(&mut map), elapse(&*options.runtime, limit)).await;
        self.is_complete = map.check().is_ok();
        if self.is_complete {
            self.known = map.owners().map(address).collect();
        }
        map
    }

    async fn hear(&mut self, map: &mut Map) {
        let (cluster, options) = (self.cluster, self.options);
        // Those that are not used, or whose server does not reply in time, are closed.
        let mut before = mem::take(&mut self.open);
        let mut named = self.known.clone();
        if !self.is_complete {
            named.extend(cluster.seeds.iter().cloned());
        }
        let (mut asked, mut replies) = (HashSet::new(), FuturesUnordered::new());
        loop {
            for target in named.drain(..) {
                if asked.insert(target.clone()) {
                    let open = before.remove(&target);
                    replies.push(ask(cluster, options, target, open));
                }
            }
            match replies.next().await {
                Some((target, Ok((view, connection)))) => {
                    named.extend(view.owners().map(address));
                    self.open.insert(target, connection);
                    map.hear(view);
                }
                Some(((host, port), Err(reason))) => {
                    map.fail((cluster.server)(&host, port).label(), &reason);
                }
                None => return,
            }
        }
    }
}

/// Returns the time limit of a survey. The connections for the first one are opened within it.
pub(crate) fn limit(options: &Options, is_complete: bool) -> Duration {
    if is_complete { LIMIT } else { LIMIT.max(options.connect_timeout.get()) }
}

fn address(owner: &Owner) -> Target {
    (owner.host.clone(), owner.port)
}

/// Asks one server. Returns its view, and the connection for the next question.
async fn ask<C: Connector>(
    cluster: &ClusterMembers<C>,
    options: &Options,
    target: Target,
    open: Option<C::Connection>,
) -> (Target, Result<(View, C::Connection), String>) {
    let asked = async {
        let connector = (cluster.server)(&target.0, target.1);
        let login = if open.is_none() { options.login().await? } else { None };
        let secret = Secret::of_login(login.as_ref(), &connector);
        let published = |message: &str| secret.published(message);
        let connection = match open {
            Some(connection) => connection,
            None => {
                let connected = connector.connect(login.as_ref(), &Hub::default()).await;
                connected.map_err(|failure| published(&failure.message))?
            }
        };
        let nodes = C::Connection::pack(Command::Other { name: "CLUSTER", args: &[b"NODES"] });
        let replies = connection.pipeline(vec![nodes]).await;
        match replies.map_err(|failure| published(&failure.message))?.first() {
            Some(Reply::Bytes(text)) => {
                View::read(&String::from_utf8_lossy(text), &target.0, cluster.by_name)
                    .map(|view| (view, connection))
                    .ok_or_else(|| "unexpected reply to CLUSTER NODES".to_owned())
            }
            Some(Reply::Error(message)) => Err(published(message)),
            _ => Err("unexpected reply to CLUSTER NODES".to_owned()),
        }
    };
    let result = asked.await;
    (target, result)
}
