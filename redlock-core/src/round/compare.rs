//! A comparison of node lists: the announcements of other programs, and that of this program.
//!
//! The value of a key is a list, so the requests are those of locks. A program whose list is announced already sets
//! nothing, because an acquisition leaves a key with the same token as it is.

use crate::decide::node_list::{Announced, Announcement, Finding, Listed, Place, Servers, TTL, max_reading};
use crate::node::{ConnectionId, NodeError, NodeErrorKind, Operation, Request};
use crate::round::{Heard, Io, Round, Rules};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The names of the two places of an announcement. No lock has these names.
const NAMES: [&str; 2] = ["redlock:nodes", "redlock:nodes:other"];

/// The name of the requests in messages and metrics.
const COMPARE: &str = "compare_nodes";

/// Returns the name of a place.
pub(crate) fn name(place: Place) -> Resource {
    let name = match place {
        Place::First => NAMES[0],
        Place::Other => NAMES[1],
    };
    Resource::new(name).expect("a short name")
}

/// Returns whether a name is one of these.
pub(crate) fn is_reserved(resource: &Resource) -> bool {
    NAMES.iter().any(|name| name.as_bytes() == resource.as_bytes())
}

/// One comparison.
pub(crate) struct Compare {
    rules: Rules,
    servers: Servers,
    start: Instant,
    /// True if nothing is to be announced.
    read_only: bool,
    nodes: Vec<Seen>,
    /// The number of requests without a reply.
    missing: usize,
    /// The announcement of this program, once all nodes were read.
    token: Option<Token>,
    finding: Finding,
    is_complete: bool,
    rejection: Option<(usize, NodeError)>,
}

/// The replies of one node.
#[derive(Clone, Debug, Default)]
struct Seen {
    connection: Option<ConnectionId>,
    announced: Announced,
    /// True if both replies state the announcements.
    is_known: bool,
}

/// The result of a comparison.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The announcement of this program.
    pub(crate) token: Token,
    pub(crate) servers: Servers,
    /// True if the finding is that of all nodes: each has replied and may not have lost data.
    pub(crate) is_complete: bool,
    pub(crate) finding: Finding,
    /// The announcements of others in the second place.
    pub(crate) others: Vec<Token>,
    /// The connection of each node, if its request was sent over one.
    pub(crate) connections: Vec<Option<ConnectionId>>,
    /// A node that rejects these requests, and the error.
    pub(crate) rejection: Option<(usize, NodeError)>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Read(Place),
    Retract,
    Announce(Place),
    Renew(Place),
}

impl Compare {
    /// Creates a comparison that begins at `start`. `servers` is the state after the previous one.
    pub(crate) fn new(rules: Rules, mut servers: Servers, start: Instant, read_only: bool) -> Self {
        servers.begin();
        let seen = Seen { is_known: true, ..Seen::default() };
        Self {
            rules,
            servers,
            start,
            read_only,
            nodes: vec![seen; rules.nodes()],
            missing: 2 * rules.nodes(),
            token: None,
            finding: Finding::Equal,
            is_complete: true,
            rejection: None,
        }
    }

    /// Returns whether servers that have replied may have been restarted since.
    fn is_late(&self, now: Instant) -> bool {
        now > self.start + max_reading(self.rules.node_timeout)
    }

    /// Compares the lists, and sends the announcements.
    fn compare(&mut self, now: Instant, io: &mut Io<Lane>) {
        self.token = Some(self.servers.list().token());
        if self.is_late(now) {
            self.finding = Finding::Unconfirmed;
            return;
        }
        let known = || self.nodes.iter().enumerate().filter(|(_, seen)| seen.is_known);
        self.finding = self.servers.compare_others(&known().map(|(_, seen)| &seen.announced));
        for (node, seen) in known() {
            self.finding = self.finding.and(self.servers.compare_on(&seen.announced));
            if self.read_only {
                continue;
            }
            let lane = match self.servers.announcement(&seen.announced) {
                Announcement::Nothing => continue,
                Announcement::Announce(place) => Lane::Announce(place),
                Announcement::Renew(place) => Lane::Renew(place),
                Announcement::Replace => Lane::Retract,
            };
            io.send(node, lane);
            self.missing += 1;
        }
    }

