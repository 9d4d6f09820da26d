//! Compares many runs with a model and its broken variants.

use std::ops::Range;
use std::time::Duration;

use redlock_model::{Broken, Rule};

use crate::accept::{Step, Translation, Variant, accept};
use crate::world::Layer;

/// The number of seeds for each layer. A run of the whole stack takes longer.
const SEEDS: [(Layer, Range<u64>); 3] =
    [(Layer::Datagrams, 0..100), (Layer::Streams, 0..100), (Layer::Whole, 0..60)];

/// The layers of a model that assumes connections.
pub(crate) const WITH_CONNECTIONS: &[Layer] = &[Layer::Streams, Layer::Whole];

/// All layers.
pub(crate) const ALL: &[Layer] = &[Layer::Datagrams, Layer::Streams, Layer::Whole];

/// A kind of steps, and a function that recognizes them.
pub(crate) type Kind<T> = (&'static str, fn(&Step<T>) -> bool);

/// Returns the runs of every seed.
pub(crate) fn runs<T>(
    layers: &[Layer],
    run: impl Fn(u64, Layer) -> T,
) -> impl Iterator<Item = (u64, Layer, T)> {
    let seeds = SEEDS.into_iter().filter(|(layer, _)| layers.contains(layer));
    let seeds = seeds.flat_map(|(layer, seeds)| seeds.map(move |seed| (seed, layer)));
    seeds.map(move |(seed, layer)| (seed, layer, run(seed, layer)))
}

/// Asserts that the model accepts every run, and that the runs contain each of these kinds of steps.
pub(crate) fn all_are_accepted<T: Translation>(kinds: &[Kind<T>]) {
    let mut counts = vec![0; kinds.len()];
    for (seed, layer, run) in runs(T::LAYERS, T::run) {
        match accept(&run, &run.model(T::Model::SOUND)) {
            Ok(steps) => {
                for (count, (_, is)) in counts.iter_mut().zip(kinds) {
                    *count += steps.iter().filter(|step| is(step)).count();
                }
            }
            Err(rejection) => panic!("seed {seed}, {layer:?}: {rejection}"),
        }
    }
    for (count, (kind, _)) in counts.into_iter().zip(kinds) {
        assert!(count >= 5, "too few of these steps: {kind} ({count})");
    }
}

/// Asserts that each broken variant of the model fails in some run, except these.
pub(crate) fn each_fails_except<T: Translation>(catalog: &[Broken<T::Model>], permissive: &[Variant<T>]) {
    let broken = catalog.iter().map(|broken| broken.variant).filter(|variant| *variant != T::Model::SOUND);
    let mut left: Vec<_> = broken.collect();
    left.dedup();
    for (_, _, run) in runs(T::LAYERS, T::run) {
        left.retain(|variant| accept(&run, &run.model(*variant)).is_ok());
    }
    assert_eq!(permissive, left, "the variants that accept all runs");
}

/// Asserts that the model does not accept runs that break its assumption, at least in this number of them.
pub(crate) fn some_fail<T: Translation>(least: usize, layers: &[Layer], run: impl Fn(u64, Layer) -> T) {
    let is_rejected = |run: &T| accept(run, &run.model(T::Model::SOUND)).is_err();
    let failed = runs(layers, run).filter(|(_, _, run)| is_rejected(run)).count();
    assert!(failed >= least, "only {failed} runs fail");
}

/// Returns runs in which a server loses its data at a moment before this time.
pub(crate) fn with_a_loss<T: Translation>(before: Duration) -> impl Fn(u64, Layer) -> T {
    move |seed, layer| {
        let mut world = T::world(seed, layer);
        world.lose_data(before);
        T::run_in(world, seed)
    }
}
