//! A comparison of node lists: the announcements of other programs, and that of this program.
//!
//! The value of a key is a list, so the requests are those of locks. A program whose list is announced already sets
//! nothing, because an acquisition leaves a key with the same token as it is.

#[cfg(all(test, not(loom)))]
mod exploration;

use std::time::Duration;

use crate::decide::agreement::Agreement;
use crate::decide::announcements::copies::{Action, ListCopy};
use crate::decide::announcements::{
    Announced, Announcement, Claim as Claimed, Finding, Listed, MIN_TTL, Place, Servers, TTL, certain,
    max_reading, ttl_after,
};
use crate::decide::node_list::Lists;
use crate::node::{ConnectionId, Denial, NodeError, NodeErrorKind, Operation, Request, ServerId};
use crate::round::{Heard, Io, Round, Rules};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The names of the [places](Place::ALL) of an announcement. No lock has these names.
const NAMES: [&str; 3] = ["redlock:nodes", "redlock:nodes:change", "redlock:nodes:other"];

/// The name of the requests in messages and metrics.
const COMPARE: &str = "compare_nodes";

/// Returns the name of a place.
pub(crate) fn name(place: Place) -> Resource {
    let name = match place {
        Place::First => NAMES[0],
        Place::Change => NAMES[1],
        Place::Other => NAMES[2],
    };
    Resource::new(name).expect("a short name")
}

/// Returns whether a name is one of these.
pub(crate) fn is_reserved(resource: &Resource) -> bool {
    NAMES.iter().any(|name| name.as_bytes() == resource.as_bytes())
}

/// One comparison.
#[cfg_attr(test, derive(Clone, Debug))]
pub(crate) struct Compare {
    rules: Rules,
    servers: Servers,
    agreement: Agreement,
    start: Instant,
    /// The TTL of the next announcement.
    ttl: Duration,
    /// True if nothing is to be announced.
    read_only: bool,
    nodes: Vec<Seen>,
    /// The number of requests without a reply.
    missing: usize,
    /// True once all nodes were read.
    is_read: bool,
    finding: Finding,
    is_complete: bool,
    /// The number of announcements that wait for the last place, or are to be deleted there.
    unfinished: usize,
    rejection: Option<(usize, NodeError)>,
}

/// The replies of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The connection over which the requests were sent.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) server: Option<ServerId>,
    pub(crate) announced: Announced,
    /// The outcome of a request without a reply that counts.
    pub(crate) failure: Option<Outcome>,
    /// The time until which the announcement of this program stands in its place.
    stands_until: Option<Instant>,
    /// True if it stands, and no other announcement was there afterwards.
    is_confirmed: bool,
    /// True if the next announcement is in the place of neighbours.
    is_guarded: bool,
    /// The announcement in the last place that this program deletes.
    last: Option<Token>,
    /// True if this program announces its list without the server, so that no vote of it counts.
    is_left_out: bool,
    /// The copy that this program makes of the announcement of a neighbour.
    copy: Option<ListCopy>,
}

/// The result of a comparison.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) servers: Servers,
    pub(crate) agreement: Agreement,
    /// True if the finding is that of all nodes: each has replied and may not have lost data.
    pub(crate) is_complete: bool,
    /// True if another comparison is to follow soon, to announce the lists or to delete an announcement in the last place.
    pub(crate) is_unfinished: bool,
    pub(crate) finding: Finding,
    pub(crate) nodes: Vec<Seen>,
    /// A node that rejects these requests, and the error.
    pub(crate) rejection: Option<(usize, NodeError)>,
}

/// The time limit for a comparison that relies on announcements in the last place. Each stands there for twice as long.
const SOON: Duration = Duration::from_secs(2);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Read(Place),
    /// The next announcement, in the place of neighbours while that of this program is replaced.
    Guard,
    /// The same in the last place, if neighbours have announced their lists in theirs. It stays there for some seconds.
    GuardInLast,
    Unguard,
    /// The end of an announcement in the last place that was there while another one was replaced.
    UnguardLast,
    /// The end of one in the last place of a program that does not agree with the others.
    ClearLast,
    Retract(Place),
    Announce(Place),
    Renew(Place),
    /// Another look at the place of neighbours, after the announcement of this program.
    Verify,
    /// Another look at the last place, after the one at the place of neighbours.
    VerifyLast,
    /// A copy of the announcement of a neighbour.
    Copy,
    /// The end of a former copy.
    RetractCopy,
}

