//! Programs that list different nodes never hold one lock at the same time, if their lists must agree.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::recording::Recording;
use crate::common::{TTL, builder, subscribe};
use redlock_core::node::{Begun, Exchange, LockNode, Profile, QuarantineReason, Request, Status};
use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_core::{Builder, ErrorKind, Redlock};
use redlock_testkit::sim::{Process, Simulation, for_each_seed};
use redlock_testkit::{FakeNode, Fault, Operation};

const SECOND: Duration = Duration::from_secs(1);

/// How long announcements of programs that have ended, and the wait after them, keep others from locks.
const BLOCKED: Duration = Duration::from_secs(45);

/// Seven nodes, and programs that list some of them and contend for one lock.
struct World {
    simulation: Simulation,
    nodes: Vec<FakeNode>,
    /// The number of programs that hold the lock, and that of turns in which another one did.
    inside: Arc<AtomicU32>,
    overlaps: Arc<AtomicU32>,
}

struct Program {
    process: Process,
    redlock: Redlock,
    turns: Arc<AtomicU32>,
    is_ending: Arc<AtomicBool>,
}

impl Program {
    /// Returns the number of turns since the last call.
    fn turns(&self) -> u32 {
        self.turns.swap(0, Ordering::Relaxed)
    }
}

impl World {
    fn new(seed: u64, change: impl Fn(FakeNode) -> FakeNode) -> Self {
        let simulation = Simulation::new(seed).max_polls(50_000_000);
        let servers = simulation.process("servers");
        let node = |number| change(FakeNode::new(format!("fake-{number}"), servers.runtime()));
        let (inside, overlaps) = Default::default();
        Self { nodes: (0..7).map(node).collect(), simulation, inside, overlaps }
    }

    fn listed(&self, list: &[usize]) -> Vec<FakeNode> {
        list.iter().map(|number| self.nodes[*number].clone()).collect()
    }

    /// Creates a program with one list, or in the middle of a change.
    fn program(&self, nodes: &[usize], previous: Option<&[usize]>) -> Program {
        let process = self.simulation.process(&format!("{nodes:?} {previous:?}"));
        let mut builder = builder(&process, &self.listed(nodes)).node_lists_must_agree(true);
        if let Some(previous) = previous {
            let node = |node| Arc::new(node) as Arc<dyn LockNode>;
            builder = builder.previous_nodes(self.listed(previous).into_iter().map(node));
        }
        Program {
            redlock: builder.build().unwrap(),
            process,
            turns: Arc::default(),
            is_ending: Arc::default(),
        }
    }

    /// Starts a program that requests the lock all the time, and renews it in every turn.
    fn contends(&self, nodes: &[usize], previous: Option<&[usize]>) -> Program {
        let program = self.program(nodes, previous);
        let (redlock, turns) = (program.redlock.clone(), Arc::clone(&program.turns));
        let (inside, overlaps) = (Arc::clone(&self.inside), Arc::clone(&self.overlaps));
        let (runtime, is_ending) = (program.process.runtime(), Arc::clone(&program.is_ending));
        program.process.spawn(Box::pin(async move {
            while !is_ending.load(Ordering::Relaxed) {
                let Ok(guard) = redlock.lock("a", TTL).max_wait(3 * SECOND).await else { continue };
                if inside.fetch_add(1, Ordering::Relaxed) > 0 {
                    overlaps.fetch_add(1, Ordering::Relaxed);
                }
                runtime.sleep(SECOND / 20).await;
                let is_renewed = guard.extend(TTL).await.is_ok();
                if is_renewed {
                    runtime.sleep(SECOND / 20).await;
                }
                inside.fetch_sub(1, Ordering::Relaxed);
                turns.fetch_add(1, Ordering::Relaxed);
                drop(guard);
            }
        }));
        program
    }

    /// No two programs hold the lock, and no waiter attempts in a loop without delays.
    fn run(&self, time: Duration) {
        let attempts = |node: &FakeNode| node.request_count(Operation::Acquire);
        let before: Vec<u64> = self.nodes.iter().map(attempts).collect();
        self.simulation.run_for(time);
        for (node, before) in self.nodes.iter().zip(before) {
            let (attempts, most) = (attempts(node) - before, 10 + 50 * time.as_secs());
            assert!(attempts <= most, "{attempts} attempts on one node in {time:?}");
        }
        assert_eq!(0, self.overlaps.load(Ordering::Relaxed), "two programs hold the lock");
    }

