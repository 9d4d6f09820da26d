//! Restart admission, without clocks that step.
//!
//! Random walks of the model are carried out with the rule of `redlock-wire` and its script: looks, ticks, and losses of
//! data. The rule waits by the clock of the client after some losses. Thus it is between two rules of the model: a node that
//! it admits is admitted by the rule that does not remember, and it admits each node that the rule that remembers admits.

use std::time::Duration;

use redlock_core::node;
use redlock_core::node::QuarantineReason;
use redlock_core::runtime::Instant;
use redlock_model::admission::{Admission, Loss, SMALL, Scope, Start, State, Step, Variant};
use redlock_model::{Model, Rule};
use redlock_server::{ClientId, Keyspace, Server, Settings};
use redlock_wire::fuzzing::NodeAdmission;

const CLIENTS: usize = 2;

const SCOPE: Scope = Scope { losses: 3, ..SMALL };

/// The longest TTL that the clients state.
const LONGEST_TTL: Duration = Duration::from_secs(10);

const WALKS: u64 = 150;

const STEPS: usize = 60;

const STAMP: &[u8] = b"redlock:admission";

/// A server that runs the script of a look.
struct Node {
    server: Server,
    connection: ClientId,
    copy: Keyspace,
    starts: u64,
    promotions: u64,
}

/// The real rule in the place of the model.
struct World {
    nodes: Vec<Node>,
    clients: Vec<Vec<NodeAdmission>>,
    tick: Duration,
    now: Duration,
}

fn identity(node: usize, number: u64) -> String {
    format!("{:020x}{:020x}", node + 1, number + 1)
}

impl World {
    fn new(scope: Scope) -> Self {
        let client = || (0..scope.nodes).map(|_| NodeAdmission::new("n", LONGEST_TTL)).collect::<Vec<_>>();
        let clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
        let ticks = u32::from(scope.ttl[0]);
        let tick = clients[0][0].wait() / ticks + Duration::from_millis(1);
        let nodes = (0..scope.nodes).map(|number| Node::new(number, scope.start != Start::NewNodes));
        let mut world = Self { nodes: nodes.collect(), clients, tick, now: Duration::from_secs(1_000) };
        let old = match scope.start {
            Start::Admitted => CLIENTS,
            Start::NewClient => 1,
            Start::NewClients | Start::NewNodes => 0,
        };
        for client in 0..old {
            (0..scope.nodes).for_each(|node| world.look(client, node));
        }
        world
    }

    fn at(&self) -> Instant {
        Instant::since_origin(self.now)
    }

    fn look(&mut self, client: usize, node: usize) {
        let (at, now) = (self.at(), self.now);
        let admission = &self.clients[client][node];
        let look = admission.begin(at);
        let reply = self.nodes[node].execute(&look.command(), now);
        admission.apply(look, &reply, at);
    }

    fn is_admitted(&self, client: usize, node: usize) -> bool {
        matches!(self.clients[client][node].admission(self.at()), node::Admission::Admitted(_))
    }

    fn perform(&mut self, step: Step) {
        match step {
            Step::Tick => self.now += self.tick,
            Step::Look { client, node } => self.look(client, node),
            Step::Copy { node } => {
                let node = &mut self.nodes[node];
                node.copy = node.server.keys(Keyspace::clone);
            }
            Step::Lose { node, loss } => {
                self.nodes[node].lose(node, loss);
                for client in &mut self.clients {
                    match loss {
                        // The connection stays, and the server notifies of the loss.
                        Loss::Flush => client[node].lose(QuarantineReason::DataLost),
                        _ => client[node].connect(),
                    }
                }
            }
            other => panic!("no step of these walks: {other}"),
        }
    }
}

impl Node {
    /// Creates a server. A stamped one has never lost anything.
    fn new(number: usize, stamped: bool) -> Self {
        let settings = Settings { run_id: identity(number, 0), ..Settings::default() };
        let stamp = format!("1 {} {} 0 0", settings.run_id, settings.replid2);
        let mut server = Server::new(settings);
        if stamped {
            server.change(|keys| keys.set_text(STAMP, &stamp));
        }
        let connection = server.connect();
        Self { server, connection, copy: Keyspace::default(), starts: 0, promotions: 0 }
    }