impl Seen {
    /// Returns whether all replies state the announcements.
    fn is_known(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns whether lists are compared on the node: it has replied, and its server has stated its identity.
    pub(crate) fn is_compared(&self) -> bool {
        self.is_known() && self.server.is_some()
    }

    /// Returns whether the server has replied, and its announcements may be lost.
    pub(crate) fn is_quarantined(&self) -> bool {
        matches!(self.failure, Some(Outcome::Quarantined { .. }))
    }
}

impl Compare {
    /// Creates a comparison that begins at `start`. `servers` and `agreement` are the state after the previous one.
    pub(crate) fn new(
        rules: Rules,
        mut servers: Servers,
        agreement: Agreement,
        start: Instant,
        read_only: bool,
    ) -> Self {
        servers.begin();
        Self {
            rules,
            servers,
            agreement,
            start,
            ttl: ttl_after(Duration::ZERO),
            read_only,
            nodes: vec![Seen::default(); rules.nodes()],
            missing: Place::ALL.len() * rules.nodes(),
            is_read: false,
            finding: Finding::Equal,
            is_complete: true,
            unfinished: 0,
            rejection: None,
        }
    }

    /// Returns whether servers that have replied may have been restarted since.
    fn is_late(&self, now: Instant) -> bool {
        now > self.start + max_reading(self.rules.node_timeout)
    }

    /// Returns whether no announcement that was in the last place since the start of this comparison was deleted yet.
    fn is_soon(&self, now: Instant) -> bool {
        now <= self.start + SOON
    }

    /// Compares the lists, and sends the announcements.
    fn compare(&mut self, now: Instant, io: &mut Io<Lane>) {
        (self.is_read, self.ttl) = (true, ttl_after(now.saturating_duration_since(self.start)));
        if self.is_late(now) {
            self.finding = Finding::Unconfirmed;
            return;
        }
        let known: Vec<_> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_known()).collect();
        let announced = || known.iter().map(|node| &self.nodes[*node].announced);
        self.finding = self.servers.compare_others(&announced());
        for announced in announced() {
            self.finding = self.finding.and(self.servers.compare_on(announced));
        }
        if self.read_only {
            return;
        }
        self.keep(&known, now);
        self.leave_out(&known, now);
        let announced = || known.iter().map(|node| &self.nodes[*node].announced);
        let claims = || announced().map(|announced| self.servers.claim(announced));
        let is_claimed = self.is_complete
            && known.len() == self.nodes.len()
            && claims().all(|claim| claim == Claimed::Own);
        let is_conflict = claims().any(|claim| claim == Claimed::Conflict);
        if is_claimed {
            self.agreement.join();
        }
        if claims().any(|claim| claim == Claimed::Busy) {
            self.finding = self.finding.and(Finding::Unconfirmed);
        }
        self.agreement.observe(is_conflict, self.is_complete, now);
        if !self.agreement.is_blocked() {
            self.copy(&known, now, io);
        }
        for node in known {
            self.announce(node, now, io);
        }
    }

    /// Keeps the servers in the lists whose votes count although the nodes do not reply, unless an announcement has [no
    /// room](Servers::without_room) for them. Then their votes no longer count once the comparison has ended. Until then,
    /// the announcements that it replaces carry their servers.
    fn keep(&mut self, known: &[usize], now: Instant) {
        if !self.servers.must_agree() {
            return;
        }
        let is_kept = |node: &usize| self.agreement.stands(*node, now) && !known.contains(node);
        let kept: Vec<_> = (0..self.nodes.len()).filter(is_kept).collect();
        self.servers.keep(&kept);
        for (place, listed) in self.listed(known) {
            let left_out = self.servers.without_room(&kept, place, &listed.token);
            self.servers.leave_out(&left_out);
            self.agreement.withdraw(&left_out);
        }
    }