    /// Requests a lock once. Returns the reason why the votes of the first node do not count, if none is granted.
    fn attempt(&self, program: &Program) -> Result<(), QuarantineReason> {
        let request = program.redlock.lock("b", TTL).max_attempts(1);
        let error = match self.simulation.block_on(&program.process, request) {
            Ok(guard) => {
                self.simulation.block_on(&program.process, async move { guard.release().await }).unwrap();
                return Ok(());
            }
            Err(error) => error,
        };
        assert_eq!(ErrorKind::NoQuorum, error.kind(), "{error}");
        Err(error.node_reports()[0].quarantine().expect("no vote").reason)
    }

    /// Returns whether a program gets no lock, for whatever reason.
    fn attempt_is_in_vain(&self, program: &Program) -> bool {
        let request = program.redlock.lock("b", TTL).max_attempts(1);
        self.simulation.block_on(&program.process, request).is_err()
    }
}

/// The lists of two programs with a node in common.
const LISTS: [(&[usize], &[usize]); 5] = [
    (&[0, 1, 2], &[2, 3, 4]),
    (&[0, 1, 2], &[0, 1, 2, 3, 4]),
    (&[0, 1, 2], &[0, 1, 3]),
    (&[0], &[0, 1, 2]),
    (&[0, 1, 2, 3, 4], &[4, 5, 6]),
];

/// The old and the new list of a change. The last ones have no node in common.
const CHANGES: [(&[usize], &[usize]); 7] = {
    let [a, b, c, d, e] = LISTS;
    [a, b, c, d, e, (&[0, 1, 2], &[3, 4, 5]), (&[0], &[1, 2, 3, 4, 5])]
};

#[test]
fn the_program_that_is_first_continues_and_another_list_gets_no_lock() {
    for change in [FakeNode::watching, FakeNode::ordered] {
        for_each_seed(2, |seed| {
            for (one, two) in LISTS.into_iter().flat_map(|(one, two)| [(one, two), (two, one)]) {
                let recording = Recording::default();
                let _subscribed = subscribe(recording.clone());
                let world = World::new(seed, change);
                let first = world.contends(one, None);
                world.run(3 * SECOND);
                let second = world.contends(two, None);
                assert!(first.turns() > 10, "{one:?} {two:?}");
                world.run(60 * SECOND);
                assert!(first.turns() > 300, "{one:?} {two:?}");
                assert_eq!(0, second.turns(), "{one:?} {two:?}");
                assert_eq!(Err(QuarantineReason::OtherNodeList), world.attempt(&second));
                let quarantined = recording.of("node quarantined");
                assert_eq!(two.len(), quarantined.len(), "{quarantined:?}");
                // A program with the list of the first one gets locks at once.
                assert_eq!(Ok(()), world.attempt(&world.program(one, None)));
                first.process.kill();
                world.inside.store(0, Ordering::Relaxed);
                world.run(BLOCKED);
                second.turns();
                world.run(SECOND);
                assert!(second.turns() > 0, "{one:?} {two:?}");
            }
        });
    }
}

#[test]
fn programs_that_start_at_the_same_time_exclude_each_other() {
    for_each_seed(30, |seed| {
        let (one, two) = LISTS[usize::try_from(seed).unwrap() % LISTS.len()];
        let world = World::new(seed, FakeNode::watching);
        for (number, node) in (1..).zip(&world.nodes) {
            let delay = |factor| Fault::delay(Duration::from_millis(seed * factor * number % 11));
            node.inject(delay(7).on(Operation::Inspect).times(3));
            node.inject(delay(5).on(Operation::Acquire).times(2));
        }
        let _programs = [world.contends(one, None), world.contends(two, None)];
        world.run(60 * SECOND);
    });
}

/// One of them has two lists. They claim two places, so each must look for the other after its own claim.
#[test]
fn a_program_with_two_other_lists_that_starts_at_the_same_time_is_excluded() {
    for_each_seed(30, |seed| {
        let world = World::new(seed, FakeNode::watching);
        for (number, node) in (1..).zip(&world.nodes) {
            let delay = |factor| Fault::delay(Duration::from_millis(seed * factor * number % 11));
            node.inject(delay(7).on(Operation::Inspect).times(4));
            node.inject(delay(5).on(Operation::Acquire).times(2));
        }
        let _programs = [world.contends(&[0, 1, 2], None), world.contends(&[4, 5, 6], Some(&[2, 3, 4]))];
        world.run(60 * SECOND);
    });
}

