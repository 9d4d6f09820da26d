//! The horizontal scale of a picture: moments, and their shares of the width.

use redlock_core::runtime::Instant;

use super::scene::Span;

/// A scale that is even between its knots.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale(Vec<(Instant, f64)>);

/// The part of the width that a stretched scale divides evenly by time. The rest is divided by events.
const BY_TIME: f64 = 0.4;

/// The largest number of knots between the ends, so that a page can interpolate.
const MOST_KNOTS: usize = 100;

impl Scale {
    /// Returns the even scale.
    pub(super) fn even(window: Span) -> Self {
        Self(vec![(window.from, 0.0), (window.until, 1.0)])
    }

    /// Returns a scale that is stretched where much happens: a part of the width shows the time evenly, and the rest is
    /// divided evenly among the moments at which something happens.
    pub(super) fn stretched(window: Span, moments: impl IntoIterator<Item = Instant>) -> Self {
        let mut moments: Vec<_> =
            moments.into_iter().filter(|at| window.from < *at && *at < window.until).collect();
        moments.sort_unstable();
        moments.dedup();
        let all = number(moments.len() + 1);
        let even = Self::even(window);
        let knots = moments
            .iter()
            .enumerate()
            .map(|(index, at)| (*at, BY_TIME * even.share(*at) + (1.0 - BY_TIME) * number(index + 1) / all));
        let knots = knots.step_by(moments.len().div_ceil(MOST_KNOTS).max(1));
        Self([(window.from, 0.0)].into_iter().chain(knots).chain([(window.until, 1.0)]).collect())
    }

    /// Returns the share of the width before a moment. It is 0 before the scale begins, and 1 after its end.
    pub(super) fn share(&self, at: Instant) -> f64 {
        let after = self.0.partition_point(|(knot, _)| *knot <= at);
        let (Some((from, start)), Some((until, end))) =
            (after.checked_sub(1).and_then(|before| self.0.get(before)), self.0.get(after))
        else {
            return if after == 0 { 0.0 } else { 1.0 };
        };
        let since = |at: Instant| at.saturating_duration_since(*from).as_secs_f64();
        start + (end - start) * since(at) / since(*until)
    }

    /// Returns the moments between which the scale is even, with their shares of the width.
    pub fn knots(&self) -> &[(Instant, f64)] {
        &self.0
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn window() -> Span {
        Span { from: at(0), until: at(10_000) }
    }

    #[test]
    fn an_even_scale_is_even_and_ends_at_the_edges() {
        let shares = [0, 2_500, 10_000, 99_000].map(|millis| Scale::even(window()).share(at(millis)));
        assert_eq!([0.0, 0.25, 1.0, 1.0].map(f64::to_bits), shares.map(f64::to_bits));
        let empty = Scale::even(Span { from: at(5), until: at(5) });
        assert_eq!([0.0, 1.0].map(f64::to_bits), [empty.share(at(4)), empty.share(at(5))].map(f64::to_bits));
    }

    /// A split vote within 50 ms has a quarter of the width at least.
    #[test]
    fn a_stretched_scale_shows_fast_events() {
        let fast = (0..20).map(|number| 4_000 + number * 2);
        let rare = (0..20).map(|number| number * 500);
        let scale = Scale::stretched(window(), fast.chain(rare).map(at));
        let share = scale.share(at(4_050)) - scale.share(at(4_000));
        assert!(share > 0.25, "{share}");
        assert!(scale.knots().is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1), "{scale:?}");
    }

    #[test]
    fn a_scale_has_a_bounded_number_of_knots() {
        let scale = Scale::stretched(window(), (0..9_999).map(at));
        assert!(scale.knots().len() <= MOST_KNOTS + 2, "{}", scale.knots().len());
    }
}
