//! Two clients, nodes, and every message between them.

use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: usize = 2;
const STEPS: usize = 180;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Acquire,
    /// Confirms m in this round of the attempt.
    Confirm(usize),
    Refill,
    Release,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) attempt: usize,
    pub(crate) node: usize,
    pub(crate) kind: RequestKind,
    /// The token m, if it is known.
    token: u8,
}

/// An event in the log of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Begun(usize),
    /// A node carried a request out and granted it. `received` is true if the reply contributed to m.
    Carried {
        request: Request,
        received: bool,
    },
    Lost(usize),
    /// The key of a failed attempt was set and removed.
    Passed(usize),
    Granted {
        attempt: usize,
        token: u8,
    },
}

/// An event, and the nodes after it.
pub(crate) type Line = (Event, Vec<Node>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Option<usize>,
    pub(crate) counter: u8,
}

#[derive(Clone, Debug)]
enum Phase {
    Idle,
    /// The replies by node, with their position in the log.
    Acquiring(BTreeMap<usize, (u8, usize)>),
    /// The nodes that count in this round.
    Confirming(BTreeSet<usize>),
    Held,
    /// The nodes that count, and whether a newer grant had returned when the round started.
    Extending(BTreeSet<usize>, bool),
}

#[derive(Clone, Debug)]
struct Client {
    phase: Phase,
    attempt: usize,
    round: usize,
    token: u8,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) log: Vec<Line>,
    /// The number of grants with a second round.
    pub(crate) confirmed: usize,
    pub(crate) extended: usize,
    late_extensions: usize,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    requests: Vec<Request>,
    /// Replies with their counter and position in the log.
    replies: Vec<(Request, u8, usize)>,
    attempts: usize,
    random: fastrand::Rng,
}

impl World {
    pub(crate) fn run(seed: u64, nodes: usize) -> Self {
        let idle = Client { phase: Phase::Idle, attempt: 0, round: 0, token: 0 };
        let mut world = Self {
            log: Vec::new(),
            confirmed: 0,
            extended: 0,
            late_extensions: 0,
            nodes: vec![Node::default(); nodes],
            clients: vec![idle; CLIENTS],
            requests: Vec::new(),
            replies: Vec::new(),
            attempts: 0,
            random: fastrand::Rng::with_seed(seed),
        };
        for node in 0..nodes {
            for _ in 0..world.random.u8(0..3) {
                world.nodes[node].counter += 1;
                world.note(Event::Passed(node));
            }
        }
        for _ in 0..STEPS {
            world.step();
        }
        world
    }

    /// Checks I2, I3 and I4 as they are defined.
    pub(crate) fn tokens_are_in_order(&self) -> bool {
        let events = || self.log.iter().map(|(event, _)| *event);
        let mut floors = BTreeMap::new();
        let (mut newest, mut seen, mut in_order) = (0, BTreeSet::new(), self.late_extensions == 0);
        for event in events() {
            match event {
                Event::Begun(attempt) => drop(floors.insert(attempt, newest)),
                Event::Granted { attempt, token } => {
                    in_order &= seen.insert(token) && token > floors[&attempt];
                    newest = newest.max(token);
                }
                Event::Carried { .. } | Event::Lost(_) | Event::Passed(_) => {}
            }
        }
        in_order
    }

    fn step(&mut self) {
        match self.random.u8(0..20) {
            0..9 if !self.requests.is_empty() => self.carry(),
            9..15 if !self.replies.is_empty() => {
                let reply = self.replies.swap_remove(self.random.usize(0..self.replies.len()));
                self.receive(reply);
            }
            15..17 => {
                let node = self.random.usize(0..self.nodes.len());
                if self.nodes[node].key.take().is_some() {
                    self.note(Event::Lost(node));
                }
            }
            _ => self.decide(),
        }
    }

    fn decide(&mut self) {
        let client = self.random.usize(0..CLIENTS);
        let Client { phase, attempt, token, .. } = self.clients[client].clone();
        match phase {
            Phase::Idle => {
                self.clients[client] = Client {
                    phase: Phase::Acquiring(BTreeMap::new()),
                    attempt: self.attempts,
                    round: 0,
                    token: 0,
                };
                self.note(Event::Begun(self.attempts));
                self.send(self.attempts, 0, RequestKind::Acquire);
                self.attempts += 1;
            }
            Phase::Held if self.random.u8(0..4) != 0 => {
                let behind = self.newest() > token;
                self.clients[client].round += 1;
                self.clients[client].phase = Phase::Extending(BTreeSet::new(), behind);
                self.send(attempt, token, RequestKind::Confirm(self.clients[client].round));
            }
            _ if self.random.u8(0..5) == 0 => {
                self.clients[client].phase = Phase::Idle;
                self.send(attempt, token, RequestKind::Release);
            }
            _ => {}
        }
    }

