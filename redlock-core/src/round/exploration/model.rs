//! The rounds as a model for the explorer.

use std::cell::RefCell;

use redlock_model::{Model, Rule};

use crate::round::exploration::broken::Variant;
use crate::round::exploration::property::Property;
use crate::round::exploration::scope::Scope;
use crate::round::exploration::step::{Path, Step};
use crate::round::exploration::world::World;

/// The rounds within bounds, either sound or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rounds {
    pub(super) scope: Scope,
    pub(super) variant: Variant,
}

/// The worlds along the path that was asked for last. The explorer asks for neighbors one after another, so nearly all of
/// a path is there already.
#[derive(Default)]
struct Visited {
    of: Option<Rounds>,
    /// The steps, and the world after each of them. The first world has no step.
    steps: Vec<Step>,
    worlds: Vec<World>,
    last: u64,
}

thread_local! {
    static VISITED: RefCell<Visited> = RefCell::default();
}

impl Rounds {
    /// Reads the world at the end of a path.
    pub(super) fn at<T>(self, path: &Path, read: impl FnOnce(&World) -> T) -> T {
        VISITED.with_borrow_mut(|visited| {
            if visited.of != Some(self) {
                let first = World::new(self.scope, self.variant);
                *visited = Visited { of: Some(self), worlds: vec![first], ..Visited::default() };
            }
            if visited.of == Some(self) && visited.last == path.id() {
                return read(visited.worlds.last().expect("the first world is there"));
            }
            let common = visited.steps.iter().zip(path.steps()).take_while(|(old, new)| old == new).count();
            visited.steps.truncate(common);
            visited.worlds.truncate(common + 1);
            for step in &path.steps()[common..] {
                let mut next = visited.worlds.last().expect("the first world is there").fork();
                next.apply(*step);
                visited.steps.push(*step);
                visited.worlds.push(next);
            }
            visited.last = path.id();
            read(visited.worlds.last().expect("the first world is there"))
        })
    }
}

impl Rule for Rounds {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    /// Some variants act on the next node, and the digest does not distinguish nodes.
    const EXACT: bool = false;

    fn broken(scope: Scope, variant: Variant) -> Self {
        Self { scope, variant }
    }

    fn describe(&self, trace: &[Step]) -> Vec<String> {
        let mut world = World::new(self.scope, self.variant);
        let describe = |step: &Step| {
            let line = world.describe(*step);
            world.apply(*step);
            line
        };
        trace.iter().map(describe).collect()
    }
}

impl Model for Rounds {
    type State = Path;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = Property::ALL;

    fn first(&self) -> Path {
        Path::FIRST
    }

    fn steps(&self, path: &Path, steps: &mut Vec<Step>) {
        self.at(path, |world| world.steps(steps));
    }

    fn next(&self, path: &Path, step: Step) -> Path {
        path.then(step)
    }

    fn key(&self, path: &Path) -> impl AsRef<[u64]> {
        self.at(path, World::digest)
    }

    fn holds(&self, property: Property, path: &Path) -> bool {
        self.at(path, |world| property.holds(world))
    }
}