    fn execute(&mut self, command: &[Vec<u8>], now: Duration) -> redlock_wire::Reply {
        let micros = u64::try_from(now.as_micros()).expect("a walk is short");
        self.server.execute(self.connection, command, micros);
        redlock_wire::decode(&self.server.take_output(self.connection)).expect("the reply is complete").0
    }

    fn lose(&mut self, number: usize, loss: Loss) {
        let copy = self.copy.clone();
        match loss {
            Loss::RestartEmpty | Loss::Flush => self.server.change(|keys| *keys = Keyspace::default()),
            Loss::RestartOlder | Loss::Failback => self.server.change(|keys| *keys = copy),
            Loss::RestartWhole => {}
            Loss::ClockForward => panic!("clocks do not step in these walks"),
        }
        if Loss::RESTARTS.contains(&loss) {
            self.starts += 1;
            let run_id = identity(number, self.starts);
            self.server.set(|settings| settings.run_id = run_id);
        } else if loss == Loss::Failback {
            self.promotions += 1;
            let replid2 = identity(number, self.promotions);
            self.server.set(|settings| settings.replid2 = replid2);
        }
    }
}

/// Returns true if the steps belong to the rule, and not to locks.
fn is_about_admission(step: &Step) -> bool {
    matches!(step, Step::Tick | Step::Look { .. } | Step::Copy { .. } | Step::Lose { .. })
}

/// Returns the first difference between the rule and the model on a random walk.
fn difference(seed: u64, start: Start, variant: Variant) -> Option<String> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let scope = Scope { start, ..SCOPE };
    let loose = Admission::broken(scope, variant);
    let strict = Admission::broken(Scope { remembers: true, ..scope }, variant);
    let (mut loosely, mut strictly) = (loose.first(), strict.first());
    let mut world = World::new(scope);
    let (mut trace, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        steps.clear();
        loose.steps(&loosely, &mut steps);
        steps.retain(is_about_admission);
        let step = steps[chance.usize(..steps.len())];
        trace.push(step.to_string());
        (loosely, strictly) = (loose.next(&loosely, step), strict.next(&strictly, step));
        world.perform(step);
        for client in 0..CLIENTS {
            for node in 0..scope.nodes {
                let admits = |model: Admission, state: &State| model.is_admitted(state, client, node);
                // A client looks again when the wait is over.
                if admits(strict, &strictly) && !world.is_admitted(client, node) {
                    world.look(client, node);
                }
                let is_admitted = world.is_admitted(client, node);
                if is_admitted && !admits(loose, &loosely) || admits(strict, &strictly) && !is_admitted {
                    trace.push(format!("client {client} admits n{node}: {is_admitted}, unlike the model"));
                    return Some(trace.join("\n"));
                }
            }
        }
    }
    None
}

const STARTS: [Start; 4] = [Start::Admitted, Start::NewClients, Start::NewClient, Start::NewNodes];

#[test]
fn the_admission_rule_agrees_with_the_model() {
    for start in STARTS {
        for seed in 0..WALKS {
            let difference = difference(seed, start, Variant::Sound);
            assert_eq!(None, difference, "seed {seed}, {start:?}");
        }
    }
}

#[test]
fn broken_variants_fail() {
    let variants = [
        Variant::NoRule,
        Variant::NoWait,
        Variant::WaitTooShort,
        Variant::OwnWaitAlone,
        Variant::UptimeAlone,
        Variant::StampWithoutIdentity,
        Variant::RunIdAlone,
        Variant::StaleTimeIsKept,
        Variant::MissingStampIsFresh,
        Variant::MissingStampIsOver,
        Variant::UncheckedCounts,
        Variant::FlushIsNotNotified,
    ];
    for variant in variants {
        let mut walks = STARTS.into_iter().flat_map(|start| (0..WALKS).map(move |seed| (seed, start)));
        let fails = walks.any(|(seed, start)| difference(seed, start, variant).is_some());
        assert!(fails, "{variant:?} agrees with the rule on all walks");
    }
}
