//! Every interleaving of comparisons in small scopes: no two programs with different lists ever agree at one time, so that
//! both can hold one lock.
//!
//! The rounds are those that ship, on nodes that this file models. Requests to a node that programs with different lists have
//! in common are carried out in every order, also across comparisons. Within the bounds of a scope, a request is lost before or
//! after it is carried out, a program does not reach its other nodes, and ten seconds pass: programs are paused, requests
//! time out, and announcements expire.
//!
//! # Omissions
//!
//! - Requests to the other nodes are carried out at once. Only programs with one list use them.
//! - Programs always read the common nodes, unless ten seconds pass. Otherwise they notice nothing there, which
//!   [`node_lists_must_agree`](crate::Builder::node_lists_must_agree) states.
//! - Servers keep their data and their identities, except one server in one scope.
//! - A request is carried out within its node timeout, or never.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::time::Duration;

use super::*;
use crate::decide::fencing::Bound;
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::node::Reply;
use crate::round::outcome::outcome;
use crate::types::entry::LockEntry;

/// The lists of a program: its nodes, and the previous ones during a change.
type Lists = (&'static [usize], &'static [usize]);

#[derive(Clone, Copy)]
struct Scope {
    lists: &'static [Lists],
    /// The nodes that programs with different lists have in common.
    common: &'static [usize],
    /// The comparisons of each program.
    comparisons: &'static [&'static [Reach]],
    /// How many times ten seconds may pass.
    passes: u8,
    /// The maximum number of lost requests and replies.
    faults: u8,
    /// Pairs of programs: the first one begins only when the second one is settled.
    starts: &'static [(usize, usize)],
    /// Programs that complete a comparison in every ten seconds, from their first one to their last one.
    steady: &'static [usize],
    /// A node whose server is restarted once without its data, and then has another identity. The first program has ended
    /// by then, and the other programs do not reach the node before.
    restarted: Option<usize>,
}

/// The possible sets of nodes that a program does not reach in a comparison, as bits.
type Reach = &'static [u32];

#[derive(Clone, Debug)]
struct World {
    now: Instant,
    keys: Vec<[Option<Key>; 3]>,
    /// The identities of the servers.
    servers: Vec<u64>,
    programs: Vec<Program>,
    passes: u8,
    faults: u8,
    is_restarted: bool,
}

#[derive(Clone, Debug)]
struct Key {
    token: Token,
    until: Instant,
}

#[derive(Clone, Debug)]
struct Program {
    /// The nodes in the order of the lists.
    nodes: Vec<usize>,
    rules: Rules,
    servers: Servers,
    agreement: Agreement,
    comparisons: usize,
    /// True once its votes count after a comparison in which all requests succeeded.
    is_settled: bool,
    /// The time of the last completed comparison.
    last: Option<Instant>,
    round: Option<Compare>,
    messages: Vec<Message>,
}

#[derive(Clone, Debug)]
struct Message {
    node: usize,
    lane: Lane,
    request: Request,
    sent: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A program begins a comparison, and does not reach the nodes in these bits.
    Begin { program: usize, unreached: u32 },
    /// A request is carried out, and its reply arrives.
    Carry { program: usize, message: usize },
    /// A request is lost, before or after it is carried out.
    Lose { program: usize, message: usize, is_carried_out: bool },
    /// Ten seconds pass. Requests in flight are lost.
    Pass,
    /// The first program has ended, and a server is restarted.
    Restart { node: usize },
}

const PASS: Duration = Duration::from_secs(10);

impl World {
    fn new(scope: Scope) -> Self {
        let nodes = scope.lists.iter().flat_map(|(nodes, previous)| nodes.iter().chain(*previous));
        let nodes = nodes.max().map_or(0, |last| last + 1);
        Self {
            now: Instant::since_origin(Duration::from_secs(100)),
            keys: vec![[None, None, None]; nodes],
            servers: (1..).take(nodes).collect(),
            programs: scope.lists.iter().map(|lists| Program::new(*lists)).collect(),
            passes: 0,
            faults: 0,
            is_restarted: false,
        }
    }

