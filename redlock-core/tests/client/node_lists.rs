//! Programs that list different nodes notice it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::recording::Recording;
use crate::common::{MS, NODE_TIMEOUT, TTL, builder, subscribe};
use redlock_core::node::{Begun, LockNode, Profile, Request, ServerId, Status};
use redlock_core::runtime::Runtime;
use redlock_core::{AnnouncedLists, Builder, ErrorKind, Redlock};
use redlock_testkit::sim::{Process, Simulation, for_each_seed};
use redlock_testkit::{FakeNode, Fault, Operation};

const SECOND: Duration = Duration::from_secs(1);
const DIFFER: &str = "node lists differ between programs: both can hold one lock";

/// Seven nodes, and programs that list some of them.
struct World {
    simulation: Simulation,
    nodes: Vec<FakeNode>,
}

/// A program, with the events that it logs.
struct Program {
    process: Process,
    redlock: Redlock,
}

impl World {
    fn new(seed: u64, change: impl Fn(FakeNode) -> FakeNode) -> Self {
        let simulation = Simulation::new(seed).max_polls(5_000_000);
        let servers = simulation.process("servers");
        let node = |number| change(FakeNode::new(format!("fake-{number}"), servers.runtime()));
        Self { nodes: (0..7).map(node).collect(), simulation }
    }

    /// Starts a program that lists these nodes.
    fn program(&self, name: &str, nodes: &[usize]) -> Program {
        let process = self.simulation.process(name);
        let nodes: Vec<_> = nodes.iter().map(|number| self.nodes[*number].clone()).collect();
        let redlock = builder(&process, &nodes).compare_node_lists(true).build().unwrap();
        Program { process, redlock }
    }

    /// Starts a program whose requests may take this time.
    fn program_with_timeout(
        &self,
        name: &str,
        nodes: &[usize],
        timeout: Duration,
        must_agree: bool,
    ) -> Program {
        let process = self.simulation.process(name);
        let nodes: Vec<_> = nodes.iter().map(|number| self.nodes[*number].clone()).collect();
        let builder = builder(&process, &nodes).node_timeout(timeout).compare_node_lists(true);
        Program { redlock: builder.node_lists_must_agree(must_agree).build().unwrap(), process }
    }

    /// Starts a program in the middle of a change of the nodes.
    fn changing(&self, name: &str, nodes: &[usize], previous: &[usize]) -> Program {
        let process = self.simulation.process(name);
        let listed =
            |list: &[usize]| list.iter().map(|number| self.nodes[*number].clone()).collect::<Vec<_>>();
        let previous = listed(previous).into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>);
        let builder = builder(&process, &listed(nodes)).previous_nodes(previous);
        Program { redlock: builder.compare_node_lists(true).build().unwrap(), process }
    }

    /// Returns five nodes whose servers have another identity after each restart.
    fn restarting(&self) -> Vec<Restarting> {
        let restarting = |node: &FakeNode| Restarting { node: node.clone(), restarts: Arc::default() };
        self.nodes[..5].iter().map(restarting).collect()
    }

    /// Starts a program that lists these nodes.
    fn program_over(&self, name: &str, nodes: &[Restarting]) -> Program {
        self.patient_program_over(name, nodes, NODE_TIMEOUT)
    }

    /// Same as [`program_over`](World::program_over), with this time limit for requests.
    fn patient_program_over(&self, name: &str, nodes: &[Restarting], timeout: Duration) -> Program {
        self.restarting_program(name, nodes, timeout, false)
    }

    fn restarting_program(
        &self,
        name: &str,
        nodes: &[Restarting],
        timeout: Duration,
        must_agree: bool,
    ) -> Program {
        let process = self.simulation.process(name);
        let nodes = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        let builder = Builder::new(process.runtime()).nodes(nodes).node_timeout(timeout);
        let builder = builder.compare_node_lists(true).node_lists_must_agree(must_agree);
        Program { redlock: builder.build().unwrap(), process }
    }

    /// Locks once, so that the comparison begins.
    fn lock(&self, program: &Program) {
        let guard = self.simulation.block_on(&program.process, program.redlock.lock("a", TTL)).unwrap();
        self.simulation.block_on(&program.process, async move { guard.release().await }).unwrap();
    }

    /// Returns the difference that a program reports, as numbers of own, other and common nodes.
    fn difference(&self, program: &Program) -> Option<(usize, usize, usize)> {
        let redlock = program.redlock.clone();
        let health = self.simulation.block_on(&program.process, async move { redlock.health().await });
        health.node_list_difference().map(|it| (it.own_nodes(), it.other_nodes(), it.common_nodes()))
    }
}