/// The steps of the recipe, with other programs of the steps before and after.
#[test]
fn a_change_of_the_nodes_goes_on_without_a_pause() {
    for_each_seed(3, |seed| {
        for (old, new) in CHANGES {
            let world = World::new(seed, |node| node.watching().ordered());
            let run = |programs: &[&Program], name: &str| {
                world.run(20 * SECOND);
                for (number, program) in programs.iter().enumerate() {
                    let granted = world.attempt(program);
                    assert_eq!(Ok(()), granted, "{old:?} {new:?}: {name}, program {number}");
                }
            };
            let first = [world.contends(old, None), world.contends(old, None)];
            run(&[&first[0], &first[1]], "step 1");
            let [both, other] = [world.contends(new, Some(old)), world.contends(new, Some(old))];
            run(&[&first[0], &first[1], &both, &other], "steps 1 and 2");
            // One program goes back.
            let back = world.contends(old, None);
            run(&[&both, &other, &back], "steps 2 and 1");
            for program in first.iter().chain([&back]) {
                world.end(program);
            }
            world.run(BLOCKED);
            run(&[&both, &other], "step 2");
            let last = world.contends(new, None);
            run(&[&both, &other, &last], "steps 2 and 3");
            assert_eq!(
                Err(QuarantineReason::OtherNodeList),
                world.attempt(&world.program(old, None)),
                "step 1"
            );
            world.end(&both);
            world.end(&other);
            world.run(BLOCKED);
            run(&[&last], "step 3");
        }
    });
}

impl World {
    /// Ends a program after its turn.
    fn end(&self, program: &Program) {
        program.is_ending.store(true, Ordering::Relaxed);
        self.run(5 * SECOND);
        program.process.kill();
    }
}

#[test]
fn the_last_step_does_not_begin_before_the_first_one_has_ended() {
    for_each_seed(3, |seed| {
        for (old, new) in CHANGES {
            let world = World::new(seed, |node| node.watching().ordered());
            let (first, both) = (world.contends(old, None), world.contends(new, Some(old)));
            // A program of step 2 notices within ten seconds that the first one has started.
            world.run(12 * SECOND);
            let last = world.contends(new, None);
            world.run(60 * SECOND);
            assert_eq!(0, last.turns(), "{old:?} {new:?}");
            assert_eq!(
                [Ok(()), Ok(())],
                [&first, &both].map(|program| world.attempt(program)),
                "{old:?} {new:?}"
            );
            world.end(&first);
            world.run(BLOCKED);
            world.run(5 * SECOND);
            assert_eq!(
                [Ok(()), Ok(())],
                [&last, &both].map(|program| world.attempt(program)),
                "{old:?} {new:?}"
            );
        }
    });
}

/// The first program reaches one of its nodes only, and the last program two of its nodes. Their parts could be one list.
#[test]
fn a_program_of_the_last_step_does_not_take_a_copy_for_its_own_list() {
    for_each_seed(10, |seed| {
        let world = World::new(seed, FakeNode::watching);
        world.nodes[1].crash();
        world.nodes[2].crash();
        let first = world.contends(&[0, 1, 2], None);
        let _both = world.contends(&[3, 4, 5], Some(&[0, 1, 2]));
        world.run(20 * SECOND + Duration::from_millis(seed * 137));
        world.nodes[5].crash();
        let last = world.contends(&[3, 4, 5], None);
        world.run(20 * SECOND + Duration::from_millis(seed * 311));
        world.nodes[1].restart();
        world.run(30 * SECOND);
        assert!(first.turns() > 50);
        assert_eq!(0, last.turns());
    });
}

/// Both programs replace their announcements on the nodes that they have in common. A program with another list is blocked
/// meanwhile, and has announced it there, too.
#[test]
fn a_server_that_is_restarted_during_a_change_stops_no_holder() {
    for_each_seed(10, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let first = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&first));
        let both = world.program(&[2, 3, 4], Some(&[0, 1, 2]));
        assert_eq!(Ok(()), world.attempt(&both));
        let other = world.contends(&[1, 2, 5], None);
        world.run(20 * SECOND + Duration::from_millis(seed * 311));
        for node in [2, 1, 3] {
            world.nodes[node].crash();
            world.run(SECOND);
            world.nodes[node].restart_empty();
            for time in 0..60 {
                world.run(SECOND);
                let attempts = [&first, &both].map(|program| world.attempt(program));
                assert_eq!([Ok(()), Ok(())], attempts, "{time} s after the restart of {node}");
            }
        }
        assert_eq!(0, other.turns());
    });
}

