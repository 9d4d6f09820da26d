//! The clocks of servers, and the guard of a client that watches them.
//!
//! A TTL and the age of a stamp are measured by the clock of the server. Waits, validities and the rest of the model are
//! measured by the clocks of the clients, which run evenly.

use std::fmt;

use crate::admission::protocol::Admission;
use crate::admission::scope::{MOST_TICKS, Scope, Transport};
use crate::admission::state::{Check, Key, Link, Node, Origin, Phase, State, Vote};
use crate::admission::step::Step;
use crate::admission::variant::Variant;

/// The bounds of the clocks of servers. The clients watch these clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The maximum number of steps forward, of all clocks together, up to three.
    pub steps: u8,
    /// The number of nodes whose clocks step.
    pub nodes: usize,
    /// The longest step in ticks, up to four.
    pub size: u8,
    /// The maximum number of steps back of one tick each, up to three.
    pub back: u8,
    /// True if a clock may also begin to run at twice its speed at any moment, instead of a step.
    pub fast: bool,
    /// The ticks by which a clock may be ahead of an earlier reading.
    pub tolerance: u8,
    /// The ticks of the TTL that no client relies on.
    pub slack: u8,
    /// True if replies may be late. Otherwise, a reply is received when its request is carried out.
    pub late_replies: bool,
    /// The maximum number of connections that break, up to three.
    pub reconnects: u8,
    /// The maximum number of times that an operator vouches for a node, up to three. The operator is right: no clock
    /// has stepped forward before.
    pub vouches: u8,
    /// The maximum number of processes that are replaced by new ones, up to three.
    pub replacements: u8,
    /// The assumption about clients that look at a node for the first time.
    pub first_look: FirstLook,
    /// True if a new client waits by its own clock from its first look on, whatever the age of the stamp is.
    pub strict: bool,
}

/// The moments at which a client may look at a node for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// At any moment, unless a clock has stepped forward shortly before and no client has noticed it.
    ///
    /// Shortly before means within the wait. A client has noticed it if it has looked at the node since.
    StepsAreNoticed,
    /// At any moment.
    AnyTime,
}

/// The bound of a difference that is stored. Greater ones are the same.
const MOST: i8 = 7;

/// The earlier readings of a clock, by a client that watches it.
///
/// Each reading is stored as the number of ticks by which the clock is now ahead of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    /// The lowest reading, which is the oldest one. Its age does not matter: a newer one of the full age replaces it.
    lowest: i8,
    /// Higher readings, by their age in ticks.
    higher: [Option<i8>; MOST_TICKS as usize],
}

/// A granted vote, and the reading of the clock behind it, whose reply is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The ticks by which the clock has stepped since the reading.
    stepped: i8,
    /// The ticks since the reading.
    waited: i8,
}

impl Reply {
    /// Packs a reply into seven bits.
    pub(crate) fn bits(self) -> u64 {
        u64::from((self.stepped + MOST).unsigned_abs()) << 3 | u64::from(self.waited.unsigned_abs())
    }
}

impl Readings {
    /// Returns true if the clock was ahead of the lowest reading by more than the tolerance, in a reply.
    pub(crate) fn is_ahead(&self, reply: Reply, tolerance: u8) -> bool {
        let tolerance = i8::try_from(tolerance).unwrap_or(MOST);
        self.lowest - reply.stepped - reply.waited > tolerance
    }

    /// Moves the clock.
    fn step(&mut self, by: i8) {
        for reading in self.higher.iter_mut().flatten().chain([&mut self.lowest]) {
            *reading = (*reading + by).clamp(-MOST, MOST);
        }
    }

    /// Creates the readings after a first one.
    fn new(ahead: i8) -> Self {
        Self { lowest: ahead, ..Self::default() }
    }

    /// Adds a reading that is no jump. The clock is now ahead of it.
    fn add(&mut self, ahead: i8) {
        if self.lowest <= ahead {
            *self = Self::new(ahead);
            return;
        }
        for reading in &mut self.higher {
            *reading = reading.filter(|earlier| *earlier > ahead);
        }
        // A reading shortly after another one is kept only if it is lower.
        self.higher[0] = self.higher[0].or(Some(ahead));
    }