    /// Records a reply of the first phase.
    fn read(&mut self, place: Place, heard: Heard<Lane>) {
        let seen = &mut self.nodes[heard.node];
        seen.connection = heard.connection;
        match heard.outcome {
            Outcome::Free { .. } => {}
            Outcome::Held(entry) => {
                let listed = Some(Listed::new(entry, heard.sent, self.rules.node_timeout));
                match place {
                    Place::First => seen.announced.first = listed,
                    Place::Other => seen.announced.other = listed,
                }
            }
            // The identity is known; the data of the server may be lost.
            Outcome::Quarantined { .. } => seen.is_known = false,
            _ => {
                seen.is_known = false;
                return;
            }
        }
        self.servers.note(heard.node, heard.server, heard.at);
    }
}

impl Round for Compare {
    type Tag = Lane;
    type Output = Compared;

    fn start(&mut self, io: &mut Io<Lane>) {
        io.send_to_all(self.rules.nodes(), Lane::Read(Place::First));
        io.send_to_all(self.rules.nodes(), Lane::Read(Place::Other));
    }

    fn request(&self, node: usize, lane: Lane) -> Option<Request> {
        let claim = |place: Place, token: Option<&Token>| {
            let resources = Resources::new([name(place)]).expect("one name");
            Some(Claim::new(resources, token?.clone()))
        };
        let (announced, ttl) = (&self.nodes[node].announced, Ttl::new(TTL).expect("a TTL within the bounds"));
        let first = announced.first.as_ref().map(|listed| &listed.token);
        Some(match lane {
            Lane::Read(place) => Request::Inspect(name(place)),
            Lane::Retract => Request::Release(claim(Place::First, first)?),
            Lane::Announce(place) => Request::Acquire(claim(place, self.token.as_ref())?, ttl),
            Lane::Renew(place) => Request::Extend(claim(place, self.token.as_ref())?, ttl),
        })
    }

    fn heard(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        self.missing -= 1;
        match &heard.outcome {
            Outcome::Failed(error) if has_no_rights(error) => {
                self.rejection.get_or_insert_with(|| (heard.node, error.clone()));
            }
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Quarantined { .. } => self.is_complete = false,
            _ => {}
        }
        match heard.tag {
            Lane::Read(place) => {
                let now = heard.at;
                self.read(place, heard);
                if self.missing == 0 {
                    self.compare(now, io);
                }
            }
            Lane::Retract if self.is_late(heard.at) => {}
            Lane::Retract => {
                io.send(heard.node, Lane::Announce(Place::First));
                self.missing += 1;
            }
            // The next comparison sees an announcement that another program has made meanwhile.
            Lane::Announce(_) | Lane::Renew(_) => {}
        }
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<Lane>) -> Option<Compared> {
        let token = self.token.clone().filter(|_| self.missing == 0)?;
        let servers = self.servers.clone();
        let connections = self.nodes.iter().map(|node| node.connection).collect();
        let others =
            self.nodes.iter().filter_map(|node| Some(node.announced.other.as_ref()?.token.clone())).collect();
        let rejection = self.rejection.take();
        let (finding, is_complete) = (self.finding, self.is_complete);
        Some(Compared { token, servers, is_complete, finding, others, connections, rejection })
    }

    fn name(&self, _operation: Operation) -> &'static str {
        COMPARE
    }
}

/// Returns whether the node will also reject the next comparison.
fn has_no_rights(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Rejected | NodeErrorKind::Unsupported)
}

/// The end of an announcement on all nodes.
///
/// It also ends that of other programs with the same list, which announce it again within seconds.
pub(crate) struct Retract {
    claim: Claim,
    missing: usize,
}

impl Retract {
    pub(crate) fn new(rules: Rules, announced: Token) -> Self {
        let resources = Resources::new([Place::First, Place::Other].map(name)).expect("two names");
        Self { claim: Claim::new(resources, announced), missing: rules.nodes() }
    }
}

impl Round for Retract {
    type Tag = ();
    type Output = ();

    fn start(&mut self, io: &mut Io<()>) {
        io.send_to_all(self.missing, ());
    }

    fn request(&self, _node: usize, (): ()) -> Option<Request> {
        Some(Request::Release(self.claim.clone()))
    }

    fn heard(&mut self, _heard: Heard<()>, _io: &mut Io<()>) {
        self.missing -= 1;
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<()>) -> Option<()> {
        (self.missing == 0).then_some(())
    }

    fn name(&self, _operation: Operation) -> &'static str {
        COMPARE
    }
}