/// With one of the three nodes down, or without replies, the others decide.
#[test]
fn a_node_that_is_down_does_not_keep_programs_from_locks() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        world.nodes[1].crash();
        let first = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&first));
        world.run(120 * SECOND);
        assert_eq!(Ok(()), world.attempt(&first));
        let second = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&second));
        // The only program that knew all servers has ended. Its announcement is replaced before it expires.
        world.nodes[1].restart();
        world.run(20 * SECOND);
        world.nodes[1].crash();
        let third = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&third));
        first.process.kill();
        second.process.kill();
        for _ in 0..60 {
            world.run(SECOND);
            assert_eq!(Ok(()), world.attempt(&third));
        }
    });
}

/// The announcement of an earlier program has the former identity of the server.
#[test]
fn a_server_that_returns_without_its_data_stops_no_holder() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let earlier = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&earlier));
        world.run(2 * SECOND);
        earlier.process.kill();
        world.nodes[1].crash();
        let holder = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&holder));
        world.run(5 * SECOND + Duration::from_millis(seed * 311));
        world.nodes[1].restart_empty();
        let continues = |seconds| {
            for _ in 0..seconds {
                world.run(SECOND);
                assert_eq!(Ok(()), world.attempt(&holder));
            }
        };
        // The holder has announced its list there again. The announcements have no room for the server.
        continues(11);
        world.nodes[2].crash();
        assert!(world.attempt_is_in_vain(&holder), "its vote does not count");
        world.nodes[2].restart();
        let other = world.contends(&[1, 3, 4], None);
        continues(60);
        // By then the vote of the server counts.
        world.nodes[0].crash();
        assert_eq!(Ok(()), world.attempt(&holder));
        assert_eq!(0, other.turns());
    });
}

/// An earlier program has reached two of its nodes only. One of them was restarted, and the other one has its announcement.
#[test]
fn a_server_that_returns_beside_an_announcement_of_it_stops_no_holder() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let each = |numbers: &[usize], change: fn(&FakeNode)| {
            for number in numbers {
                change(&world.nodes[*number]);
            }
        };
        each(&[0, 2, 4], FakeNode::crash);
        let earlier = world.program(&[0, 1, 2, 3, 4], None);
        assert!(world.attempt_is_in_vain(&earlier));
        earlier.process.kill();
        each(&[1, 3], FakeNode::crash);
        each(&[0, 2, 4], FakeNode::restart);
        let holder = world.program(&[0, 1, 2, 3, 4], None);
        assert_eq!(Ok(()), world.attempt(&holder));
        world.run(Duration::from_millis(seed * 311));
        world.nodes[1].restart_empty();
        world.nodes[3].restart();
        world.run(15 * SECOND);
        world.nodes[0].crash();
        assert!(!world.attempt_is_in_vain(&holder), "only the server that was restarted is left out");
        world.nodes[0].restart();
        for _ in 0..80 {
            world.run(SECOND);
            assert_eq!(Ok(()), world.attempt(&holder));
        }
        // By then the votes of both count.
        each(&[0, 2], FakeNode::crash);
        assert!(!world.attempt_is_in_vain(&holder));
    });
}

/// The only server that the lists do not have in common was down when the second program started.
#[test]
fn a_difference_that_shows_late_lets_no_two_programs_hold_the_lock() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let first = world.contends(&[0, 2, 5], None);
        world.run(5 * SECOND);
        world.nodes[1].crash();
        let second = world.contends(&[0, 1, 2], None);
        world.run(5 * SECOND + Duration::from_millis(seed * 311));
        assert!(first.turns() > 0 && second.turns() > 0, "the lists may be the same");
        world.nodes[1].restart_empty();
        world.run(40 * SECOND);
        first.turns();
        second.turns();
        world.run(10 * SECOND);
        assert!(first.turns() > 0);
        assert_eq!(0, second.turns());
    });
}