/// The lists of two programs, and the common nodes if they differ.
const LISTS: [(&[usize], &[usize], Option<usize>); 8] = [
    (&[0, 1, 2], &[2, 3, 4], Some(1)),
    (&[0, 1, 2], &[0, 1, 2, 3, 4], Some(3)),
    (&[0, 1, 2], &[0, 1, 3], Some(2)),
    (&[0], &[0, 1, 2], Some(1)),
    (&[0, 1, 2], &[3, 4, 5], None),
    (&[0, 1, 2], &[2, 1, 0], None),
    (&[0, 1, 2, 3, 4], &[4, 3, 2, 1, 0], None),
    (&[3], &[3], None),
];

#[test]
fn both_programs_notice_a_difference_within_a_second() {
    for change in [FakeNode::watching, FakeNode::ordered] {
        for_each_seed(20, |seed| {
            for (one, two, common) in LISTS {
                let recording = Recording::default();
                let _subscribed = subscribe(recording.clone());
                let world = World::new(seed, change);
                let first = world.program("one", one);
                world.lock(&first);
                world.simulation.run_for(3 * SECOND);
                assert!(recording.of(DIFFER).is_empty());
                let second = world.program("two", two);
                world.lock(&second);
                // Without notifications, the first program compares every ten seconds.
                let is_notified = world.nodes[0].profile().watch;
                world.simulation.run_for(if is_notified { SECOND } else { 10 * SECOND });
                let warnings = recording.of(DIFFER);
                assert_eq!(
                    if common.is_some() { 2 } else { 0 },
                    warnings.len(),
                    "{one:?} {two:?}: {warnings:?}"
                );
                assert_eq!(common.map(|common| (one.len(), two.len(), common)), world.difference(&first));
                assert_eq!(common.map(|common| (two.len(), one.len(), common)), world.difference(&second));
            }
        });
    }
}

/// The lists have as many nodes as each other, or not. The time until a difference is certain does not depend on the time
/// limit of requests, nor on how long the first program runs.
#[test]
fn both_programs_notice_a_difference_within_a_second_of_their_start_with_a_long_node_timeout() {
    for_each_seed(20, |seed| {
        for (one, two, common) in LISTS {
            for must_agree in [false, true] {
                let recording = Recording::default();
                let _subscribed = subscribe(recording.clone());
                let world = World::new(seed, FakeNode::watching);
                let start = |name, list| {
                    let program = world.program_with_timeout(name, list, 3 * SECOND, must_agree);
                    let redlock = program.redlock.clone();
                    program.process.spawn(Box::pin(async move { drop(redlock.lock("a", TTL).await) }));
                    program
                };
                let _first = start("one", one);
                world.simulation.run_for(100 * MS);
                assert!(recording.of(DIFFER).is_empty());
                let _second = start("two", two);
                world.simulation.run_for(SECOND);
                let expected = if common.is_some() { 2 } else { 0 };
                let warnings = recording.of(DIFFER);
                assert_eq!(expected, warnings.len(), "{one:?} {two:?}, {must_agree}: {warnings:?}");
            }
        }
    });
}

/// The other program announces its list again within ten seconds.
#[test]
fn the_health_of_a_program_that_has_just_started_shows_a_difference() {
    for_each_seed(20, |seed| {
        for (one, two, common) in LISTS {
            let world = World::new(seed, FakeNode::watching);
            let first = world.program("one", one);
            world.lock(&first);
            world.simulation.run_for(3 * SECOND);
            let second = world.program("two", two);
            let start = second.process.now();
            assert_eq!(common.map(|common| (two.len(), one.len(), common)), world.difference(&second));
            assert!(second.process.now() < start + 12 * SECOND);
        }
    });
}

#[test]
fn lists_agree_again_half_a_minute_after_the_other_program_has_ended() {
    for_each_seed(20, |seed| {
        let recording = Recording::default();
        let _subscribed = subscribe(recording.clone());
        let world = World::new(seed, FakeNode::watching);
        let (first, second) = (world.program("one", &[0, 1, 2]), world.program("two", &[2, 3, 4]));
        world.lock(&first);
        world.lock(&second);
        world.simulation.run_for(60 * SECOND);
        assert_eq!(2, recording.of(DIFFER).len(), "one warning for each program");
        first.process.kill();
        world.simulation.run_for(41 * SECOND);
        assert_eq!(1, recording.of("node lists agree again").len());
        assert_eq!(None, world.difference(&second));
        drop(second.redlock);
        world.simulation.run_for(SECOND);
        assert_eq!(0, second.process.tasks(), "the task ends with the last handle");
        assert!(world.nodes.iter().all(|node| node.inner().is_empty()), "and retracts the announcement");
    });
}