    /// Lets a tick pass. Readings bound later ones for the time of the wait.
    fn age(&mut self, wait: u8) {
        let full = usize::from(wait.clamp(1, MOST_TICKS)) - 1;
        if let Some(reading) = self.higher[full].take() {
            self.lowest = reading;
        }
        self.higher.rotate_right(1);
    }

    /// Packs readings into 20 bits.
    pub(crate) fn bits(self) -> u64 {
        let bits = |ahead: i8| u64::from((ahead + MOST + 1).unsigned_abs());
        self.higher.iter().fold(bits(self.lowest), |all, reading| all << 4 | reading.map_or(0, bits))
    }
}

impl Admission {
    /// Returns the bounds of the clocks, if clients watch them.
    pub(crate) fn watched(self) -> Option<Clocks> {
        self.scope.clocks.filter(|_| self.variant != Variant::ClocksAreNotRead)
    }

    /// Moves the clock of a node.
    pub(crate) fn step_clock(self, state: &mut State, number: usize, by: i8) {
        let wait = self.scope.longest_ttl();
        let moved = |ticks: u8| (i16::from(ticks) - i16::from(by)).clamp(0, i16::from(u8::MAX));
        let to_ticks = |ticks: i16, most: u8| u8::try_from(ticks).unwrap_or(most).min(most);
        let node = &mut state.nodes[number];
        for data in [Some(&mut node.data), node.copy.as_mut()].into_iter().flatten() {
            data.key = data
                .key
                .map(|key| Key { left: to_ticks(moved(key.left), MOST.unsigned_abs()), ..key })
                .filter(|key| key.left > 0);
            // A stamp that is older than every wait may be of any age.
            if data.stamp.origin == Origin::Present && data.stamp.age < wait {
                data.stamp.age = to_ticks(i16::from(data.stamp.age) + i16::from(by), wait);
            }
        }
        if by > 0 {
            node.unnoticed = wait;
        }
        for link in node.links.iter_mut().filter(|link| link.knew && !link.is_other_server) {
            if self.variant != Variant::ClocksAreNotRead {
                link.readings.step(by);
            }
            if let Some(reply) = &mut link.reply {
                reply.stepped = (reply.stepped + by).clamp(-MOST, MOST);
            }
            if self.variant == Variant::OwnWaitByTheServer {
                link.own_wait = to_ticks(moved(link.own_wait), wait);
            }
        }
    }

    /// Applies a reading of the clock of a node, which the client watches.
    pub(crate) fn read(self, state: &mut State, client: usize, number: usize, reply: Reply) {
        let Some(clocks) = self.watched() else { return };
        let wait = self.wait(state, client);
        let link = &mut state.nodes[number].links[client];
        let is_jump = link.readings.is_ahead(reply, clocks.tolerance);
        if is_jump || self.variant == Variant::LastReadingAlone {
            link.readings = Readings::new(reply.stepped);
        } else {
            link.readings.add(reply.stepped);
        }
        if !is_jump {
            return;
        }
        // The locks that the jump has ended are lost.
        link.reply = None;
        (link.check, link.age, link.has_noticed) = (Check::Unchecked, 0, true);
        (link.own_wait, link.finds_outdated) =
            (wait, link.knows_stamp || self.variant != Variant::OneClientRenews);
        link.vote = if link.vote == Vote::Kept { Vote::None } else { link.vote };
    }

    /// Reads the clock and the stamp, without a look.
    pub(crate) fn compare(self, state: &mut State, client: usize, number: usize) {
        let link = &mut state.nodes[number].links[client];
        if !link.knows_stamp {
            (link.check, link.age, link.reply) = (Check::Unchecked, 0, None);
        }
        self.read(state, client, number, Reply::default());
    }