    fn steps(&self, scope: Scope) -> Vec<Step> {
        let mut steps = Vec::new();
        for (program, is) in self.programs.iter().enumerate() {
            let mut starts = scope.starts.iter().filter(|(later, _)| *later == program);
            let may_begin = is.round.is_none() && starts.all(|(_, other)| self.programs[*other].is_settled);
            let reach = scope.comparisons[program].get(is.comparisons).filter(|_| may_begin);
            let down = scope.restarted.filter(|_| program > 0 && !self.is_restarted);
            let is_possible = |set: &&u32| {
                (0..).zip(&is.nodes).all(|(bit, node)| down != Some(*node) || **set >> bit & 1 == 1)
            };
            let sets = reach.into_iter().copied().flatten().filter(is_possible);
            steps.extend(sets.map(|set| Step::Begin { program, unreached: *set }));
            for (message, sent) in is.messages.iter().enumerate() {
                steps.push(Step::Carry { program, message });
                if self.faults < scope.faults && !matches!(sent.lane, Lane::Read(_)) {
                    steps.extend([false, true].map(|is_carried_out| Step::Lose {
                        program,
                        message,
                        is_carried_out,
                    }));
                }
            }
        }
        let may_wait = |program: &usize| {
            let (is, comparisons) = (&self.programs[*program], scope.comparisons[*program].len());
            is.comparisons == 0
                || is.round.is_none() && (is.last == Some(self.now) || is.comparisons == comparisons)
        };
        let may_pass = self.passes < scope.passes && scope.steady.iter().all(may_wait);
        steps.extend(may_pass.then_some(Step::Pass));
        let first = &self.programs[0];
        let may_restart = !self.is_restarted && first.is_settled && first.round.is_none();
        steps.extend(scope.restarted.filter(|_| may_restart).map(|node| Step::Restart { node }));
        steps
    }

    fn apply(&mut self, scope: Scope, step: Step) {
        match step {
            Step::Begin { program, unreached } => {
                let is = &mut self.programs[program];
                is.comparisons += 1;
                let (servers, agreement) = (is.servers.clone(), is.agreement.clone());
                let mut round = Compare::new(is.rules, servers, agreement, self.now, false);
                let mut io = Io::default();
                round.start(&mut io);
                is.round = Some(round);
                self.send(scope, program, io, unreached);
            }
            Step::Carry { program, message } => {
                let message = self.programs[program].messages.remove(message);
                self.carry_out(scope, program, &message);
            }
            Step::Lose { program, message, is_carried_out } => {
                self.faults += 1;
                let message = self.programs[program].messages.remove(message);
                if is_carried_out {
                    let node = self.programs[program].nodes[message.node];
                    self.reply(node, &message.request);
                }
                self.hear(scope, program, &message, Outcome::TimedOut);
            }
            Step::Restart { node } => {
                self.is_restarted = true;
                self.servers[node] += self.servers.len() as u64;
                self.keys[node] = [None, None, None];
                let first = &mut self.programs[0];
                first.agreement = Agreement::new(first.nodes.len());
                first.comparisons = scope.comparisons[0].len();
            }
            Step::Pass => {
                (self.passes, self.now) = (self.passes + 1, self.now + PASS);
                for program in 0..self.programs.len() {
                    while let Some(message) = self.programs[program].messages.pop() {
                        self.hear(scope, program, &message, Outcome::TimedOut);
                    }
                }
            }
        }
    }

    /// Sends requests. Those that do not matter to programs with other lists are carried out at once.
    fn send(&mut self, scope: Scope, program: usize, io: Io<Lane>, unreached: u32) {
        let mut at_once = Vec::new();
        for (node, lane) in io.sends {
            let is = &mut self.programs[program];
            let Some(request) = is.round.as_ref().and_then(|round| round.request(node, lane)) else {
                continue;
            };
            let message = Message { node, lane, request, sent: self.now };
            let is_in_other_place = matches!(
                lane,
                Lane::Read(Place::Other)
                    | Lane::Announce(Place::Other)
                    | Lane::Renew(Place::Other)
                    | Lane::Retract(Place::Other)
            );
            let is_unreached = unreached >> node & 1 == 1;
            if is_in_other_place || is_unreached || !scope.common.contains(&is.nodes[node]) {
                at_once.push(message);
            } else {
                is.messages.push(message);
            }
        }
        for message in at_once {
            if unreached >> message.node & 1 == 1 {
                let failed = Outcome::Failed(NodeError::unavailable("connection refused"));
                self.hear(scope, program, &message, failed);
            } else {
                self.carry_out(scope, program, &message);
            }
        }
    }

    fn carry_out(&mut self, scope: Scope, program: usize, message: &Message) {
        let node = self.programs[program].nodes[message.node];
        let reply = self.reply(node, &message.request);
        let outcome = outcome(Ok(reply), &message.request);
        self.hear(scope, program, message, outcome);
    }