    fn newest(&self) -> u8 {
        let granted = |line: &Line| if let Event::Granted { token, .. } = line.0 { token } else { 0 };
        self.log.iter().map(granted).max().unwrap_or_default()
    }

    fn send(&mut self, attempt: usize, token: u8, kind: RequestKind) {
        self.requests.extend((0..self.nodes.len()).map(|node| Request { attempt, node, kind, token }));
    }

    /// Carries a request out by the rule. One request in four stays in flight.
    fn carry(&mut self) {
        let which = self.random.usize(0..self.requests.len());
        let request = self.requests[which];
        if self.random.u8(0..4) != 0 {
            self.requests.swap_remove(which);
        }
        let Request { attempt, node, kind, token } = request;
        let on = &mut self.nodes[node];
        let is_owner = on.key == Some(attempt);
        let yes = match kind {
            RequestKind::Acquire => {
                if on.key.is_none() {
                    *on = Node { key: Some(attempt), counter: on.counter + 1 };
                }
                on.key == Some(attempt)
            }
            RequestKind::Confirm(_) => is_owner && on.counter <= token,
            RequestKind::Refill => on.key.is_none() && on.counter <= token,
            RequestKind::Release => is_owner,
        };
        if !yes {
            return;
        }
        match kind {
            RequestKind::Acquire => {}
            RequestKind::Confirm(_) => on.counter = token,
            RequestKind::Refill => *on = Node { key: Some(attempt), counter: token },
            RequestKind::Release => on.key = None,
        }
        let reply = (request, on.counter, self.log.len());
        self.replies.push(reply);
        self.note(Event::Carried { request, received: false });
    }

    fn receive(&mut self, (request, counter, line): (Request, u8, usize)) {
        let Some(client) = self.clients.iter().position(|client| client.attempt == request.attempt) else {
            return;
        };
        let quorum = self.nodes.len() / 2 + 1;
        let is = &mut self.clients[client];
        match (&mut is.phase, request.kind) {
            (Phase::Acquiring(replies), RequestKind::Acquire) => {
                replies.entry(request.node).or_insert((counter, line));
                if replies.len() == quorum {
                    let replies = std::mem::take(replies);
                    self.replied(client, &replies);
                }
            }
            (Phase::Confirming(counts), RequestKind::Confirm(0)) => {
                counts.insert(request.node);
                if counts.len() == quorum {
                    self.confirmed += 1;
                    self.grant(client);
                }
            }
            (Phase::Extending(counts, behind), RequestKind::Confirm(round)) if round == is.round => {
                counts.insert(request.node);
                if counts.len() == quorum {
                    self.late_extensions += usize::from(*behind);
                    self.extended += 1;
                    let (attempt, token) = (is.attempt, is.token);
                    is.phase = Phase::Held;
                    self.send(attempt, token, RequestKind::Refill);
                }
            }
            _ => {}
        }
    }

    fn replied(&mut self, client: usize, replies: &BTreeMap<usize, (u8, usize)>) {
        let token = replies.values().map(|(counter, _)| *counter).max().unwrap_or_default();
        for (_, line) in replies.values() {
            if let Event::Carried { received, .. } = &mut self.log[*line].0 {
                *received = true;
            }
        }
        let attempt = self.clients[client].attempt;
        self.clients[client].token = token;
        self.send(attempt, token, RequestKind::Confirm(0));
        if replies.values().all(|(counter, _)| *counter == token) {
            self.grant(client);
        } else {
            self.clients[client].phase = Phase::Confirming(BTreeSet::new());
        }
    }

    fn grant(&mut self, client: usize) {
        self.clients[client].phase = Phase::Held;
        let Client { attempt, token, .. } = self.clients[client];
        self.note(Event::Granted { attempt, token });
    }

    fn note(&mut self, event: Event) {
        self.log.push((event, self.nodes.clone()));
    }
}