    /// Leaves nodes out for whose servers the announcements have [no room](Servers::without_room), if the votes of other nodes
    /// count already.
    fn leave_out(&mut self, known: &[usize], now: Instant) {
        let counts = |node: usize| self.agreement.stands(node, now);
        if !self.servers.must_agree() || !(0..self.nodes.len()).any(counts) {
            return;
        }
        let new: Vec<_> = known.iter().copied().filter(|node| !counts(*node)).collect();
        for (place, listed) in self.listed(known) {
            // The other program runs, and has reached the other server. Or no vote relies on the announcement.
            let is_other = matches!(self.servers.compare(&listed), Finding::Differs(_));
            if is_other || !Lists::is_relied_on(&listed.token) {
                continue;
            }
            let left_out = self.servers.without_room(&new, place, &listed.token);
            self.servers.leave_out(&left_out);
            for node in left_out {
                self.nodes[node].is_left_out = true;
            }
        }
    }

    /// Returns the announcements on nodes in the places on which votes may rely.
    fn listed(&self, known: &[usize]) -> Vec<(Place, Listed)> {
        let places = [self.servers.place(), self.servers.place_of_neighbours()];
        let on = |place: Place| known.iter().filter_map(move |node| self.nodes[*node].announced.at(place));
        places.iter().flat_map(|place| on(*place).map(|listed| (*place, listed.clone()))).collect()
    }

    /// Copies the announcements of one list to the nodes of the other one.
    fn copy(&mut self, known: &[usize], now: Instant, io: &mut Io<Lane>) {
        let announced: Vec<_> = known.iter().map(|node| (*node, &self.nodes[*node].announced)).collect();
        for (node, copy) in self.servers.copies(&announced, now) {
            let lane = match copy.action {
                Action::Make | Action::Renew => Lane::Copy,
                Action::Replace(_) => Lane::RetractCopy,
            };
            self.nodes[node].copy = Some(copy);
            self.send(node, lane, io);
        }
    }

    /// Announces the lists on a node.
    fn announce(&mut self, node: usize, now: Instant, io: &mut Io<Lane>) {
        let announced = &self.nodes[node].announced;
        let lane = match self.servers.announcement(announced, !self.agreement.is_blocked()) {
            Announcement::Nothing => {
                if self.servers.claim(announced) == Claimed::Own {
                    let listed = announced.at(self.servers.place());
                    self.nodes[node].stands_until = listed.map(|listed| listed.until);
                    self.unguard_last(node, io);
                    self.confirm(node, now, io);
                }
                return;
            }
            Announcement::Announce(place) => Lane::Announce(place),
            Announcement::Renew(place) => Lane::Renew(place),
            Announcement::Replace(place) if self.servers.relies_on(place) => Lane::Guard,
            Announcement::Replace(place) => Lane::Retract(place),
        };
        if matches!(lane, Lane::Renew(_)) {
            self.unguard_last(node, io);
        }
        self.send(node, lane, io);
    }

    /// Deletes the announcement in the last place that was there while one of this list was replaced. Until then, the next
    /// comparison follows soon, because neighbours may wait for the place.
    fn unguard_last(&mut self, node: usize, io: &mut Io<Lane>) {
        let Some(guard) = self.servers.guard_in_last(&self.nodes[node].announced) else { return };
        if guard.remaining < Some(TTL.saturating_sub(3 * SOON)) {
            self.nodes[node].last = Some(guard.token.clone());
            self.send(node, Lane::UnguardLast, io);
        } else {
            self.unfinished += 1;
        }
    }

    /// Records that the announcement of this program stands on a node. If it did not stand there before, this looks again
    /// for others first: they may have been announced at the same time.
    fn confirm(&mut self, node: usize, now: Instant, io: &mut Io<Lane>) {
        if self.agreement.stands(node, now) {
            self.nodes[node].is_confirmed = true;
        } else {
            self.verify(node, io);
        }
    }