/// A node that does not reply may be the only one in both lists.
#[test]
fn a_difference_is_reported_until_all_nodes_reply_without_it() {
    for_each_seed(20, |seed| {
        let recording = Recording::default();
        let _subscribed = subscribe(recording.clone());
        let world = World::new(seed, FakeNode::watching);
        let (first, second) = (world.program("one", &[0, 1, 2]), world.program("two", &[2, 3, 4]));
        world.lock(&first);
        world.lock(&second);
        world.simulation.run_for(2 * SECOND);
        assert_eq!(2, recording.of(DIFFER).len());
        world.nodes[2].crash();
        world.simulation.run_for(60 * SECOND);
        assert!(world.difference(&first).is_some() && world.difference(&second).is_some());
        assert!(!recording.events().iter().any(|event| event.message.starts_with("node lists ")));
        world.nodes[2].restart();
        world.simulation.run_for(20 * SECOND);
        assert!(world.difference(&first).is_some() && world.difference(&second).is_some());
        second.process.kill();
        world.simulation.run_for(41 * SECOND);
        assert_eq!(None, world.difference(&first));
    });
}

#[test]
fn the_task_ends_even_if_the_last_handle_is_dropped_at_once() {
    for_each_seed(50, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let Program { process, redlock } = world.program("one", &[0, 1, 2]);
        let work = async move { drop(redlock.lock("a", TTL).try_now().await.unwrap()) };
        world.simulation.block_on(&process, work);
        world.simulation.run_for(SECOND);
        assert_eq!(0, process.tasks());
        assert!(world.nodes.iter().all(|node| node.inner().is_empty()));
    });
}

#[test]
fn close_retracts_the_announcement() {
    let world = World::new(1, FakeNode::watching);
    let program = world.program("one", &[0, 1, 2]);
    world.lock(&program);
    world.simulation.run_for(SECOND);
    assert!(!world.nodes[0].inner().is_empty());
    let redlock = program.redlock.clone();
    assert_eq!(0, world.simulation.block_on(&program.process, async move { redlock.close().await }));
    assert!(world.nodes.iter().all(|node| node.inner().is_empty()));
}

#[test]
fn close_takes_at_most_two_node_timeouts_while_a_node_hangs() {
    let world = World::new(1, FakeNode::watching);
    let process = world.simulation.process("one");
    // With a label, there are two announcements.
    let builder = builder(&process, &world.nodes[..3]).compare_node_lists(true).owner("one");
    let program = Program { redlock: builder.build().unwrap(), process };
    world.lock(&program);
    world.simulation.run_for(SECOND);
    world.nodes[0].inject(Fault::hang());
    // The task begins a comparison, and `close` waits for its end first.
    let requests = world.nodes[1].requests().len();
    let begins = |_| {
        world.simulation.run_for(MS);
        world.nodes[1].requests().len() > requests
    };
    assert!((0..15_000).any(begins), "no comparison begins");
    let (redlock, process) = (program.redlock.clone(), program.process.clone());
    let took = world.simulation.block_on(&program.process, async move {
        let start = process.now();
        assert_eq!(0, redlock.close().await);
        process.now().saturating_duration_since(start)
    });
    assert!(took <= NODE_TIMEOUT * 2, "{took:?}");
}

/// A node whose server has another identity after each restart, as real servers have.
#[derive(Clone)]
struct Restarting {
    node: FakeNode,
    restarts: Arc<AtomicU64>,
}

impl Restarting {
    fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.node.crash();
        self.node.restart_empty();
    }
}

impl LockNode for Restarting {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn profile(&self) -> Profile {
        self.node.profile()
    }

    fn status(&self) -> Status {
        self.node.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        match self.node.begin(request) {
            Begun::Sent(mut exchange) => {
                let restarts = self.restarts.load(Ordering::Relaxed);
                exchange.server = Some(ServerId::new(format!("{} {restarts}", self.label())));
                Begun::Sent(exchange)
            }
            connecting @ Begun::Connecting(_) => connecting,
        }
    }
}

