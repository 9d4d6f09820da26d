//! Interleaved rounds: in every round each slice runs once, in rotated order.
//!
//! Other load of the machine affects all slices alike, so only figures of the same round are compared. The median of
//! the ratios of all rounds counts.

/// The extent of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// The cycles of a slice that times single cycles.
    pub(crate) cycles: usize,
    /// The milliseconds of a slice that counts cycles per second.
    pub(crate) slice_millis: u64,
}

impl Effort {
    /// The extent of published results.
    pub(crate) const FULL: Self = Self { rounds: 11, cycles: 400, slice_millis: 300 };
    /// The extent for work on the benchmarks and the library.
    pub(crate) const QUICK: Self = Self { rounds: 5, cycles: 100, slice_millis: 100 };
    /// The extent for verifying that the benchmarks run.
    pub(crate) const SMOKE: Self = Self { rounds: 1, cycles: 5, slice_millis: 20 };

    /// Returns the value for this extent. One between two extents counts as the smaller.
    pub(crate) fn choose<T>(self, full: T, quick: T, smoke: T) -> T {
        match self.rounds {
            rounds if rounds >= Self::FULL.rounds => full,
            rounds if rounds >= Self::QUICK.rounds => quick,
            _ => smoke,
        }
    }
}

/// A measurement that is made once per round.
pub(crate) type Slice<'a, T> = Box<dyn FnMut() -> T + 'a>;

/// Runs all rounds. Returns the figures of each slice, round by round.
pub(crate) fn interleaved<T>(rounds: usize, mut slices: Vec<Slice<'_, T>>) -> Vec<Vec<T>> {
    let mut figures: Vec<Vec<T>> = slices.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        for turn in 0..slices.len() {
            let slice = (turn + round) % slices.len();
            figures[slice].push(slices[slice]());
        }
    }
    figures
}

/// Returns the ratio of the figures of two slices in each round.
pub(crate) fn ratios<T>(of: &[T], against: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    of.iter().zip(against).map(|(of, against)| figure(of) / figure(against)).collect()
}

pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