    fn verify(&mut self, node: usize, io: &mut Io<Lane>) {
        if !self.agreement.is_blocked() {
            self.send(node, Lane::Verify, io);
        }
    }

    /// Returns the agreement after this comparison.
    ///
    /// A vote that did not count before needs a confirmation of every node that has replied: a node in doubt may have an
    /// announcement without the server, or that of another program. A server without an identity is not compared.
    fn agreed(&self, now: Instant) -> Agreement {
        let mut agreement = self.agreement.clone();
        let compared = || self.nodes.iter().enumerate().filter(|(_, seen)| seen.is_compared());
        let is_in_doubt = compared().any(|(_, seen)| !seen.is_confirmed);
        for (node, seen) in compared().filter(|(_, seen)| seen.is_confirmed && !seen.is_left_out) {
            if let Some(until) = seen.stands_until {
                if !is_in_doubt || agreement.stands(node, now) {
                    agreement.stand(node, until);
                }
            }
        }
        agreement
    }

    /// Returns a node whose server does not state its identity, if votes rely on it.
    fn unidentified(&self) -> Option<(usize, NodeError)> {
        let has_no_identity = |seen: &Seen| seen.is_known() && seen.server.is_none();
        let node = self.nodes.iter().position(has_no_identity)?;
        self.servers
            .relies_on(self.servers.place())
            .then(|| (node, NodeError::rejected("the server does not state its identity")))
    }

    fn send(&mut self, node: usize, lane: Lane, io: &mut Io<Lane>) {
        io.send(node, lane);
        self.missing += 1;
    }

    /// Records a reply of the first phase.
    fn read(&mut self, place: Place, heard: Heard<Lane>) {
        let seen = &mut self.nodes[heard.node];
        (seen.connection, seen.server) = (heard.connection, heard.server.or(seen.server));
        match heard.outcome {
            Outcome::Free { .. } => {}
            Outcome::Held(entry) => {
                seen.announced.set(place, Listed::new(entry, heard.sent, heard.at, self.rules.node_timeout));
            }
            // The identity is known; the data of the server may be lost.
            Outcome::Quarantined { .. } => {
                seen.failure.get_or_insert(heard.outcome);
            }
            failed => {
                seen.failure.get_or_insert(failed);
                return;
            }
        }
        self.servers.note(heard.node, heard.server, heard.at);
    }

    /// Records the reply to an announcement.
    fn announced(&mut self, place: Place, heard: &Heard<Lane>, io: &mut Io<Lane>) {
        if place != self.servers.place() {
            return;
        }
        if matches!(heard.outcome, Outcome::Granted) {
            self.nodes[heard.node].stands_until = Some(heard.sent + certain(MIN_TTL));
            if self.nodes[heard.node].is_guarded {
                self.send(heard.node, Lane::Unguard, io);
            }
            return match heard.tag {
                Lane::Renew(_) => self.confirm(heard.node, heard.at, io),
                // The place was free: another program may have replaced its announcement just then.
                _ => self.verify(heard.node, io),
            };
        }
        self.not_announced(heard);
    }

    /// Records that the announcement of this program is in doubt on a node.
    ///
    /// The next comparison sees an announcement that another program has made meanwhile. A denial without a holder shows
    /// none: the announcement may have expired.
    fn not_announced(&mut self, heard: &Heard<Lane>) {
        self.finding = self.finding.and(Finding::Unconfirmed);
        match &heard.outcome {
            Outcome::Denied(Denial { holder: Some(holder), .. }) => {
                let is_conflict = !self.servers.may_equal(holder);
                self.agreement.observe(is_conflict, self.is_complete, heard.at);
            }
            // This node accepts no announcement of any program.
            Outcome::Failed(error) if has_no_rights(error) => {
                self.nodes[heard.node].failure.get_or_insert(heard.outcome.clone());
            }
            _ => {}
        }
    }