    /// Completes a look at a stamp that may have been renewed: another server begins another watch, and the reading of
    /// the clock follows.
    pub(crate) fn watch(self, state: &mut State, client: usize, number: usize, is_renewed: bool) {
        if self.scope.clocks.is_none() {
            return;
        }
        let wait = self.wait(state, client);
        let node = &mut state.nodes[number];
        if is_renewed {
            self.forget_stamp(node);
        }
        let (age, is_vouched) = (node.data.stamp.age, node.data.stamp.is_vouched);
        let link = &mut node.links[client];
        if is_vouched {
            link.own_wait = 0;
        }
        let is_unwatched = !link.knew && self.scope.clocks.is_some_and(|clocks| clocks.strict);
        if link.is_other_server || is_unwatched {
            link.own_wait = wait;
        }
        if link.is_other_server || !link.knew {
            link.readings = Readings::default();
        }
        let is_new = !link.knew && self.variant == Variant::NewProcessesIgnoreStamps;
        link.age = if is_new { wait } else { age };
        (link.is_other_server, link.knew, link.knows_stamp, link.finds_outdated) = (false, true, true, false);
        let had_noticed = std::mem::take(&mut link.has_noticed);
        self.read(state, client, number, Reply::default());
        let node = &mut state.nodes[number];
        if had_noticed && !node.links[client].has_noticed {
            node.unnoticed = 0;
        }
    }

    /// Breaks the connection of a client to a node. The client still knows the readings.
    pub(crate) fn reconnect(self, state: &mut State, client: usize, number: usize) {
        state.reconnects += 1;
        let link = &mut state.nodes[number].links[client];
        (link.check, link.age, link.reply) = (Check::Unchecked, 0, None);
        if self.variant == Variant::ReconnectBeginsAnew {
            (link.readings, link.own_wait) = (Readings::default(), 0);
        }
    }

    /// Returns true if a client may look at a node, under the assumption about first looks.
    fn may_begin_to_watch(self, state: &State, client: usize, number: usize) -> bool {
        let node = &state.nodes[number];
        let assumes = |clocks: Clocks| clocks.first_look == FirstLook::StepsAreNoticed;
        node.links[client].knew || node.unnoticed == 0 || !self.scope.clocks.is_some_and(assumes)
    }

    /// Returns true if a new process may replace a client.
    pub(crate) fn may_be_replaced(self, state: &State, client: usize) -> bool {
        let most = self.scope.clocks.map_or(0, |clocks| clocks.replacements);
        let has_looked = state.nodes.iter().any(|node| node.links[client] != Link::default());
        state.clients[client].phase == Phase::Idle && state.replacements < most && has_looked
    }

    /// Adds the steps by which a client watches a node.
    pub(crate) fn steps_of_watch(self, state: &State, client: usize, node: usize, steps: &mut Vec<Step>) {
        let (link, stamp) = (state.nodes[node].links[client], state.nodes[node].data.stamp);
        let is_checked = link.check == Check::Checked;
        // Otherwise, reading the clock or looking again changes nothing.
        let reads = !link.knows_stamp || link.readings != Readings::default();
        let is_as_before = is_checked && !reads && stamp.origin == Origin::Present && link.age == stamp.age;
        let looks = !is_checked || self.watched().is_some() && !is_as_before;
        if looks && self.may_begin_to_watch(state, client, node) {
            steps.push(Step::Look { client, node });
        }
        if self.watched().is_some() && reads && self.is_admitted(state, client, node) {
            steps.push(Step::Read { client, node });
        }
        if is_checked && self.scope.clocks.is_some_and(|clocks| state.reconnects < clocks.reconnects) {
            steps.push(Step::Reconnect { client, node });
        }
    }

    /// Ends the wait of a node.
    pub(crate) fn vouch(self, state: &mut State, number: usize) {
        state.vouches += 1;
        let node = &mut state.nodes[number];
        node.data.stamp.age = self.scope.longest_ttl();
        node.data.stamp.is_vouched = true;
        self.forget_stamp(node);
    }

    /// Records that the stamp of a node has changed.
    fn forget_stamp(self, node: &mut Node) {
        for link in &mut node.links {
            link.knows_stamp = false;
            link.finds_outdated &= self.variant != Variant::OneClientRenews;
        }
    }