#[test]
fn a_program_that_was_paused_for_long_does_not_continue_beside_another_list() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let first = world.program(&[0, 1, 2], None);
        assert_eq!(Ok(()), world.attempt(&first));
        first.process.pause();
        world.run(60 * SECOND);
        let second = world.contends(&[2, 3, 4], None);
        world.run(5 * SECOND);
        assert!(second.turns() > 0);
        first.process.resume();
        let reason = world.attempt(&first).unwrap_err();
        let reasons = [QuarantineReason::OtherNodeList, QuarantineReason::NodeListNotCompared];
        assert!(reasons.contains(&reason), "{reason}");
        world.run(5 * SECOND);
        assert!(second.turns() > 0);
        assert_eq!(Err(QuarantineReason::OtherNodeList), world.attempt(&first));
    });
}

/// A server of the first program is restarted without its data, while another list waits for its place there.
#[test]
fn a_server_without_its_data_keeps_its_programs() {
    for_each_seed(50, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let first = world.contends(&[0, 1, 2], None);
        world.run(3 * SECOND);
        let second = world.contends(&[2, 3, 4], None);
        world.run(15 * SECOND + Duration::from_millis(17 * seed));
        world.nodes[2].crash();
        world.nodes[2].restart_empty();
        first.turns();
        world.run(60 * SECOND);
        assert!(first.turns() > 300);
        assert_eq!(0, second.turns());
    });
}

#[test]
fn votes_without_a_comparison_do_not_count() {
    let world = World::new(1, |node| node);
    for node in &world.nodes {
        node.inject(Fault::reject().of("redlock:nodes"));
    }
    assert_eq!(Err(QuarantineReason::NodeListNotCompared), world.attempt(&world.program(&[0, 1, 2], None)));
}

/// An operator vouches for new servers before any program locks, so no list was compared.
#[test]
fn a_quarantine_can_be_ended_before_lists_are_compared() {
    let world = World::new(1, FakeNode::watching);
    for node in &world.nodes {
        node.inner().set_longest_ttl(TTL);
        node.inner().flush();
    }
    let program = world.program(&[0, 1, 2], None);
    let redlock = program.redlock.clone();
    let vouched = world.simulation.block_on(&program.process, async move {
        for node in 0..3 {
            redlock.vouch(node).await?;
        }
        Ok::<_, redlock_core::Error>(redlock.health().await.healthy_nodes())
    });
    assert_eq!(3, vouched.unwrap());
}

#[test]
fn a_health_check_before_the_first_lock_compares_lists() {
    let world = World::new(1, FakeNode::watching);
    let program = world.program(&[0, 1, 2], None);
    let redlock = program.redlock.clone();
    let health = world.simulation.block_on(&program.process, async move { redlock.health().await });
    assert_eq!(3, health.healthy_nodes(), "{health}");
    let other = world.program(&[2, 3, 4], None);
    let redlock = other.redlock.clone();
    let health = world.simulation.block_on(&other.process, async move { redlock.health().await });
    assert_eq!(0, health.healthy_nodes(), "{health}");
    assert!(health.to_string().contains("not counted: another program lists other nodes"), "{health}");
}

/// The announcement stays for other programs with the same list, and guards continue.
#[test]
fn a_guard_is_extended_after_close() {
    let world = World::new(1, FakeNode::watching);
    let program = world.program(&[0, 1, 2], None);
    let request = program.redlock.lock("a", 5 * SECOND);
    let guard = world.simulation.block_on(&program.process, request).unwrap();
    let redlock = program.redlock.clone();
    world.simulation.block_on(&program.process, async move { redlock.close().await });
    let runtime = program.process.runtime();
    world.simulation.block_on(&program.process, async move {
        for _ in 0..30 {
            runtime.sleep(2 * SECOND).await;
            guard.extend(5 * SECOND).await.unwrap();
        }
    });
    assert!(!world.nodes[0].inner().is_empty());
}

/// Each program reaches another part of its list, so the lists may be the same. Then one of them reaches its last node.
#[test]
fn programs_that_reach_different_parts_of_their_lists_exclude_each_other() {
    for_each_seed(6, |seed| {
        let world = World::new(seed, FakeNode::watching);
        world.nodes[2].crash();
        world.nodes[4].crash();
        let programs = [world.contends(&[0, 1, 2], None), world.contends(&[0, 3, 4], None)];
        world.run(3 * SECOND + Duration::from_millis(seed * 1_600));
        world.nodes[2].restart();
        world.run(12 * SECOND);
        assert!(programs.iter().any(|program| program.turns() > 50));
        world.nodes[4].restart();
        world.run(12 * SECOND);
    });
}