    fn hear(&mut self, scope: Scope, program: usize, message: &Message, outcome: Outcome) {
        let (is, now) = (&mut self.programs[program], self.now);
        let Some(round) = &mut is.round else { return };
        let server = NonZeroU64::new(self.servers[is.nodes[message.node]]).map(ServerId::from);
        let Message { node, lane: tag, sent, .. } = *message;
        let mut io = Io::default();
        round.heard(Heard { node, tag, outcome, connection: None, server, sent, at: now }, &mut io);
        if let Some(compared) = round.result(now, &mut io) {
            (is.servers, is.agreement, is.round) = (compared.servers, compared.agreement, None);
            is.last = Some(now);
            is.is_settled |= compared.is_complete && is.agrees(now);
        }
        self.send(scope, program, io, 0);
    }

    /// Carries a request out on a node.
    fn reply(&mut self, node: usize, request: &Request) -> Reply {
        let now = self.now;
        let place = |resource: &Resource| {
            NAMES.iter().position(|name| name.as_bytes() == resource.as_bytes()).expect("a place")
        };
        let of_claim = |claim: &Claim| place(claim.all_resources().first().expect("one name"));
        let keys = &mut self.keys[node];
        for key in keys.iter_mut() {
            *key = key.take().filter(|key| now < key.until);
        }
        match request {
            Request::Inspect(resource) => match &keys[place(resource)] {
                None => Reply::Free { waiters: None },
                Some(Key { token, until }) => {
                    let mut entry = LockEntry::of(token.clone());
                    entry.remaining = Some(until.saturating_duration_since(now));
                    Reply::Held(entry)
                }
            },
            Request::Acquire(claim, ttl) => {
                let key = &mut keys[of_claim(claim)];
                let until = now + ttl.as_duration();
                match key {
                    Some(key) if key.token != *claim.token() => {
                        return Reply::Denied(Denial::by(key.token.clone()));
                    }
                    Some(_) => {}
                    None => *key = Some(Key { token: claim.token().clone(), until }),
                }
                Reply::Granted
            }
            Request::Extend(claim, ttl) => match &mut keys[of_claim(claim)] {
                Some(key) if key.token == *claim.token() => {
                    key.until = key.until.max(now + ttl.as_duration());
                    Reply::Granted
                }
                Some(key) => Reply::Denied(Denial::by(key.token.clone())),
                None => Reply::Denied(Denial::of_gone_key()),
            },
            Request::Release(claim) => {
                let key = &mut keys[of_claim(claim)];
                let is_held = key.as_ref().is_some_and(|key| key.token == *claim.token());
                *key = key.take().filter(|_| !is_held);
                Reply::Deleted(is_held)
            }
            other => panic!("no request of a comparison: {other:?}"),
        }
    }

    /// Returns whether two programs can hold one lock: there are quorums of the votes that count for each of them, without a
    /// common node.
    fn is_violated(&self) -> bool {
        let sets = 0_u32..1 << self.keys.len();
        let grants = |program: &Program, set: u32| {
            let counts = |position: usize| {
                set >> program.nodes[position] & 1 == 1
                    && program.agreement.uncounted(position, self.now).is_none()
            };
            program.rules.quorums.are_met_by(counts)
        };
        let all = (1 << self.keys.len()) - 1;
        self.programs.iter().enumerate().any(|(number, one)| {
            let others = &self.programs[number + 1..];
            others.iter().any(|other| sets.clone().any(|set| grants(one, set) && grants(other, all & !set)))
        })
    }

    /// Returns the number of programs that can hold a lock.
    fn agreed(&self) -> usize {
        self.programs.iter().filter(|program| program.agrees(self.now)).count()
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }
}

impl Program {
    fn new((nodes, previous): Lists) -> Self {
        let mut all = nodes.to_vec();
        all.extend(previous.iter().filter(|node| !nodes.contains(node)));
        let position = |node: &usize| all.iter().position(|other| other == node).expect("it is listed");
        let quorums = if previous.is_empty() {
            Quorums::of(nodes.len())
        } else {
            Quorums::of_change(nodes.len(), &previous.iter().map(position).collect::<Vec<_>>())
        };
        let rules = Rules {
            quorums,
            drift: DriftFactor::new(0.01).expect("a factor within the bounds"),
            bound: Bound::of(Duration::from_secs(86_400)),
            node_timeout: Duration::from_millis(200),
        };
        let agreement = Agreement::new(all.len());
        let servers = Servers::new(quorums, true, None);
        Self {
            nodes: all,
            rules,
            servers,
            agreement,
            comparisons: 0,
            is_settled: false,
            last: None,
            round: None,
            messages: Vec::new(),
        }
    }

