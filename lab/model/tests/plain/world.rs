//! Two clients, nodes, and every message between them.

use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: usize = 2;
const STEPS: usize = 180;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Acquire,
    /// Of which round of its attempt.
    Confirm(usize),
    Refill,
    Release,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) attempt: usize,
    pub(crate) node: usize,
    pub(crate) asks: Asks,
    /// m, where there is one.
    token: u8,
}

/// What has happened, for whoever looks back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Begun(usize),
    /// A node carried a request out, and said yes; `heard` if that was one of the answers that decided m.
    Carried {
        request: Request,
        heard: bool,
    },
    Lost(usize),
    /// Somebody else's key came and went.
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
    /// By node, the answer and where it stands in the log.
    Asking(BTreeMap<usize, (u8, usize)>),
    /// The nodes that count in this round.
    Confirming(BTreeSet<usize>),
    Held,
    /// The same, and whether a newer grant had returned when it began.
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
    /// How many grants took a second round.
    pub(crate) confirmed: usize,
    pub(crate) extended: usize,
    late_extensions: usize,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    requests: Vec<Request>,
    /// With the counter, and where it stands in the log.
    answers: Vec<(Request, u8, usize)>,
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
            answers: Vec::new(),
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

    /// I2, I3 and I4, as they are written.
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
            9..15 if !self.answers.is_empty() => {
                let answer = self.answers.swap_remove(self.random.usize(0..self.answers.len()));
                self.hear(answer);
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
                    phase: Phase::Asking(BTreeMap::new()),
                    attempt: self.attempts,
                    round: 0,
                    token: 0,
                };
                self.note(Event::Begun(self.attempts));
                self.send(self.attempts, 0, Asks::Acquire);
                self.attempts += 1;
            }
            Phase::Held if self.random.u8(0..4) != 0 => {
                let behind = self.newest() > token;
                self.clients[client].round += 1;
                self.clients[client].phase = Phase::Extending(BTreeSet::new(), behind);
                self.send(attempt, token, Asks::Confirm(self.clients[client].round));
            }
            _ if self.random.u8(0..5) == 0 => {
                self.clients[client].phase = Phase::Idle;
                self.send(attempt, token, Asks::Release);
            }
            _ => {}
        }
    }

    fn newest(&self) -> u8 {
        let granted = |line: &Line| if let Event::Granted { token, .. } = line.0 { token } else { 0 };
        self.log.iter().map(granted).max().unwrap_or_default()
    }

    fn send(&mut self, attempt: usize, token: u8, asks: Asks) {
        self.requests.extend((0..self.nodes.len()).map(|node| Request { attempt, node, asks, token }));
    }

    /// The rule, at a node. One request in four is still there afterwards.
    fn carry(&mut self) {
        let which = self.random.usize(0..self.requests.len());
        let request = self.requests[which];
        if self.random.u8(0..4) != 0 {
            self.requests.swap_remove(which);
        }
        let Request { attempt, node, asks, token } = request;
        let on = &mut self.nodes[node];
        let ours = on.key == Some(attempt);
        let yes = match asks {
            Asks::Acquire => {
                if on.key.is_none() {
                    *on = Node { key: Some(attempt), counter: on.counter + 1 };
                }
                on.key == Some(attempt)
            }
            Asks::Confirm(_) => ours && on.counter <= token,
            Asks::Refill => on.key.is_none() && on.counter <= token,
            Asks::Release => ours,
        };
        if !yes {
            return;
        }
        match asks {
            Asks::Acquire => {}
            Asks::Confirm(_) => on.counter = token,
            Asks::Refill => *on = Node { key: Some(attempt), counter: token },
            Asks::Release => on.key = None,
        }
        let answer = (request, on.counter, self.log.len());
        self.answers.push(answer);
        self.note(Event::Carried { request, heard: false });
    }

    fn hear(&mut self, (request, counter, line): (Request, u8, usize)) {
        let Some(client) = self.clients.iter().position(|client| client.attempt == request.attempt) else {
            return;
        };
        let quorum = self.nodes.len() / 2 + 1;
        let is = &mut self.clients[client];
        match (&mut is.phase, request.asks) {
            (Phase::Asking(answers), Asks::Acquire) => {
                answers.entry(request.node).or_insert((counter, line));
                if answers.len() == quorum {
                    let answers = std::mem::take(answers);
                    self.answered(client, &answers);
                }
            }
            (Phase::Confirming(counts), Asks::Confirm(0)) => {
                counts.insert(request.node);
                if counts.len() == quorum {
                    self.confirmed += 1;
                    self.grant(client);
                }
            }
            (Phase::Extending(counts, behind), Asks::Confirm(round)) if round == is.round => {
                counts.insert(request.node);
                if counts.len() == quorum {
                    self.late_extensions += usize::from(*behind);
                    self.extended += 1;
                    let (attempt, token) = (is.attempt, is.token);
                    is.phase = Phase::Held;
                    self.send(attempt, token, Asks::Refill);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, client: usize, answers: &BTreeMap<usize, (u8, usize)>) {
        let token = answers.values().map(|(counter, _)| *counter).max().unwrap_or_default();
        for (_, line) in answers.values() {
            if let Event::Carried { heard, .. } = &mut self.log[*line].0 {
                *heard = true;
            }
        }
        let attempt = self.clients[client].attempt;
        self.clients[client].token = token;
        self.send(attempt, token, Asks::Confirm(0));
        if answers.values().all(|(counter, _)| *counter == token) {
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
