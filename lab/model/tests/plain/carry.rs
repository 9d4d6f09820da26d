//! Translates a plain run into steps of the model.

use std::collections::BTreeMap;

use redlock_model::Model;
use redlock_model::fence::{Fencing, State, Step};

use crate::world::{Event, Request, RequestKind, World};

/// Returns the number of grants in the model, or `None` if the run does not fit into the scope.
///
/// # Panics
///
/// Panics if the model has no such run, or if its grants differ.
pub(crate) fn carry_over(world: &World, model: Fencing) -> Option<usize> {
    let names = decided(world, model.scope.nodes / 2 + 1);
    let room = names.len() <= model.scope.attempts
        && world.log.iter().all(|(_, nodes)| nodes.iter().all(|node| node.counter <= 14));
    if !room {
        return None;
    }
    let (mut state, mut grants) = (model.first(), 0);
    for (number, (event, nodes)) in world.log.iter().enumerate() {
        if let Some(step) = translate(*event, &names, &state, world, number) {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            if steps.contains(&step) {
                state = model.next(&state, step);
            } else {
                // A confirm that changes nothing and is not received is no step of the model.
                assert!(matches!(step, Step::Confirm { .. }), "line {number}: {step} is no step: {world:?}");
            }
        }
        for (node, on) in nodes.iter().enumerate() {
            let key = on.key.and_then(|attempt| names.get(&attempt).copied());
            let same = (state.key_on(node), state.counter_on(node)) == (key, on.counter);
            assert!(same, "line {number}: n{node} differs: {state:?}, {world:?}");
        }
        if let Event::Granted { attempt, token } = event {
            assert_eq!(Some(*token), state.granted(names[attempt]), "line {number}: {world:?}");
            grants += 1;
        }
    }
    Some(grants)
}

/// Returns the attempts with a quorum of replies, numbered as in the model, in the order of their start.
fn decided(world: &World, quorum: usize) -> BTreeMap<usize, usize> {
    let mut received = BTreeMap::new();
    for (event, _) in &world.log {
        if let Event::Carried { request, received: true } = event {
            *received.entry(request.attempt).or_insert(0) += 1;
        }
    }
    let decided = received.into_iter().filter(|(_, count)| *count == quorum).map(|(attempt, _)| attempt);
    decided.enumerate().map(|(name, attempt)| (attempt, name)).collect()
}

fn translate(
    event: Event,
    names: &BTreeMap<usize, usize>,
    state: &State,
    world: &World,
    number: usize,
) -> Option<Step> {
    match event {
        Event::Begun(attempt) => names.get(&attempt).map(|attempt| Step::Begin { attempt: *attempt }),
        Event::Granted { .. } => None,
        Event::Passed(node) => Some(Step::Pass { node }),
        // The key of a failed attempt is not part of the model.
        Event::Lost(node) => state.key_on(node).map(|_| Step::Vanish { node }),
        Event::Carried { request: Request { attempt, node, kind, .. }, received } => {
            let counter = world.log[number].1[node].counter;
            let raised = counter != state.counter_on(node);
            match (names.get(&attempt).copied(), kind) {
                (None, RequestKind::Acquire) => raised.then_some(Step::Pass { node }),
                (None, _) => None,
                (Some(attempt), RequestKind::Acquire) if raised => {
                    Some(Step::Set { attempt, node, counter, received })
                }
                (Some(attempt), RequestKind::Acquire) => {
                    received.then_some(Step::Again { attempt, node, counter, received })
                }
                (Some(attempt), RequestKind::Confirm(_)) => Some(Step::Confirm { attempt, node }),
                (Some(attempt), RequestKind::Refill) => Some(Step::Refill { attempt, node }),
                (Some(_), RequestKind::Release) => Some(Step::Vanish { node }),
            }
        }
    }
}