/// No program whose list must agree announces less than another one relies on, even if neither reaches all of its nodes.
#[test]
fn an_announcement_that_others_rely_on_keeps_their_servers() {
    for_each_seed(2, |seed| {
        for ended in 0..2 {
            let world = World::new(seed, FakeNode::watching);
            world.nodes[2].crash();
            world.nodes[4].crash();
            let programs = [world.contends(&[0, 1, 2], None), world.contends(&[0, 3, 4], None)];
            // Longer than any announcement stands.
            world.run(70 * SECOND + Duration::from_millis(seed * 3_700));
            assert!(programs.iter().all(|program| program.turns() > 100), "both get locks through node 0");
            world.nodes[[2, 4][ended]].restart();
            world.run(12 * SECOND);
        }
    });
}

/// A program without the setting ends. Others with the same list still run.
#[test]
fn a_program_without_the_setting_does_not_retract_the_list_of_others() {
    for_each_seed(10, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let process = world.simulation.process("without the setting");
        let builder = builder(&process, &world.listed(&[0, 1, 2])).compare_node_lists(true);
        let plain = Program {
            redlock: builder.build().unwrap(),
            process,
            turns: Arc::default(),
            is_ending: Arc::default(),
        };
        assert_eq!(Ok(()), world.attempt(&plain));
        let first = world.contends(&[0, 1, 2], None);
        world.run(3 * SECOND + Duration::from_millis(seed * 900));
        let redlock = plain.redlock.clone();
        world.simulation.block_on(&plain.process, async move { redlock.close().await });
        let second = world.contends(&[2, 3, 4], None);
        world.run(15 * SECOND);
        assert!(first.turns() > 100);
        assert_eq!(0, second.turns());
    });
}

/// A program reaches another one of its nodes, and announces it on those of before.
#[test]
fn a_node_shows_an_announcement_while_it_is_replaced() {
    let world = World::new(1, FakeNode::watching);
    world.nodes[2].crash();
    let program = world.program(&[0, 1, 2], None);
    assert_eq!(Ok(()), world.attempt(&program));
    world.run(3 * SECOND);
    let announced = || world.nodes[0].inner().locks().into_iter().map(|(_, entry)| entry.token);
    let before: Vec<_> = announced().collect();
    for operation in [Operation::Acquire, Operation::Release] {
        world.nodes[0].inject(Fault::delay(Duration::from_millis(30)).on(operation));
    }
    world.nodes[2].restart();
    for _ in 0..12_000 {
        world.run(Duration::from_millis(1));
        assert!(announced().next().is_some());
    }
    let after: Vec<_> = announced().collect();
    assert_eq!((1, 1), (before.len(), after.len()));
    assert_ne!(before, after);
}

/// An announcement expires just before its renewal. Another list cannot be ruled out by a node that does not reply.
#[test]
fn a_denial_that_names_no_other_list_is_no_other_list() {
    let world = World::new(1, FakeNode::watching);
    world.nodes[2].crash();
    let program = world.program(&[0, 1, 2], None);
    assert_eq!(Ok(()), world.attempt(&program));
    world.nodes[0].inject(Fault::deny().on(Operation::Extend).of("redlock:nodes").once());
    world.nodes[0].clear_requests();
    world.run(15 * SECOND);
    assert!(!world.nodes[0].requests().of("redlock:nodes").on(Operation::Extend).is_empty());
    assert_eq!(Ok(()), world.attempt(&program));
}

/// A lease lives longer than the announcement of its program, which is paused.
#[test]
fn a_lease_is_not_extended_after_a_pause_before_the_list_is_announced_again() {
    for_each_seed(20, |seed| {
        let world = World::new(seed, FakeNode::watching);
        let first = world.program(&[0, 1, 2], None);
        let long = Duration::from_secs(300);
        let guard = world.simulation.block_on(&first.process, first.redlock.lock("a", long)).unwrap();
        world.run(Duration::from_millis(seed * 500));
        first.process.pause();
        world.run(25 * SECOND);
        world.nodes.iter().for_each(FakeNode::clear_requests);
        first.process.resume();
        let extended = world.simulation.block_on(&first.process, async move { guard.extend(long).await });
        let extensions = world.nodes[0].requests().of("redlock:nodes");
        let is_announced =
            !(extensions.on(Operation::Acquire).is_empty() && extensions.on(Operation::Extend).is_empty());
        assert!(extended.is_err() || is_announced);
        world.run(5 * SECOND);
        assert_eq!(Ok(()), world.attempt(&first));
    });
}

