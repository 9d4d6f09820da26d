//! Compares a run with a model.
//!
//! A run does not show everything that a model distinguishes, such as the moment at which a key expires. Thus the
//! comparison keeps all states of the model that agree with the run so far. The model accepts the run if one is left.

use std::fmt::Debug;

use redlock_model::{Model, Rule};

use crate::world::{Layer, Moment, USUAL, World};

/// A run, and its translation into steps of a model.
pub(crate) trait Translation: Sized {
    type Model: Rule + Model<State: PartialEq + Debug>;

    /// The layers of the runs.
    const LAYERS: &'static [Layer];

    /// Returns the world of a run, before it begins.
    fn world(seed: u64, layer: Layer) -> World {
        World::new(seed, layer, USUAL)
    }

    /// Lets clients run in a world.
    fn run_in(world: World, seed: u64) -> Self;

    /// Returns the run of a seed.
    fn run(seed: u64, layer: Layer) -> Self {
        Self::run_in(Self::world(seed, layer), seed)
    }

    /// Returns the model of the run, sound or broken.
    fn model(&self, variant: Variant<Self>) -> Self::Model;

    /// Returns the moments of the run, in their order.
    fn moments(&self) -> &[Moment];

    /// Returns the possible meanings of a moment. `None` is no step: the model does not contain it.
    fn meanings(&self, state: &State<Self>, moment: &Moment) -> Vec<Option<Step<Self>>>;

    /// Returns true if a step may have happened just before a moment, without an event of its own.
    fn is_hidden(&self, state: &State<Self>, step: Step<Self>, moment: &Moment) -> bool;

    /// Returns a step that must not be possible, because a server has denied it.
    fn denied(&self, _state: &State<Self>, _moment: &Moment) -> Option<Step<Self>> {
        None
    }

    /// Returns true if a state agrees with a moment.
    fn agrees(&self, state: &State<Self>, moment: &Moment) -> bool;
}

pub(crate) type State<T> = <<T as Translation>::Model as Model>::State;
pub(crate) type Step<T> = <<T as Translation>::Model as Model>::Step;
pub(crate) type Variant<T> = <<T as Translation>::Model as Rule>::Variant;

/// A state that agrees with the run so far, and the step that led to it.
struct Node<T: Translation> {
    state: State<T>,
    before: Option<(usize, Step<T>)>,
}

/// The number of moments that a message shows.
const SHOWN: usize = 40;

/// Returns the steps of a model that a run consists of, or a message about the first moment that it does not allow.
pub(crate) fn accept<T: Translation>(run: &T, model: &T::Model) -> Result<Vec<Step<T>>, String> {
    let moments = run.moments();
    let mut nodes: Vec<Node<T>> = vec![Node { state: model.first(), before: None }];
    let mut present = vec![0];
    let mut steps = Vec::new();
    for (number, moment) in moments.iter().enumerate() {
        let mut looked = 0;
        while let Some(from) = present.get(looked).copied() {
            looked += 1;
            let state = nodes[from].state;
            model.steps(&state, &mut steps);
            for step in steps.drain(..).filter(|step| run.is_hidden(&state, *step, moment)) {
                add(&mut nodes, &mut present, model.next(&state, step), Some((from, step)));
            }
        }
        let mut next = Vec::new();
        for from in &present {
            let state = nodes[*from].state;
            model.steps(&state, &mut steps);
            if run.denied(&state, moment).is_some_and(|denied| steps.contains(&denied)) {
                steps.clear();
                continue;
            }
            for meaning in run.meanings(&state, moment) {
                let (after, before) = match meaning {
                    None => (state, nodes[*from].before),
                    Some(step) if steps.contains(&step) => (model.next(&state, step), Some((*from, step))),
                    Some(_) => continue,
                };
                if run.agrees(&after, moment) {
                    add(&mut nodes, &mut next, after, before);
                }
            }
            steps.clear();
        }
        if next.is_empty() {
            return Err(rejection(&nodes, &present, &moments[..=number]));
        }
        present = next;
    }
    Ok(trace(&nodes, present[0]))
}

/// Adds a state, unless it is among the present ones.
fn add<T: Translation>(
    nodes: &mut Vec<Node<T>>,
    present: &mut Vec<usize>,
    state: State<T>,
    before: Option<(usize, Step<T>)>,
) {
    if present.iter().all(|other| nodes[*other].state != state) {
        present.push(nodes.len());
        nodes.push(Node { state, before });
    }
}

fn trace<T: Translation>(nodes: &[Node<T>], last: usize) -> Vec<Step<T>> {
    let mut trace = Vec::new();
    let mut before = nodes[last].before;
    while let Some((from, step)) = before {
        trace.push(step);
        before = nodes[from].before;
    }
    trace.reverse();
    trace
}

fn rejection<T: Translation>(nodes: &[Node<T>], present: &[usize], moments: &[Moment]) -> String {
    let mut lines = vec!["the model does not allow the last moment of this run:".to_owned()];
    let shown = &moments[moments.len().saturating_sub(SHOWN)..];
    lines.extend(shown.iter().map(|moment| format!("    {moment:?}")));
    lines.push("The model is in one of these states, after these steps:".to_owned());
    for last in present.iter().take(3) {
        lines.push(format!("  {:?}", nodes[*last].state));
        lines.extend(trace(nodes, *last).iter().map(|step| format!("    {step}")));
    }
    lines.join("\n")
}