    /// Returns whether the program can hold a lock.
    fn agrees(&self, now: Instant) -> bool {
        self.rules.quorums.are_met_by(|node| self.agreement.uncounted(node, now).is_none())
    }
}

/// The result of an exploration.
#[derive(Default)]
struct Explored {
    seen: HashSet<u64>,
    /// The greatest number of programs that can hold a lock at one time.
    agreed: usize,
    /// The first path to a state in which two programs can hold one lock.
    overlap: Option<Vec<Step>>,
}

/// Visits every state, until two programs can hold one lock.
fn explore(scope: Scope) -> Explored {
    let mut explored = Explored::default();
    visit(scope, &World::new(scope), &mut Vec::new(), &mut explored);
    explored
}

fn visit(scope: Scope, world: &World, path: &mut Vec<Step>, explored: &mut Explored) {
    if explored.overlap.is_some() || !explored.seen.insert(world.digest()) {
        return;
    }
    if world.is_violated() {
        explored.overlap = Some(path.clone());
        return;
    }
    explored.agreed = explored.agreed.max(world.agreed());
    for step in world.steps(scope) {
        let mut next = world.clone();
        next.apply(scope, step);
        path.push(step);
        visit(scope, &next, path, explored);
        path.pop();
    }
}

/// A program reaches all of its nodes.
const ALL: Reach = &[0];

/// A program with three nodes reaches the first one, and any of the others.
const ANY: Reach = &[0, 0b010, 0b100, 0b110];

/// The same for a program with five nodes, of which it does not reach two.
const FIVE: Reach = &[0b01010, 0b10010, 0b01100, 0b10100, 0b00110, 0b11000, 0b01000];

/// One node in common.
const ONE: Scope = Scope {
    lists: &[(&[0, 1, 2], &[]), (&[0, 3, 4], &[])],
    common: &[0],
    comparisons: &[&[ALL, ALL], &[ALL, ALL]],
    passes: 0,
    faults: 0,
    starts: &[],
    steady: &[],
    restarted: None,
};

/// Two nodes in common.
const TWO: Scope = Scope {
    lists: &[(&[0, 1, 2], &[]), (&[0, 1, 3], &[])],
    common: &[0, 1],
    comparisons: &[&[ALL], &[ALL]],
    ..ONE
};

/// One program is in the middle of another change.
const CHANGE: Scope = Scope { lists: &[(&[0, 1, 2], &[]), (&[0, 3, 4], &[0, 5, 6])], ..ONE };

/// Two programs with one list, and one with another.
const THREE: Scope = Scope {
    lists: &[(&[0, 1, 2], &[]), (&[0, 1, 2], &[]), (&[0, 3, 4], &[])],
    comparisons: &[&[ALL], &[ALL], &[ALL]],
    ..ONE
};

/// The announcement of the first program has the former identity of the server in common, and no room for the new one. The
/// second program reaches one of its other nodes before, and all of them afterwards.
const RETURN: Scope = Scope {
    lists: &[(&[0, 1, 2], &[]), (&[0, 1, 2], &[]), (&[1, 3, 4], &[])],
    common: &[1],
    comparisons: &[&[ALL], &[&[0b011, 0b110], ALL], &[ALL]],
    starts: &[(1, 0)],
    restarted: Some(1),
    ..ONE
};

/// The three steps of a change, without a node in both lists. The program of step 2 comes last.
const STEPS: Scope = Scope {
    lists: &[(&[0], &[]), (&[1], &[]), (&[1], &[0])],
    common: &[0, 1],
    comparisons: &[&[ALL, ALL], &[ALL], &[ALL, ALL]],
    // The program of step 2 sees that of step 1 before that of step 3 starts.
    starts: &[(2, 0), (1, 2)],
    steady: &[0, 2],
    ..ONE
};

/// The same, and the program of step 3 is first.
const BACK: Scope = Scope { starts: &[(2, 1), (0, 2)], steady: &[1, 2], ..STEPS };

mod tests {
    use super::*;

    /// Explores a scope, in which at most so many programs can hold a lock at one time, one after the other.
    #[track_caller]
    fn never_overlap(scope: Scope, agreed: usize, least_states: usize) {
        let explored = explore(scope);
        assert!(explored.overlap.is_none(), "two programs can hold one lock: {:?}", explored.overlap);
        assert_eq!(agreed, explored.agreed);
        assert!(explored.seen.len() >= least_states, "{} states", explored.seen.len());
    }

    #[test]
    fn programs_with_one_common_node_never_agree_at_one_time() {
        never_overlap(Scope { passes: 2, ..ONE }, 1, 7_000);
        never_overlap(Scope { passes: 1, faults: 1, ..ONE }, 1, 4_000);
    }