/// A server that was restarted is another one, and a program that starts does not know the former server.
#[test]
fn the_announcement_of_a_killed_program_is_no_difference_after_restarts() {
    for change in [FakeNode::watching, FakeNode::ordered] {
        for_each_seed(20, |seed| {
            let recording = Recording::default();
            let _subscribed = subscribe(recording.clone());
            let world = World::new(seed, change);
            let nodes = world.restarting();
            let first = world.program_over("one", &nodes);
            world.lock(&first);
            world.simulation.run_for(SECOND);
            first.process.kill();
            nodes[..2].iter().for_each(Restarting::restart);
            let second = world.program_over("two", &nodes);
            assert_eq!(None, world.difference(&second), "nor before the first lock");
            world.lock(&second);
            world.simulation.run_for(60 * SECOND);
            assert!(recording.of(DIFFER).is_empty());
            assert_eq!(None, world.difference(&second));
        });
    }
}

/// Its list is that of the servers before the pause. It neither announces that list nor compares it with later ones.
#[test]
fn the_comparison_of_a_program_that_was_paused_does_not_count() {
    for_each_seed(20, |seed| {
        let recording = Recording::default();
        let _subscribed = subscribe(recording.clone());
        let world = World::new(seed, FakeNode::watching);
        let nodes = world.restarting();
        let first = world.program_over("one", &nodes);
        world.lock(&first);
        world.simulation.run_for(SECOND);
        let last = &nodes[4].node;
        last.clear_requests();
        last.inject(Fault::delay(100 * MS).on(Operation::Inspect));
        while last.requests().on(Operation::Inspect).is_empty() {
            world.simulation.run_for(10 * MS);
        }
        first.process.pause();
        last.clear_faults();
        nodes[..2].iter().for_each(Restarting::restart);
        let second = world.program_over("two", &nodes);
        world.lock(&second);
        world.simulation.run_for(5 * SECOND);
        first.process.resume();
        world.simulation.run_for(60 * SECOND);
        assert!(recording.of(DIFFER).is_empty());
    });
}

/// One node replies late. Meanwhile other servers are restarted, so the announcement that follows shows the former ones.
#[test]
fn an_announcement_is_as_old_as_the_first_reply_that_it_is_made_of() {
    for_each_seed(20, |seed| {
        let recording = Recording::default();
        let _subscribed = subscribe(recording.clone());
        let world = World::new(seed, FakeNode::watching);
        let nodes = world.restarting();
        let first = world.patient_program_over("one", &nodes, 3 * SECOND);
        world.lock(&first);
        world.simulation.run_for(SECOND);
        let last = &nodes[4].node;
        last.clear_requests();
        last.inject(Fault::delay(2 * SECOND).on(Operation::Inspect));
        while last.requests().on(Operation::Inspect).is_empty() {
            world.simulation.run_for(10 * MS);
        }
        last.clear_faults();
        nodes[..2].iter().for_each(Restarting::restart);
        let second = world.patient_program_over("two", &nodes, 3 * SECOND);
        world.lock(&second);
        for _ in 0..40 {
            world.simulation.run_for(100 * MS);
            assert_eq!(None, world.difference(&second));
        }
        assert!(recording.of(DIFFER).is_empty());
    });
}

/// Programs with the same list do not warn during outages, losses of data and restarts, even if they are paused, killed
/// and started meanwhile.
#[test]
fn equal_lists_never_differ_during_outages() {
    let changes: [fn(FakeNode) -> FakeNode; 2] = [|node| node.watching().ordered(), FakeNode::ordered];
    for change in changes {
        for_each_seed(100, |seed| outages(seed, change, NODE_TIMEOUT, false));
        for_each_seed(50, |seed| outages(seed, change, 3 * SECOND, false));
        for_each_seed(50, |seed| outages(seed, change, NODE_TIMEOUT, true));
    }
}

