//! The fencing rule written down plainly, and what the model makes of its runs.
//!
//! The model leaves a lot to arguments: answers are heard at once, attempts that come to nothing are not in its states,
//! releases and losses are one step. Here nothing is left out: clients with one attempt at a time, requests and answers
//! each for itself, late, lost, repeated. Random runs of that are carried over to the model: every step must be one of its
//! steps, the nodes must agree after each, and whoever is granted a token here must have it there.

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

fn every_run_is_one_of_the_model(nodes: usize) {
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
    assert!(counts.iter().all(|count| *count > 500), "too little happens: {counts:?}");
}

#[test]
fn every_plain_run_on_three_nodes_is_one_of_the_model() {
    every_run_is_one_of_the_model(3);
}

#[test]
fn every_plain_run_on_four_nodes_is_one_of_the_model() {
    every_run_is_one_of_the_model(4);
}