    #[test]
    fn programs_with_two_common_nodes_never_agree_at_one_time() {
        never_overlap(Scope { passes: 1, comparisons: &[&[ALL, ALL], &[ALL]], ..TWO }, 1, 9_000);
    }

    /// Both agree while they reach a quorum only with the common node.
    #[test]
    fn programs_that_reach_parts_of_their_lists_can_never_hold_one_lock() {
        never_overlap(Scope { passes: 1, comparisons: &[&[ANY, ANY], &[ANY]], ..ONE }, 2, 8_000);
        never_overlap(Scope { comparisons: &[&[ANY, ALL], &[ANY, ALL]], ..ONE }, 2, 8_000);
    }

    #[test]
    fn programs_of_two_changes_never_agree_at_one_time() {
        never_overlap(Scope { passes: 1, ..CHANGE }, 1, 1_000);
    }

    /// The nodes that the program with two lists reaches in one comparison could be of one list with those of the other
    /// program, but not all nodes whose votes count.
    #[test]
    fn the_votes_that_count_at_one_time_are_of_one_list() {
        never_overlap(Scope { comparisons: &[&[ANY], &[FIVE, FIVE]], ..CHANGE }, 2, 20_000);
        never_overlap(Scope { comparisons: &[&[ANY, ANY], &[FIVE]], ..CHANGE }, 2, 10_000);
    }

    /// The first program counts votes of its whole list while the other one replaces an announcement on which its votes rely.
    #[test]
    fn an_announcement_that_is_replaced_beside_neighbours_is_noticed() {
        never_overlap(
            Scope { comparisons: &[&[&[0b100], ALL], &[&[0b10100], &[0b10000]]], ..CHANGE },
            2,
            1_000,
        );
    }

    #[test]
    fn two_programs_with_one_list_never_agree_beside_another() {
        never_overlap(Scope { comparisons: &[&[ALL, ALL], &[ALL], &[ALL]], ..THREE }, 2, 1_000);
    }

    /// The vote of that server does not count, but the other list is noticed there before other votes count.
    #[test]
    fn a_server_that_is_left_out_shows_another_list() {
        never_overlap(Scope { passes: 1, ..RETURN }, 1, 100);
        never_overlap(Scope { passes: 1, faults: 1, ..RETURN }, 1, 200);
    }

    /// A program of step 2 runs all the time. It sees the program that is first before the other one starts.
    #[test]
    fn programs_of_the_first_and_the_last_step_never_agree_beside_one_of_the_middle_step() {
        never_overlap(Scope { passes: 1, ..STEPS }, 2, 5_000);
        never_overlap(Scope { faults: 1, comparisons: &[&[ALL], &[ALL], &[ALL; 2]], ..STEPS }, 2, 300);
        never_overlap(Scope { comparisons: &[&[ALL], &[ALL; 2], &[ALL; 2]], ..BACK }, 2, 1_000);
    }

    #[test]
    fn programs_of_the_first_and_the_last_step_agree_without_one_of_the_middle_step() {
        // It has not compared lists between their starts.
        let at_once = Scope { starts: &[], comparisons: &[&[ALL], &[ALL], &[ALL]], ..STEPS };
        // It has ended before the program of step 3 starts.
        let ended = Scope { passes: 3, comparisons: &[&[ALL; 4], &[ALL], &[ALL]], ..STEPS };
        for scope in [at_once, ended] {
            assert!(explore(scope).overlap.is_some());
        }
    }

    /// `scripts/exhaust rounds` explores these.
    #[test]
    #[ignore = "takes minutes"]
    fn large_scopes_violate_nothing() {
        never_overlap(Scope { passes: 1, comparisons: &[&[ANY, ANY], &[ANY, ANY]], ..ONE }, 2, 800_000);
        never_overlap(Scope { passes: 4, comparisons: &[&[ALL; 3], &[ALL; 3]], ..ONE }, 1, 300_000);
        never_overlap(Scope { passes: 3, comparisons: &[&[ALL; 2], &[ALL], &[ALL; 4]], ..STEPS }, 2, 50_000);
    }

    /// `scripts/exhaust rounds` explores these.
    #[test]
    #[ignore = "takes minutes"]
    fn large_scopes_of_a_change_violate_nothing() {
        never_overlap(Scope { comparisons: &[&[ANY, ANY], &[FIVE, FIVE]], ..CHANGE }, 2, 100_000);
        never_overlap(Scope { faults: 1, comparisons: &[&[ANY], &[FIVE, FIVE]], ..CHANGE }, 2, 100_000);
    }
}