fn outages(seed: u64, change: fn(FakeNode) -> FakeNode, timeout: Duration, must_agree: bool) {
    let recording = Recording::default();
    let _subscribed = subscribe(recording.clone());
    let world = World::new(seed, change);
    let nodes = world.restarting();
    let start = |name| world.restarting_program(name, &nodes, timeout, must_agree);
    let mut programs = ["one", "two", "three"].map(start);
    for program in &programs {
        world.lock(program);
    }
    world.simulation.run_for(2 * SECOND);
    let dice = world.simulation.process("dice");
    let random = |below: u64| {
        let mut bytes = [0; 8];
        dice.fill_random(&mut bytes);
        u64::from_le_bytes(bytes) % below
    };
    let one_of = |below| usize::try_from(random(below)).unwrap();
    for _ in 0..60 {
        let node = &nodes[one_of(5)];
        let one = one_of(3);
        match random(8) {
            0 => node.node.crash(),
            1 => node.node.restart(),
            2 | 3 => node.restart(),
            4 => node.node.inject(Fault::lose_reply().once()),
            5 => programs[one].process.pause(),
            6 => {
                programs[one].process.kill();
                programs[one] = start("another");
                let redlock = programs[one].redlock.clone();
                // Without a quorum, the request fails. The comparison begins anyway.
                programs[one].process.spawn(Box::pin(async move { drop(redlock.lock("a", TTL).await) }));
            }
            _ => programs.iter().for_each(|program| program.process.resume()),
        }
        world.simulation.run_for(Duration::from_millis(random(8_000)));
    }
    assert!(recording.of(DIFFER).is_empty());
}

#[test]
fn the_comparison_costs_four_requests_in_ten_seconds() {
    let world = World::new(1, FakeNode::watching);
    let program = world.program("one", &[0, 1, 2]);
    world.lock(&program);
    world.simulation.run_for(SECOND);
    world.nodes.iter().for_each(FakeNode::clear_requests);
    world.simulation.run_for(100 * SECOND);
    for node in &world.nodes[..3] {
        let log = node.requests();
        assert_eq!(10, log.of("redlock:nodes").on(Operation::Inspect).len(), "{log}");
        assert_eq!(10, log.of("redlock:nodes:change").on(Operation::Inspect).len(), "{log}");
        assert_eq!(10, log.of("redlock:nodes:other").on(Operation::Inspect).len(), "{log}");
        assert_eq!(10, log.on(Operation::Extend).len(), "{log}");
        assert!(log.len() <= 41, "{log}");
    }
}

/// A server that was restarted may be another one.
#[test]
fn a_node_with_another_connection_is_compared_within_a_second() {
    let world = World::new(1, FakeNode::ordered);
    let program = world.program("one", &[0, 1, 2]);
    world.lock(&program);
    world.simulation.run_for(2 * SECOND);
    world.nodes[0].crash();
    world.nodes[0].restart();
    world.nodes[0].clear_requests();
    world.simulation.run_for(SECOND);
    assert!(!world.nodes[0].requests().on(Operation::Inspect).is_empty());
}

#[test]
fn rejected_requests_are_logged_once_and_locks_are_granted() {
    let recording = Recording::default();
    let _subscribed = subscribe(recording.clone());
    let world = World::new(1, |node| node);
    for node in &world.nodes {
        node.inject(Fault::reject().of("redlock:nodes"));
        node.inject(Fault::reject().of("redlock:nodes:change"));
        node.inject(Fault::reject().of("redlock:nodes:other"));
    }
    let program = world.program("one", &[0, 1, 2]);
    world.lock(&program);
    world.simulation.run_for(60 * SECOND);
    assert_eq!(1, recording.of("node lists not compared").len());
    assert_eq!(None, world.difference(&program));
}

#[test]
fn the_names_of_announcements_are_reserved() {
    let world = World::new(1, |node| node);
    let program = world.program("one", &[0]);
    for name in ["redlock:nodes", "redlock:nodes:change", "redlock:nodes:other"] {
        let request = program.redlock.lock(name, TTL);
        let error = world.simulation.block_on(&program.process, request).unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
    }
    world.simulation.run_for(MS);
}

#[test]
fn announcements_show_the_lists_and_the_label_of_a_program_that_differs() {
    let world = World::new(1, FakeNode::watching);
    let first = world.program("one", &[0, 1, 2]);
    let announced = |program: &Program| {
        let redlock = program.redlock.clone();
        world.simulation.block_on(&program.process, async move { redlock.announced_lists().await })
    };
    assert!(announced(&first).iter().all(|node| node.lists().is_empty() && node.error().is_none()));
    world.lock(&first);
    let process = world.simulation.process("two");
    let nodes: Vec<_> = [2, 3, 4].map(|number: usize| world.nodes[number].clone()).into();
    let builder = builder(&process, &nodes).compare_node_lists(true).owner("host-2:7");
    let second = Program { redlock: builder.build().unwrap(), process };
    world.lock(&second);
    world.simulation.run_for(SECOND);
    world.nodes[1].crash();
    let nodes = announced(&first);
    assert_eq!(
        vec!["fake-0", "fake-1", "fake-2"],
        nodes.iter().map(AnnouncedLists::label).collect::<Vec<_>>()
    );
    assert!(nodes[1].error().is_some() && nodes[1].lists().is_empty());
    let [own, other] = nodes[2].lists() else { panic!("two announcements: {nodes:?}") };
    assert_eq!((false, false, None), (own.differs(), own.found_difference(), own.owner()));
    assert_eq!((true, true, Some("host-2:7")), (other.differs(), other.found_difference(), other.owner()));
    let (count, servers) = own.lists().remove(0);
    assert_eq!((3, 3), (count, servers.len()));
    assert!(servers.contains(&nodes[0].server().unwrap()));
    assert!(own.expires_in() > Some(25 * SECOND));
}

