//! The admission rule as a state machine: the steps that are possible in a state, and their effects.

use crate::admission::property::Property;
use crate::admission::scope::CLIENTS;
use crate::admission::scope::{MOST_NODES, MOST_TICKS, Scope, Start};
use crate::admission::state::{Check, Client, Extend, Link, Node, Origin, Phase, Request, Stamp, State};
use crate::admission::step::Step;
use crate::admission::variant::Variant;
use crate::catalog::Rule;
use crate::explore::Model;

/// The rule within bounds, either sound or broken.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The bounds.
    pub scope: Scope,
    /// The variant of the rule.
    pub variant: Variant,
}

impl Admission {
    /// Returns the nodes of the scope.
    pub(crate) fn nodes(self, state: &mut State) -> impl Iterator<Item = &mut Node> {
        state.nodes.iter_mut().take(self.scope.nodes)
    }

    /// Returns the age of a stamp after a tick. It is counted only as long as it may matter.
    pub(crate) fn older(self, stamp: Stamp) -> u8 {
        let counts = match stamp.origin {
            Origin::Missing => false,
            Origin::Earlier => self.variant == Variant::StaleTimeIsKept,
            Origin::Present => true,
        };
        if counts { (stamp.age + 1).min(self.scope.longest_ttl()) } else { stamp.age }
    }

    fn steps_of(self, state: &State, client: usize, steps: &mut Vec<Step>) {
        let is = state.clients[client];
        let last = self.is_last(state, client);
        if !last {
            let idle = is.phase == Phase::Idle;
            steps.push(if idle { Step::Begin { client } } else { Step::End { client } });
        }
        if !last && self.may_be_replaced(state, client) {
            steps.push(Step::Replace { client });
        }
        if is.phase == Phase::Held && is.extensions < self.scope.extensions[client] {
            steps.push(Step::Extend { client });
        }
        // Its looks may still serve others.
        let finished = last && self.needs_no_votes(state, client) && !self.scope.helps_new_clients();
        for (node, on) in state.nodes.iter().enumerate().take(self.scope.nodes) {
            let link = on.links[client];
            let may_look = link.check == Check::Unchecked
                || link.check == Check::Checked && on.data.stamp.origin != Origin::Present;
            if may_look && !finished && self.variant != Variant::NoRule && self.scope.clocks.is_none() {
                steps.push(Step::Look { client, node });
            }
            if self.scope.clocks.is_some() && !finished {
                self.steps_of_watch(state, client, node, steps);
            }
            if link.check == Check::Unaware && self.variant == Variant::CountedByTheNewLink {
                steps.push(Step::Hear { client, node });
            }
            let sends = self.variant == Variant::ExtensionsCountUnwritten;
            if sends && link.acquire == Request::Pending && self.is_admitted(state, client, node) {
                steps.push(Step::Send { client, node });
            }
            if link.reply.is_some() {
                steps.push(Step::Receive { client, node });
            }
            if self.may_acquire(state, client, node) {
                steps.push(Step::Acquire { client, node });
            }
            if link.extend == Extend::Pending {
                steps.push(Step::Prolong { client, node });
            }
            if self.may_refill(state, client, node) {
                steps.push(Step::Refill { client, node });
            }
        }
    }

    /// Returns true if a client has a lease, and will not extend it.
    fn needs_no_votes(self, state: &State, client: usize) -> bool {
        let Client { phase, extensions, .. } = state.clients[client];
        phase == Phase::Held && extensions == self.scope.extensions[client]
    }

    /// Returns true if a client will begin no further attempt.
    fn is_last(self, state: &State, client: usize) -> bool {
        state.clients[client].attempts == self.scope.attempts[client]
    }

    /// Removes data that affects neither a property nor a later step.
    fn reduce(self, state: &mut State) {
        let ended = |client| self.is_last(state, client) && state.clients[client].phase == Phase::Idle;
        if (0..CLIENTS).any(ended) {
            // Two leases at once are no longer possible.
            *state = self.over();
            return;
        }
        self.reduce_clocks(state);
        if state.losses == self.scope.losses {
            self.nodes(state).for_each(|node| node.copy = None);
        }
        for client in 0..CLIENTS {
            if !self.needs_no_votes(state, client) {
                continue;
            }
            // Its writes in flight could only prevent grants.
            let last = self.is_last(state, client);
            for node in self.nodes(state) {
                let kept = node.links[client].without_requests();
                let is_over = last && !self.scope.helps_new_clients();
                node.links[client] = if is_over { Link::default() } else { kept };
            }
        }
    }

