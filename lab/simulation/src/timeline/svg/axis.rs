//! The time axis: lines at round moments, with space between them. Where the scale is stretched, they are denser in time.

use std::time::Duration;

use ::svg::node::element::{Group, Line};
use redlock_core::runtime::Instant;

use super::layout::{LEFT, Layout};
use super::paint;

/// The space for the numbers below the lanes.
pub(super) const HEIGHT: f64 = 18.0;

/// The minimum space between two lines, for a calm picture.
const SPACE: f64 = 69.0;

/// The number of lines for which a narrow picture has room.
const FEWEST_LINES: f64 = 5.0;

/// The shortest time between two lines.
const SHORTEST: Duration = Duration::from_micros(1);

/// The number of steps that are tried between two lines. With more of them, lines would be at moments that are not round.
const STEPS: usize = 7;

/// A line of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    moment: Duration,
    /// The time between this line and its neighbors. The number has as many digits.
    step: Duration,
}

pub(super) fn draw(layout: &Layout, top: f64, bottom: f64) -> Group {
    let space = SPACE.min((layout.right() - LEFT) / FEWEST_LINES);
    let x = |moment| layout.x(Instant::since_origin(moment));
    let [from, until] = [layout.window.from, layout.window.until].map(Instant::elapsed_since_origin);
    marks(from, until, &|one, next| x(next) - x(one) >= space).into_iter().fold(Group::new(), |axis, mark| {
        let x = x(mark.moment);
        let line = Line::new().set("stroke", paint::GRID).set("x1", x).set("x2", x);
        let text = paint::label(seconds(mark.moment, mark.step), x, bottom + 13.0, paint::FAINT);
        axis.add(line.set("y1", top).set("y2", bottom + 3.0)).add(text.set("text-anchor", "middle"))
    })
}

/// Returns lines at multiples of the shortest step whose lines all have space, with shorter steps between those that have
/// more.
fn marks(from: Duration, until: Duration, fits: &impl Fn(Duration, Duration) -> bool) -> Vec<Mark> {
    let window = until.saturating_sub(from);
    let mut marks = Vec::new();
    for step in steps(window.max(SHORTEST) * 10).take_while(|step| window <= *step * 1_000) {
        let found = multiples(step, from, until);
        if !found.is_sorted_by(|one, next| fits(*one, *next)) {
            break;
        }
        marks = found.into_iter().map(|moment| Mark { moment, step }).collect();
    }
    let mut index = 0;
    while index + 1 < marks.len() {
        let between = divided(marks[index], marks[index + 1], fits);
        if between.is_empty() {
            index += 1;
        } else {
            drop(marks.splice(index + 1..=index, between));
        }
    }
    marks
}

/// Returns lines between two, at the longest step at which some have space.
fn divided(one: Mark, next: Mark, fits: &impl Fn(Duration, Duration) -> bool) -> Vec<Mark> {
    if !fits(one.moment, next.moment) {
        return Vec::new();
    }
    let added = |step| {
        let mut before = one.moment;
        let has_space = |moment: &Duration| {
            let has_space = fits(before, *moment) && fits(*moment, next.moment);
            before = if has_space { *moment } else { before };
            has_space
        };
        let moments = multiples(step, one.moment, next.moment).into_iter().filter(has_space);
        moments.map(|moment| Mark { moment, step }).collect::<Vec<_>>()
    };
    let gap = next.moment.saturating_sub(one.moment);
    steps(gap).take(STEPS).map(added).find(|marks| !marks.is_empty()).unwrap_or_default()
}

/// Returns 1, 2 and 5 times powers of ten up to a time, the longest first.
fn steps(most: Duration) -> impl Iterator<Item = Duration> {
    let most = most.as_nanos();
    let powers = (0..20).rev().map(|power| 10_u128.pow(power));
    let steps = powers.flat_map(|power| [5, 2, 1].map(|factor| power * factor));
    let steps = steps.filter(move |step| (SHORTEST.as_nanos()..=most).contains(step));
    steps.filter_map(|step| u64::try_from(step).ok().map(Duration::from_nanos))
}

fn multiples(step: Duration, from: Duration, until: Duration) -> Vec<Duration> {
    let turns = from.as_nanos().div_ceil(step.as_nanos())..=until.as_nanos() / step.as_nanos();
    turns.map(|turn| step * u32::try_from(turn).unwrap_or(u32::MAX)).collect()
}

/// Formats a moment with as many digits as the step has.
fn seconds(moment: Duration, step: Duration) -> String {
    let digits = [0, 1, 2, 3]
        .into_iter()
        .find(|digits| step >= Duration::from_nanos(1_000_000_000 / 10_u64.pow(*digits)));
    let digits = usize::try_from(digits.unwrap_or(6)).unwrap_or(6);
    format!("{:.digits$} s", moment.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Returns the moments of an even axis with room for a number of lines, in milliseconds.
    fn even(until: u32, lines: u32) -> Vec<u128> {
        let least = until * MILLI / lines;
        let marks = marks(Duration::ZERO, until * MILLI, &|one, next| next >= one + least);
        marks.iter().map(|mark| mark.moment.as_millis()).collect()
    }

    #[test]
    fn lines_are_at_round_moments() {
        assert_eq!((0..=10).map(|turn| turn * 2_000).collect::<Vec<_>>(), even(21_000, 16));
        assert_eq!((0..=15).map(|turn| turn * 1_000).collect::<Vec<_>>(), even(15_999, 16));
        assert_eq!((0..=10).map(|turn| turn * 20).collect::<Vec<_>>(), even(200, 16));
        assert_eq!((0..=3).map(|turn| turn * 5_000).collect::<Vec<_>>(), even(15_999, 4));
        assert_eq!([0], *even(0, 4));
    }

    /// The time from 1 s to 1.1 s has as much space as all the rest.
    #[test]
    fn lines_are_denser_where_the_scale_is_stretched() {
        let place = |moment: Duration| {
            let fast = moment.saturating_sub(1_000 * MILLI).min(100 * MILLI);
            fast.as_secs_f64() * 10.0 + moment.saturating_sub(fast).as_secs_f64() / 3.9
        };
        let marks = marks(Duration::ZERO, 4_000 * MILLI, &|one, next| place(next) - place(one) >= 0.19);
        let shown: Vec<_> = marks.iter().map(|mark| seconds(mark.moment, mark.step)).collect();
        assert!(shown.contains(&"1.02 s".to_owned()) && shown.contains(&"3 s".to_owned()), "{shown:?}");
        assert!(!shown.contains(&"1.50 s".to_owned()) && !shown.contains(&"3.5 s".to_owned()), "{shown:?}");
    }

    #[test]
    fn numbers_have_as_many_digits_as_the_step() {
        let shown = |moment, step| seconds(Duration::from_millis(moment), Duration::from_millis(step));
        assert_eq!(["12 s", "12.5 s", "0.02 s"], [shown(12_000, 2_000), shown(12_500, 500), shown(20, 20)]);
    }
}
