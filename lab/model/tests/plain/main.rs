//! A plain implementation of the fencing rule, whose runs are compared with the model.
//!
//! The model relies on arguments: replies are received at once, failed attempts are not part of its states, releases
//! and losses are one step. The plain implementation omits nothing. It has clients with one attempt at a time, and
//! separate requests and replies, which may be late, lost or repeated.
//!
//! Random runs of it are translated into steps of the model. Every step must be possible there, and the nodes must
//! agree after each one. Every token granted here must be granted there.

mod carry;
mod world;

use redlock_model::fence::{Counters, Extensions, Fencing, Scope};

use crate::carry::carry_over;
use crate::world::World;

const RUNS: u64 = 20_000;

fn fencing(nodes: usize) -> Fencing {
    let extensions = Extensions::Any;
    Fencing::new(Scope {
        nodes,
        attempts: 4,
        counters: Counters::UpTo(14),
        extensions,
        forgets: false,
        lies: false,
    })
}

fn check_runs(nodes: usize) {
    let (mut carried, mut granted, mut differed, mut extended) = (0, 0, 0, 0);
    for seed in 0..RUNS {
        let world = World::run(seed, nodes);
        assert!(world.tokens_are_in_order(), "seed {seed}: {world:?}");
        extended += world.extended;
        let Some(grants) = carry_over(&world, fencing(nodes)) else { continue };
        carried += 1;
        granted += grants;
        differed += world.confirmed;
    }
    let counts = [carried, granted, differed, extended];
    assert!(counts.iter().all(|count| *count > 500), "too few events: {counts:?}");
}

#[test]
fn every_plain_run_on_three_nodes_is_a_run_of_the_model() {
    check_runs(3);
}

#[test]
fn every_plain_run_on_four_nodes_is_a_run_of_the_model() {
    check_runs(4);
}
