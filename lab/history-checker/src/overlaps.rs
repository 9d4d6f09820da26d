//! Mutual exclusion: no two leases on a lock at the same time, unless both are of readers.

use std::collections::{BTreeMap, HashSet};

use crate::hold::{Hold, Interval};
use crate::violation::Violation;

/// The leases that held a lock at the same time.
#[derive(Default)]
pub(crate) struct Overlaps {
    /// Pairs that exclude each other, once each.
    pub(crate) violations: Vec<Violation>,
    /// The number of pairs of readers.
    pub(crate) readers: usize,
}

pub(crate) fn overlaps(holds: &[Hold]) -> Overlaps {
    let mut resources: BTreeMap<&str, Vec<(Interval, &Hold)>> = BTreeMap::new();
    for hold in holds {
        let intervals = hold.intervals.iter().map(|interval| (*interval, hold));
        resources.entry(&hold.resource).or_default().extend(intervals);
    }
    let mut found = Overlaps::default();
    for intervals in resources.values_mut() {
        intervals.sort_by_key(|(interval, _)| interval.from);
        in_order(intervals, &mut found);
    }
    found
}

/// Compares each interval with those that have begun before and not ended.
fn in_order(intervals: &[(Interval, &Hold)], found: &mut Overlaps) {
    let mut current: Vec<(Interval, &Hold)> = Vec::new();
    let mut pairs = HashSet::new();
    for &(interval, hold) in intervals {
        current.retain(|(earlier, _)| earlier.until > interval.from);
        for &(earlier, other) in &current {
            let Some(both) = earlier.common(interval) else { continue };
            let pair = ((&hold.id).min(&other.id), (&hold.id).max(&other.id));
            if other.id == hold.id || !pairs.insert(pair) {
                continue;
            }
            if hold.mode.excludes(other.mode) {
                found.violations.push(Violation::Overlap {
                    resource: hold.resource.clone(),
                    first: (other.id.clone(), other.mode),
                    second: (hold.id.clone(), hold.mode),
                    both,
                });
            } else {
                found.readers += 1;
            }
        }
        current.push((interval, hold));
    }
}
