//! The time axis: a line at every round moment, limited in number.

use std::time::Duration;

use ::svg::node::element::{Group, Line};

use super::layout::{LEFT, Layout};
use super::paint;
use crate::timeline::scene::Span;

/// The space for the numbers below the lanes.
pub(super) const HEIGHT: f64 = 18.0;

/// The minimum space between two lines, for a calm picture.
const SPACE: f64 = 69.0;

/// The number of lines for which a narrow picture has room.
const FEWEST_LINES: f64 = 5.0;

pub(super) fn draw(layout: &Layout, top: f64, bottom: f64) -> Group {
    let step = step(layout.window, ((layout.right() - LEFT) / SPACE).max(FEWEST_LINES));
    let from = layout.window.from.elapsed_since_origin().as_nanos();
    let until = layout.window.until.elapsed_since_origin().as_nanos();
    let mut axis = Group::new();
    for turn in from.div_ceil(step.as_nanos())..=until / step.as_nanos() {
        let moment = step * u32::try_from(turn).unwrap_or(u32::MAX);
        let x = layout.x(redlock_core::runtime::Instant::since_origin(moment));
        let line = Line::new().set("stroke", paint::GRID).set("x1", x).set("x2", x);
        let text = paint::label(seconds(moment, step), x, bottom + 13.0, paint::FAINT);
        axis = axis.add(line.set("y1", top).set("y2", bottom + 3.0)).add(text.set("text-anchor", "middle"));
    }
    axis
}

/// Returns 1, 2 or 5 times a power of ten, so that there are at most `lines` of them.
fn step(window: Span, lines: f64) -> Duration {
    let all = window.until.saturating_duration_since(window.from);
    let mut power = 1_000;
    loop {
        for factor in [1, 2, 5] {
            let step = Duration::from_nanos(power * factor);
            if all.as_secs_f64() / step.as_secs_f64() < lines {
                return step;
            }
        }
        power *= 10;
    }
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
    use redlock_core::runtime::Instant;

    use super::*;

    #[test]
    fn steps_are_round() {
        let step = |millis, lines| {
            let until = Instant::since_origin(Duration::from_millis(millis));
            step(Span { from: Instant::ORIGIN, until }, lines)
        };
        assert_eq!(Duration::from_secs(2), step(21_000, 16.0));
        assert_eq!(Duration::from_secs(1), step(15_999, 16.0));
        assert_eq!(Duration::from_millis(20), step(200, 16.0));
        assert_eq!(Duration::from_secs(5), step(15_999, 4.0));
    }

    #[test]
    fn numbers_have_as_many_digits_as_the_step() {
        let shown = |moment, step| seconds(Duration::from_millis(moment), Duration::from_millis(step));
        assert_eq!(["12 s", "12.5 s", "0.02 s"], [shown(12_000, 2_000), shown(12_500, 500), shown(20, 20)]);
    }
}
