//! The explorer. It visits every reachable state once, breadth first.
//!
//! It proceeds level by level, so the trace that it finds is a shortest one, independent of the threads. It keeps a
//! fingerprint of 64 bits for each state and the fingerprint of its predecessor. A trace is found again by following
//! the predecessors from the first state on.
//!
//! Two different states with one fingerprint would be taken for one. With n states the probability of that is n²/2⁶⁵,
//! which is 1 in 10,000 for 60 million states.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A model that can be explored: states, and the steps between them.
pub trait Model: Copy + Sync {
    /// A complete state of the world.
    type State: Copy + Send + Sync;
    /// An event that leads from one state to the next.
    type Step: Copy + PartialEq + Send;
    /// An invariant of states.
    type Property: Copy + Send + Sync + 'static;

    /// All invariants.
    const PROPERTIES: &'static [Self::Property];

    /// Returns the initial state.
    fn first(&self) -> Self::State;

    /// Adds all steps that are possible in a state.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Self::Step>);

    /// Returns the state that a step leads to.
    fn next(&self, state: &Self::State, step: Self::Step) -> Self::State;

    /// Returns a packed form of the state. It is equal for states with the same properties and the same possible futures.
    fn key(&self, state: &Self::State) -> impl AsRef<[u64]>;

    /// Returns true if a property holds in a state.
    fn holds(&self, property: Self::Property, state: &Self::State) -> bool;
}

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Exploration<P, S> {
    /// The number of different states: all reachable ones, or those seen before the violation.
    pub states: usize,
    /// The number of transitions to these states.
    pub transitions: usize,
    /// The number of steps to the farthest state.
    pub depth: usize,
    /// The duration of the exploration.
    pub took: Duration,
    /// A shortest trace to a state that violates a property.
    pub violation: Option<Violation<P, S>>,
}

/// A violated property, and a trace that leads to the violation.
#[derive(Clone, Debug)]
pub struct Violation<P, S> {
    /// The violated property.
    pub property: P,
    /// The steps from the first state on.
    pub trace: Vec<S>,
}

/// Visits every reachable state until a property is violated.
///
/// # Panics
///
/// Same as [`explore_for`].
pub fn explore<M: Model>(model: M) -> Exploration<M::Property, M::Step> {
    explore_for(model, M::PROPERTIES)
}

/// Visits every reachable state until one of these properties is violated.
///
/// # Panics
///
/// Panics if a step panics.
pub fn explore_for<M: Model>(model: M, properties: &[M::Property]) -> Exploration<M::Property, M::Step> {
    let begun = Instant::now();
    let seen = Seen::default();
    let first = model.first();
    seen.insert(fingerprint(&model.key(&first)), 0);
    let mut level = vec![first];
    let (mut transitions, mut depth) = (0, 0);
    while !level.is_empty() {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let size = level.len().div_ceil(threads);
        let parts: Vec<Part<M>> = thread::scope(|scope| {
            let work: Vec<_> = level
                .chunks(size)
                .map(|chunk| scope.spawn(|| expand(model, properties, chunk, &seen)))
                .collect();
            work.into_iter().map(|part| part.join().expect("expanding does not panic")).collect()
        });
        transitions += parts.iter().map(|part| part.transitions).sum::<usize>();
        let violated = parts.iter().find_map(|part| part.violated);
        if let Some((property, state)) = violated {
            let trace = seen.trace(model, &state);
            let violation = Some(Violation { property, trace });
            return Exploration {
                states: seen.len(),
                transitions,
                depth: depth + 1,
                took: begun.elapsed(),
                violation,
            };
        }
        level = parts.into_iter().flat_map(|part| part.next).collect();
        depth += usize::from(!level.is_empty());
    }
    Exploration { states: seen.len(), transitions, depth, took: begun.elapsed(), violation: None }
}

/// The results of one thread for its part of a level.
struct Part<M: Model> {
    next: Vec<M::State>,
    transitions: usize,
    violated: Option<(M::Property, M::State)>,
}

fn expand<M: Model>(model: M, properties: &[M::Property], states: &[M::State], seen: &Seen) -> Part<M> {
    let mut part = Part { next: Vec::new(), transitions: 0, violated: None };
    let mut steps = Vec::new();
    for state in states {
        let from = fingerprint(&model.key(state));
        model.steps(state, &mut steps);
        part.transitions += steps.len();
        for step in steps.drain(..) {
            let next = model.next(state, step);
            if !seen.insert(fingerprint(&model.key(&next)), from) {
                continue;
            }
            let violated = properties.iter().copied().find(|property| !model.holds(*property, &next));
            part.violated = part.violated.or(violated.map(|property| (property, next)));
            part.next.push(next);
        }
    }
    part
}

/// The fingerprints of visited states, each with that of its predecessor. Shards keep threads from blocking each other.
struct Seen(Vec<Mutex<HashMap<u64, u64, BuildHasherDefault<Identity>>>>);

impl Default for Seen {
    fn default() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }
}

impl Seen {
    /// Inserts a state. Returns true if it is new.
    fn insert(&self, state: u64, from: u64) -> bool {
        match self.shard(state).entry(state) {
            Entry::Vacant(entry) => {
                entry.insert(from);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Returns the steps from the first state to this one, or to one that differs only in the names of the nodes.
    fn trace<M: Model>(&self, model: M, last: &M::State) -> Vec<M::Step> {
        let mut way = vec![fingerprint(&model.key(last))];
        while let Some(from) = way.last().and_then(|state| self.shard(*state).get(state).copied()) {
            way.push(from);
        }
        let (mut state, mut trace) = (model.first(), Vec::new());
        // The last two entries are the mark of the first state, which has no predecessor, and that state itself.
        for wanted in way.iter().rev().skip(2) {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            let leads = |step: &M::Step| fingerprint(&model.key(&model.next(&state, *step))) == *wanted;
            let step = steps.into_iter().find(leads).expect("some step leads to this state");
            state = model.next(&state, step);
            trace.push(step);
        }
        trace
    }

    fn shard(&self, state: u64) -> MutexGuard<'_, HashMap<u64, u64, BuildHasherDefault<Identity>>> {
        // The map inside of a shard uses other bits first.
        let shard = usize::try_from(state >> 32).unwrap_or_default() % self.0.len();
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mixes a packed state into 64 bits with one multiplication of 64 by 64 bits per word.
fn fingerprint(key: &impl AsRef<[u64]>) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation)] // both halves are used
        let (low, high) = (product as u64, (product >> 64) as u64);
        low ^ high
    };
    key.as_ref().iter().fold(0x243f_6a88_85a3_08d3, |hash, word| mix(hash, *word)).max(1)
}

/// A hasher that returns fingerprints unchanged, since they are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
