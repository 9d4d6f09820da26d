//! The explorer: every state that can be reached, each looked at once, breadth first.
//!
//! Level by level, so that the trace that it finds is the shortest there is, whatever the threads do. What is kept of a
//! state is a fingerprint of 64 bits, and the fingerprint of the state that led to it; a trace is found again by walking
//! from the first state along these. Two different states with one fingerprint would be taken for one: with n states
//! that happens with a probability of n²/2⁶⁵, which is 1 in 10,000 for 60 million.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What can be explored: states, and the steps between them.
pub trait Model: Copy + Sync {
    /// Everything, at one moment.
    type State: Copy + Send + Sync;
    /// One thing that happens.
    type Step: Copy + PartialEq + Send;
    /// What must hold of a state.
    type Property: Copy + Send + Sync + 'static;

    /// All of them.
    const PROPERTIES: &'static [Self::Property];

    /// Where everything begins.
    fn first(&self) -> Self::State;

    /// Everything that can happen next.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Self::Step>);

    /// What a step leads to.
    fn next(&self, state: &Self::State, step: Self::Step) -> Self::State;

    /// The state, packed: equal where no property and no future tells states apart.
    fn key(&self, state: &Self::State) -> impl AsRef<[u64]>;

    /// Whether a property holds.
    fn holds(&self, property: Self::Property, state: &Self::State) -> bool;
}

/// What an exploration has found.
#[derive(Clone, Debug)]
pub struct Exploration<P, S> {
    /// How many different states can be reached; where something was found, how many were seen until then.
    pub states: usize,
    /// How many transitions lead to them.
    pub transitions: usize,
    /// How many steps the farthest state is away.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// A shortest trace to a state in which something is violated.
    pub violation: Option<Violation<P, S>>,
}

/// What is violated, and how one gets there.
#[derive(Clone, Debug)]
pub struct Violation<P, S> {
    /// What.
    pub property: P,
    /// From the first state on.
    pub trace: Vec<S>,
}

/// Looks at every state that can be reached, until a property is violated.
///
/// # Panics
///
/// As [`explore_for`].
pub fn explore<M: Model>(model: M) -> Exploration<M::Property, M::Step> {
    explore_for(model, M::PROPERTIES)
}

/// Looks at every state that can be reached, until one of these properties is violated.
///
/// # Panics
///
/// When a step does.
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

/// What one thread finds behind its part of a level.
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

/// The states that were seen, as fingerprints, each with the one that led to it. In shards, so that threads seldom meet.
struct Seen(Vec<Mutex<HashMap<u64, u64, BuildHasherDefault<AsItIs>>>>);

impl Default for Seen {
    fn default() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }
}

impl Seen {
    /// Whether it is new.
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

    /// The steps from the first state to this one, or to one that differs in the names of the nodes alone.
    fn trace<M: Model>(&self, model: M, last: &M::State) -> Vec<M::Step> {
        let mut way = vec![fingerprint(&model.key(last))];
        while let Some(from) = way.last().and_then(|state| self.shard(*state).get(state).copied()) {
            way.push(from);
        }
        let (mut state, mut trace) = (model.first(), Vec::new());
        // Last come the mark that nothing led to the first state, and that state itself.
        for wanted in way.iter().rev().skip(2) {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            let leads = |step: &M::Step| fingerprint(&model.key(&model.next(&state, *step))) == *wanted;
            let step = steps.into_iter().find(leads).expect("a step has led there");
            state = model.next(&state, step);
            trace.push(step);
        }
        trace
    }

    fn shard(&self, state: u64) -> MutexGuard<'_, HashMap<u64, u64, BuildHasherDefault<AsItIs>>> {
        // Of bits that the map within does not look at first.
        let shard = usize::try_from(state >> 32).unwrap_or_default() % self.0.len();
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mixes a packed state into 64 bits, a multiplication of 64 by 64 bits for each word.
fn fingerprint(key: &impl AsRef<[u64]>) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation)] // both halves are used
        let (low, high) = (product as u64, (product >> 64) as u64);
        low ^ high
    };
    key.as_ref().iter().fold(0x243f_6a88_85a3_08d3, |hash, word| mix(hash, *word)).max(1)
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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
