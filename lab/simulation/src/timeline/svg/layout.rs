//! The layout: moments on the horizontal axis, and rows without overlaps.

use redlock_core::runtime::Instant;

use crate::timeline::scale::Scale;
use crate::timeline::scene::Span;

/// The usual width. All lengths are in SVG units, which are pixels without scaling.
pub(in crate::timeline) const WIDTH: f64 = 1200.0;

/// The space for the names of lanes.
pub(super) const LEFT: f64 = 64.0;

const RIGHT: f64 = 24.0;

pub(super) const FONT: f64 = 11.0;

pub(super) struct Layout {
    pub(super) window: Span,
    pub(super) scale: Scale,
    pub(super) width: f64,
}

impl Layout {
    pub(super) fn x(&self, at: Instant) -> f64 {
        round(LEFT + self.scale.share(at) * (self.right() - LEFT))
    }

    /// Returns the right edge of the lanes.
    pub(super) fn right(&self) -> f64 {
        self.width - RIGHT
    }

    /// Returns the start and the width of a period, with a visible minimum width.
    pub(super) fn stretch(&self, span: Span) -> (f64, f64) {
        let from = self.x(span.from);
        (from, round((self.x(span.until) - from).max(2.0)))
    }

    /// Returns the start of the caption of a mark at `x`. If there is no room on the right, it is on the left.
    pub(super) fn caption_start(&self, text: &str, x: f64) -> f64 {
        let width = text_width(text);
        let (left, right) = (x - 4.0 - width, x + 4.0);
        if right + width > self.right() && left >= LEFT { round(left) } else { self.text_start(text, right) }
    }

    /// Returns the start of a text at `x`, moved left if it would leave the picture.
    pub(super) fn text_start(&self, text: &str, x: f64) -> f64 {
        round(x.min(self.right() - text_width(text)).max(LEFT))
    }
}

/// Rounds to a tenth of a pixel: more digits only make the file longer.
pub(super) fn round(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

/// Returns the approximate width of a text. Fonts differ, so it is a generous estimate.
pub(super) fn text_width(text: &str) -> f64 {
    let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(characters) * FONT * 0.58
}

/// Puts extents, each from one x to another, into the first row without an overlap.
///
/// Returns the row of each extent, and the number of rows.
pub(super) fn rows(extents: impl IntoIterator<Item = (f64, f64)>) -> (Vec<usize>, usize) {
    let mut ends: Vec<f64> = Vec::new();
    let place = |(from, until): (f64, f64)| match ends.iter().position(|end| *end <= from) {
        Some(row) => {
            ends[row] = until;
            row
        }
        None => {
            ends.push(until);
            ends.len() - 1
        }
    };
    let rows = extents.into_iter().map(place).collect();
    (rows, ends.len())
}

/// Converts a number of rows, which is small, to a length.
pub(super) fn count(rows: usize) -> f64 {
    f64::from(u32::try_from(rows).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn even(from: u64, until: u64, width: f64) -> Layout {
        let [from, until] = [from, until].map(|millis| Instant::since_origin(Duration::from_millis(millis)));
        let window = Span { from, until };
        Layout { window, scale: Scale::even(window), width }
    }

    #[test]
    fn overlapping_bars_go_into_different_rows() {
        assert_eq!((vec![0, 1, 0, 2], 3), rows([(0.0, 5.0), (4.0, 9.0), (5.0, 8.0), (6.0, 7.0)]));
        assert_eq!((vec![], 0), rows([]));
    }

    #[test]
    fn a_caption_does_not_cover_its_mark() {
        let layout = even(0, 100, 390.0);
        let width = text_width("clock +5000 ms");
        let start = |x| layout.caption_start("clock +5000 ms", x);
        assert_eq!(
            [104.0, round(346.0 - width)].map(f64::to_bits),
            [start(100.0), start(350.0)].map(f64::to_bits)
        );
    }

    #[test]
    fn moments_lie_between_the_edges() {
        let at = |millis| Instant::since_origin(Duration::from_millis(millis));
        let layout = even(100, 200, WIDTH);
        let ends = [layout.x(at(0)), layout.x(at(100)), layout.x(at(200)), layout.x(at(999))];
        assert_eq!([LEFT, LEFT, WIDTH - RIGHT, WIDTH - RIGHT].map(f64::to_bits), ends.map(f64::to_bits));
    }
}