/// A node whose server does not state its identity, as without the right to run `INFO`.
struct Unidentified(FakeNode);

impl LockNode for Unidentified {
    fn label(&self) -> &str {
        self.0.label()
    }

    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        match self.0.begin(request) {
            Begun::Sent(exchange) => Begun::Sent(Exchange { server: None, ..exchange }),
            connecting @ Begun::Connecting(_) => connecting,
        }
    }
}

/// Without the setting, locks are granted, and health shows it.
#[test]
fn the_health_of_a_node_without_an_identity_shows_that_lists_are_not_compared() {
    let world = World::new(1, FakeNode::watching);
    let process = world.simulation.process("program");
    let node = Arc::new(Unidentified(world.nodes[0].clone()));
    let others = world.nodes[1..3].iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    let builder = Builder::new(process.runtime()).nodes([node as Arc<dyn LockNode>]).nodes(others);
    for compares in [false, true] {
        let redlock = builder.clone().compare_node_lists(compares).build().unwrap();
        let health = world.simulation.block_on(&process, async move { redlock.health().await });
        assert_eq!(3, health.healthy_nodes());
        let compared = health.nodes().iter().map(redlock_core::NodeHealth::is_node_list_compared);
        assert_eq!([false, compares, compares][..], compared.collect::<Vec<_>>());
        assert_eq!(usize::from(compares), health.to_string().matches(", node list not compared").count());
    }
}

#[test]
fn a_node_without_an_identity_has_no_vote() {
    for unidentified in [1, 2, 3] {
        let recording = Recording::default();
        let _subscribed = subscribe(recording.clone());
        let world = World::new(1, FakeNode::watching);
        let process = world.simulation.process("program");
        let nodes = world.nodes[..3].iter().cloned().enumerate().map(|(number, node)| {
            if number < unidentified {
                Arc::new(Unidentified(node)) as Arc<dyn LockNode>
            } else {
                Arc::new(node)
            }
        });
        let builder = Builder::new(process.runtime()).nodes(nodes).node_lists_must_agree(true);
        let redlock = builder.build().unwrap();
        let program = Program { redlock, process, turns: Arc::default(), is_ending: Arc::default() };
        let expected = if unidentified == 1 { Ok(()) } else { Err(QuarantineReason::NodeListNotCompared) };
        assert_eq!(expected, world.attempt(&program));
        let logged = recording.of("node lists not compared");
        assert_eq!(1, logged.len(), "{logged:?}");
    }
}

/// A runtime that drops its first task, as a runtime does that ends.
#[derive(Clone)]
struct Ending {
    process: Process,
    first: Arc<Mutex<Option<BoxFuture<()>>>>,
    tasks: Arc<AtomicU32>,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").finish_non_exhaustive()
    }
}

impl Runtime for Ending {
    fn now(&self) -> Instant {
        self.process.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.process.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        match self.tasks.fetch_add(1, Ordering::Relaxed) {
            0 => *self.first.lock().unwrap() = Some(task),
            _ => self.process.spawn(task),
        }
    }
}

#[test]
fn a_request_waits_for_the_first_comparison_although_a_runtime_ends() {
    let world = World::new(1, FakeNode::watching);
    let process = world.simulation.process("client");
    let runtime = Ending { process: process.clone(), first: Arc::default(), tasks: Arc::default() };
    let nodes = world.listed(&[0, 1, 2]).into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>);
    let builder = Builder::new(Arc::new(runtime.clone())).nodes(nodes).node_lists_must_agree(true);
    let (redlock, is_held) = (builder.build().unwrap(), Arc::new(AtomicBool::new(false)));
    let held = Arc::clone(&is_held);
    process.spawn(Box::pin(async move {
        let guard = redlock.lock("a", TTL).await.unwrap();
        held.store(true, Ordering::Relaxed);
        guard.release().await.unwrap();
    }));
    world.simulation.run_for(SECOND);
    assert!(!is_held.load(Ordering::Relaxed), "no list was compared");
    drop(runtime.first.lock().unwrap().take().expect("the comparison is the first task"));
    world.simulation.run_for(TTL);
    assert!(is_held.load(Ordering::Relaxed));
}