    fn over(self) -> State {
        let mut state = State::default();
        for (client, attempts) in state.clients.iter_mut().zip(self.scope.attempts) {
            client.attempts = attempts;
        }
        state
    }
}

impl Rule for Admission {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        let up_to = |most: u8, counts: [u8; CLIENTS]| counts.iter().all(|count| *count <= most);
        let fits = (3..=MOST_NODES).contains(&scope.nodes)
            && up_to(MOST_TICKS, scope.ttl)
            && up_to(3, scope.attempts)
            && up_to(3, scope.extensions)
            && scope.losses <= 3
            && scope.clocks.is_none_or(|clocks| clocks.fit(scope));
        assert!(fits, "too large: {scope}");
        Self { scope, variant }
    }

    fn consequences(&self, before: &State, step: Step, after: &State) -> String {
        self.outcome(before, step, after)
    }
}

impl Model for Admission {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = Property::ALL;

    fn first(&self) -> State {
        let mut state = State::default();
        let differ = self.scope.bounds_differ();
        let longest = if differ { self.scope.ttl[0].min(self.scope.ttl[1]) } else { 0 };
        for (number, node) in self.nodes(&mut state).enumerate() {
            node.may_step = self.scope.clocks.is_some_and(|clocks| number < clocks.nodes);
            if self.scope.start != Start::NewNodes {
                let age = self.scope.longest_ttl();
                node.data.stamp = Stamp { origin: Origin::Present, age, longest, is_vouched: false };
            }
            let old = match self.scope.start {
                Start::Admitted => CLIENTS,
                Start::NewClient => 1,
                Start::NewClients | Start::NewNodes => 0,
            };
            let knew = self.scope.remembers;
            node.links[..old].fill(Link { check: Check::Checked, knew, ..Link::default() });
            if self.scope.clocks.is_some() {
                self.begin_watched(node);
            }
        }
        state
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        if *state == self.over() {
            return;
        }
        steps.push(Step::Tick);
        for client in 0..CLIENTS {
            self.steps_of(state, client, steps);
        }
        self.steps_of_clocks(state, steps);
        if state.losses == self.scope.losses {
            return;
        }
        let copies = self.scope.kinds.iter().any(|kind| kind.takes_copy());
        for (node, on) in state.nodes.iter().enumerate().take(self.scope.nodes) {
            if copies && on.copy != Some(self.copied(on.data)) {
                steps.push(Step::Copy { node });
            }
            let possible = self.scope.kinds.iter().filter(|loss| loss.is_possible(on));
            steps.extend(possible.map(|loss| Step::Lose { node, loss: *loss }));
        }
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = *state;
        match step {
            Step::Tick => self.tick(&mut next),
            Step::Begin { client } => self.begin(&mut next, client),
            Step::End { client } => self.end(&mut next, client),
            Step::Extend { client } => self.extend(&mut next, client),
            Step::Look { client, node } => self.look(&mut next, client, node),
            Step::Send { client, node } => next.nodes[node].links[client].acquire = Request::Sent,
            Step::Hear { client, node } => next.nodes[node].links[client].check = Check::Unchecked,
            Step::Acquire { client, node } => self.acquire(&mut next, client, node),
            Step::Prolong { client, node } => self.prolong(&mut next, client, node),
            Step::Refill { client, node } => Self::refill(&mut next, client, node),
            Step::Copy { node } => next.nodes[node].copy = Some(self.copied(next.nodes[node].data)),
            Step::Lose { node, loss } => self.lose(&mut next, node, loss),
            Step::Receive { client, node } => self.receive(&mut next, client, node),
            Step::Read { client, node } => self.compare(&mut next, client, node),
            Step::Clock { node, by } => {
                next.steps[usize::from(by < 0)] += 1;
                self.step_clock(&mut next, node, by);
            }
            Step::RunFast { node } => {
                next.steps[0] += 1;
                next.nodes[node].is_fast = true;
            }
            Step::Vouch { node } => self.vouch(&mut next, node),
            Step::Reconnect { client, node } => self.reconnect(&mut next, client, node),
            Step::Replace { client } => {
                next.replacements += 1;
                self.nodes(&mut next).for_each(|node| node.links[client] = Link::default());
            }
        }
        self.decide(&mut next);
        self.reduce(&mut next);
        next
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        let packed = state.pack(self.scope.nodes);
        if self.scope.is_symmetric() { packed.min(state.exchanged().pack(self.scope.nodes)) } else { packed }
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        match property {
            Property::Exclusion => !(0..CLIENTS).all(|client| state.is_valid(client)),
            Property::NoneStuck => self.none_is_stuck(state),
        }
    }
}