/// The old and the new list of changes.
const CHANGES: [(&[usize], &[usize]); 4] =
    [(&[0], &[0, 1, 2]), (&[0, 1, 2], &[2, 3, 4, 5, 6]), (&[0, 1, 2], &[0, 1, 3]), (&[0, 1, 2], &[3, 4, 5])];

#[test]
fn neighbouring_steps_of_a_change_do_not_differ() {
    for_each_seed(10, |seed| {
        for (old, new) in CHANGES {
            let recording = Recording::default();
            let _subscribed = subscribe(recording.clone());
            let world = World::new(seed, FakeNode::watching);
            let both = world.changing("both", new, old);
            world.lock(&both);
            for list in [old, new] {
                let one = world.program("one", list);
                world.lock(&one);
                world.simulation.run_for(15 * SECOND);
                world.lock(&both);
                assert_eq!(None, world.difference(&one), "{old:?} {new:?}");
                assert_eq!(None, world.difference(&both), "{old:?} {new:?}");
                drop(one.redlock);
                world.simulation.run_for(SECOND);
            }
            assert!(recording.of(DIFFER).is_empty());
        }
    });
}

#[test]
fn a_program_with_another_list_differs_from_one_with_two_lists() {
    for_each_seed(10, |seed| {
        for (old, new) in CHANGES {
            let world = World::new(seed, FakeNode::watching);
            let both = world.changing("both", new, old);
            let other = world.program("other", &[1, 5, 6]);
            world.lock(&both);
            world.lock(&other);
            world.simulation.run_for(11 * SECOND);
            assert!(world.difference(&both).is_some(), "{old:?} {new:?}");
        }
    });
}

/// Programs of the first and the last step do not exclude each other, even if they have no node in common.
#[test]
fn a_program_with_both_lists_notices_programs_that_are_two_steps_apart() {
    for_each_seed(10, |seed| {
        for (old, new) in CHANGES {
            let recording = Recording::default();
            let _subscribed = subscribe(recording.clone());
            let world = World::new(seed, FakeNode::watching);
            let programs =
                [world.program("old", old), world.changing("both", new, old), world.program("new", new)];
            for program in &programs {
                world.lock(program);
            }
            world.simulation.run_for(11 * SECOND);
            let redlock = programs[1].redlock.clone();
            let health =
                world.simulation.block_on(&programs[1].process, async move { redlock.health().await });
            let difference = *health.node_list_difference().unwrap();
            assert!(difference.is_between_others(), "{old:?} {new:?}");
            assert_eq!((new.len(), old.len()), (difference.own_nodes(), difference.other_nodes()));
            let common = old.iter().any(|node| new.contains(node));
            assert_eq!(if common { 3 } else { 1 }, recording.of(DIFFER).len(), "{old:?} {new:?}");
            let announced = || {
                let redlock = programs[1].redlock.clone();
                world
                    .simulation
                    .block_on(&programs[1].process, async move { redlock.announced_lists().await })
            };
            let found = |nodes: &[AnnouncedLists], count: usize| {
                let mut lists = nodes.iter().flat_map(AnnouncedLists::lists);
                lists.any(|list| {
                    list.found_difference() && list.lists().len() == 1 && list.lists()[0].0 == count
                })
            };
            let nodes = announced();
            assert!(found(&nodes, old.len()) && found(&nodes, new.len()), "{nodes:?}");
            programs[0].process.kill();
            world.simulation.run_for(45 * SECOND);
            assert_eq!(None, world.difference(&programs[1]));
            // With a common node, the new program has found the old one itself, and says so for longer.
            let nodes = announced();
            assert!(common || !found(&nodes, old.len()) && !found(&nodes, new.len()), "{nodes:?}");
        }
    });
}