    /// Records the reply to the announcement in the place of neighbours.
    fn guarded(&mut self, heard: &Heard<Lane>, io: &mut Io<Lane>) {
        let is_guarded = matches!(heard.outcome, Outcome::Granted);
        let is_taken_by_neighbours = match &heard.outcome {
            Outcome::Denied(Denial { holder: Some(holder), .. }) => {
                let is_conflict = !self.servers.may_exclude(holder);
                self.agreement.observe(is_conflict, self.is_complete, heard.at);
                !is_conflict && !self.servers.may_equal(holder)
            }
            _ => false,
        };
        if is_guarded && !self.is_late(heard.at) {
            self.nodes[heard.node].is_guarded = true;
            self.send(heard.node, Lane::Retract(self.servers.place()), io);
        } else if is_taken_by_neighbours && !self.is_late(heard.at) {
            self.send(heard.node, Lane::GuardInLast, io);
        } else {
            self.finding = self.finding.and(Finding::Unconfirmed);
        }
    }

    /// Records the reply to the announcement in the last place.
    ///
    /// A program that does not agree with the others may have announced its lists there. It does so again afterwards.
    fn guarded_in_last(&mut self, heard: &Heard<Lane>, io: &mut Io<Lane>) {
        let next = match &heard.outcome {
            Outcome::Granted => Some(Lane::Retract(self.servers.place())),
            Outcome::Denied(Denial { holder: Some(holder), .. }) if !Lists::is_relied_on(holder) => {
                let last = &mut self.nodes[heard.node].last;
                last.replace(holder.clone()).is_none().then_some(Lane::ClearLast)
            }
            _ => None,
        };
        match next.filter(|_| self.is_soon(heard.at) && !self.is_late(heard.at)) {
            Some(lane) => self.send(heard.node, lane, io),
            // A former announcement of this list, or one of neighbours, is deleted soon.
            None => self.unfinished += 1,
        }
    }

    /// Records the reply to the second look at the place of neighbours, and looks at the last place.
    ///
    /// If a neighbour replaces its announcement just then, the new one is in the last place.
    fn verified(&mut self, heard: &Heard<Lane>, io: &mut Io<Lane>) {
        let is_conflict = match &heard.outcome {
            Outcome::Free { .. } => false,
            Outcome::Held(entry) => !self.servers.may_exclude(&entry.token),
            _ => return,
        };
        self.agreement.observe(is_conflict, self.is_complete, heard.at);
        if !is_conflict && self.servers.must_agree() {
            self.send(heard.node, Lane::VerifyLast, io);
        } else {
            self.nodes[heard.node].is_confirmed = !is_conflict;
        }
    }

    /// Records the reply to the look at the last place. Votes may rely on an announcement there only for a moment.
    fn verified_last(&mut self, heard: &Heard<Lane>) {
        let is_conflict = match &heard.outcome {
            Outcome::Free { .. } => false,
            Outcome::Held(entry) => {
                Lists::is_relied_on(&entry.token) && !self.servers.may_exclude(&entry.token)
            }
            _ => return,
        };
        self.agreement.observe(is_conflict, self.is_complete, heard.at);
        self.nodes[heard.node].is_confirmed = !is_conflict && self.is_soon(heard.at);
    }
}

impl Round for Compare {
    type Tag = Lane;
    type Output = Compared;

    fn start(&mut self, io: &mut Io<Lane>) {
        for place in Place::ALL {
            io.send_to_all(self.rules.nodes(), Lane::Read(place));
        }
    }