    /// Adds the possible steps of clocks.
    pub(crate) fn steps_of_clocks(self, state: &State, steps: &mut Vec<Step>) {
        let Some(clocks) = self.scope.clocks else { return };
        for node in (0..self.scope.nodes).filter(|node| state.nodes[*node].may_step) {
            if state.steps[0] < clocks.steps {
                let sizes = 1..=i8::try_from(clocks.size).unwrap_or(MOST);
                steps.extend(sizes.map(|by| Step::Clock { node, by }));
                if clocks.fast && !state.nodes[node].is_fast {
                    steps.push(Step::RunFast { node });
                }
            }
            let stamp = state.nodes[node].data.stamp;
            let is_intact = stamp.origin == Origin::Present && state.steps[0] == 0;
            if state.vouches < clocks.vouches && is_intact && !stamp.is_vouched {
                steps.push(Step::Vouch { node });
            }
            if state.steps[1] < clocks.back {
                steps.push(Step::Clock { node, by: -1 });
            }
        }
    }

    /// Makes every client of the first state watch a node since long ago, if it has looked at it.
    pub(crate) fn begin_watched(self, node: &mut Node) {
        for link in node.links.iter_mut().filter(|link| link.check == Check::Checked) {
            (link.knew, link.knows_stamp, link.age) = (true, true, self.scope.longest_ttl());
        }
    }

    /// Removes data about clocks that affects no later step.
    pub(crate) fn reduce_clocks(self, state: &mut State) {
        if self.scope.helps_new_clients() {
            return;
        }
        for node in self.nodes(state) {
            node.unnoticed = 0;
            node.links.iter_mut().for_each(|link| link.has_noticed = false);
        }
    }

    /// Lets a tick pass on the clocks of a node, and for the clients that watch it.
    pub(crate) fn tick_clock(self, state: &mut State, number: usize) {
        let Some(clocks) = self.scope.clocks else { return };
        let wait = self.scope.longest_ttl();
        for client in 0..state.nodes[number].links.len() {
            let kept = self.wait(state, client);
            let link = &mut state.nodes[number].links[client];
            link.readings.age(kept);
            if let Some(reply) = &mut link.reply {
                reply.waited = (reply.waited + 1).min(MOST);
            }
            if link.check == Check::Checked {
                link.age = (link.age + 1).min(wait);
            }
        }
        let node = &mut state.nodes[number];
        node.unnoticed = node.unnoticed.saturating_sub(1);
        if clocks.fast && node.is_fast {
            self.step_clock(state, number, 1);
        }
    }
}

impl Clocks {
    /// Returns true if a state can store these bounds, and the rest of the scope is the one that clients with a watch have.
    pub(crate) fn fit(self, scope: Scope) -> bool {
        let counts = [self.steps, self.back, self.reconnects, self.vouches, self.replacements];
        let stored = counts.iter().all(|count| *count <= 3) && self.size <= 4 && self.tolerance < 4;
        let watched = scope.transport == Transport::Pushes && !scope.bounds_differ() && !scope.remembers;
        stored && watched && self.slack < scope.longest_ttl()
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", clock steps {} of up to {}", self.steps, self.size)?;
        if self.nodes == 1 {
            f.write_str(" on one node")?;
        }
        f.write_str(if self.fast { " or fast" } else { "" })?;
        let counted = [(self.back, "back"), (self.tolerance, "tolerance"), (self.slack, "slack")];
        let counted = counted
            .into_iter()
            .chain([(self.reconnects, "reconnects"), (self.replacements, "replaced processes")])
            .chain([(self.vouches, "vouched nodes")]);
        for (count, name) in counted.filter(|(count, _)| *count > 0) {
            write!(f, ", {name} {count}")?;
        }
        f.write_str(if self.strict { ", strict" } else { "" })?;
        f.write_str(if self.late_replies { ", late replies" } else { "" })?;
        f.write_str(if self.first_look == FirstLook::AnyTime { ", first looks at any time" } else { "" })
    }
}