    fn request(&self, node: usize, lane: Lane) -> Option<Request> {
        let claim =
            |place: Place, token: Token| Claim::new(Resources::new([name(place)]).expect("one name"), token);
        let (announced, ttl) =
            (&self.nodes[node].announced, Ttl::new(self.ttl).expect("a TTL within the bounds"));
        let (neighbours, next) =
            (self.servers.place_of_neighbours(), |place| self.servers.token_on(announced, place));
        Some(match lane {
            Lane::Read(place) => Request::Inspect(name(place)),
            Lane::Verify => Request::Inspect(name(neighbours)),
            Lane::VerifyLast => Request::Inspect(name(Place::Other)),
            Lane::Guard => Request::Acquire(claim(neighbours, next(self.servers.place())), ttl),
            Lane::GuardInLast => {
                let last = claim(Place::Other, next(self.servers.place()));
                match announced.at(Place::Other) {
                    Some(listed) if listed.token == *last.token() => Request::Extend(last, ttl),
                    _ => Request::Acquire(last, ttl),
                }
            }
            Lane::UnguardLast | Lane::ClearLast => {
                Request::Release(claim(Place::Other, self.nodes[node].last.clone()?))
            }
            Lane::Unguard => Request::Release(claim(neighbours, next(self.servers.place()))),
            Lane::Retract(place) => Request::Release(claim(place, announced.at(place)?.token.clone())),
            Lane::Announce(place) => Request::Acquire(claim(place, next(place)), ttl),
            Lane::Renew(place) => Request::Extend(claim(place, self.servers.token(place)), ttl),
            Lane::Copy => {
                let ListCopy { token, ttl, action } = self.nodes[node].copy.clone()?;
                let (copy, ttl) = (claim(Place::First, token), Ttl::new(ttl).ok()?);
                match action {
                    Action::Make | Action::Replace(_) => Request::Acquire(copy, ttl),
                    Action::Renew => Request::Extend(copy, ttl),
                }
            }
            Lane::RetractCopy => match &self.nodes[node].copy.as_ref()?.action {
                Action::Replace(former) => Request::Release(claim(Place::First, former.clone())),
                Action::Make | Action::Renew => return None,
            },
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
                let (now, is_last) = (heard.at, self.missing == 0);
                self.read(place, heard);
                if is_last {
                    self.compare(now, io);
                }
            }
            Lane::Guard => self.guarded(&heard, io),
            Lane::GuardInLast => self.guarded_in_last(&heard, io),
            Lane::ClearLast => self.send(heard.node, Lane::GuardInLast, io),
            Lane::Retract(_) if self.is_late(heard.at) => {}
            Lane::Retract(place) => {
                self.ttl = ttl_after(heard.at.saturating_duration_since(self.start));
                self.send(heard.node, Lane::Announce(place), io);
            }
            Lane::Announce(place) | Lane::Renew(place) => self.announced(place, &heard, io),
            Lane::Verify => self.verified(&heard, io),
            Lane::VerifyLast => self.verified_last(&heard),
            Lane::RetractCopy if !self.is_late(heard.at) => self.send(heard.node, Lane::Copy, io),
            // The next comparison makes the copy, if the place is free then.
            Lane::Copy | Lane::RetractCopy | Lane::Unguard | Lane::UnguardLast => {}
        }
    }

    fn result(&mut self, now: Instant, _io: &mut Io<Lane>) -> Option<Compared> {
        (self.is_read && self.missing == 0).then(|| Compared {
            servers: self.servers.clone(),
            agreement: self.agreed(now),
            is_complete: self.is_complete,
            is_unfinished: self.unfinished > 0,
            finding: self.finding,
            nodes: self.nodes.clone(),
            rejection: self.rejection.take().or_else(|| self.unidentified()),
        })
    }

    fn name(&self, _operation: Operation) -> &'static str {
        COMPARE
    }

    fn counts_always(&self) -> bool {
        true
    }
}

/// Returns whether the node will also reject the next comparison.
fn has_no_rights(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Rejected | NodeErrorKind::Unsupported)
}

/// The end of an announcement on all nodes, of a program whose votes do not rely on it.
///
/// It also ends that of other such programs with the same list, which announce it again within seconds. Those whose lists
/// must agree have [another announcement](crate::decide::node_list::Lists::is_relied_on), which no program retracts.
pub(crate) struct Retract {
    claim: Claim,
    missing: usize,
}

impl Retract {
    pub(crate) fn new(rules: Rules, announced: Token) -> Self {
        let resources = Resources::new(Place::ALL.map(name)).expect("three names");
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
