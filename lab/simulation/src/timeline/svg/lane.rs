//! One lane: a row with bars for each resource, and rows for faults.

use std::collections::{BTreeMap, BTreeSet};

use ::svg::node::element::{Circle, Group, Line, Path, Rectangle};
use redlock_core::runtime::Instant;

use super::layout::{LEFT, Layout, count, rows, text_width};
use super::paint::{self, caption, label, title};
use crate::history::{FaultKind, Place, TokenNumber};
use crate::timeline::scene::{Bar, Lane, Span, Write};

/// The height of a row of bars, and of a row of faults.
const BARS: f64 = 20.0;
const FAULTS: f64 = 15.0;

/// The space above and below the rows.
const PADDING: f64 = 4.0;

/// The rows of a lane.
pub(super) struct Rows<'a> {
    lane: &'a Lane,
    /// The row of each resource.
    resources: BTreeMap<usize, usize>,
    /// The row of each fault.
    faults: Vec<usize>,
    trouble_rows: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn new(place: Place, lane: &'a Lane, layout: &Layout) -> Self {
        let seen: BTreeSet<usize> = lane
            .bars
            .iter()
            .map(|bar| bar.resource)
            .chain(lane.requests.iter().map(|(resource, _)| *resource))
            .collect();
        let mut resources: BTreeMap<_, _> = seen.into_iter().zip(0..).collect();
        if resources.is_empty() && matches!(place, Place::Client(_) | Place::Server(_) | Place::Resource(_)) {
            resources.insert(0, 0);
        }
        let (faults, trouble_rows) =
            rows(lane.faults.iter().map(|(fault, span)| extent(*fault, *span, layout)));
        Self { lane, resources, faults, trouble_rows }
    }

    pub(super) fn height(&self) -> f64 {
        count(self.resources.len()) * BARS + count(self.trouble_rows) * FAULTS + 2.0 * PADDING
    }

    pub(super) fn draw(
        &self,
        place: Place,
        layout: &Layout,
        top: f64,
        violated: &BTreeSet<TokenNumber>,
    ) -> Group {
        let bottom = top + self.height();
        let border = Line::new().set("stroke", paint::GRID).set("x1", 0).set("x2", layout.right());
        let baseline = top + PADDING + if self.resources.is_empty() { 10.0 } else { 14.0 };
        let name = label(place.to_string(), LEFT - 12.0, baseline, paint::INK);
        let mut group = Group::new()
            .add(border.set("y1", bottom).set("y2", bottom))
            .add(name.set("text-anchor", "end").set("font-weight", "bold"));
        if let Place::Client(client) = place {
            let color = Rectangle::new().set("fill", paint::client(client)).set("width", 8).set("height", 8);
            group = group.add(color.set("x", 16).set("y", baseline - 8.0).set("rx", 2));
        }
        let stopped = self.lane.faults.iter().filter(|(fault, _)| paint::stops(*fault));
        for (_, span) in stopped {
            let (x, width) = layout.stretch(*span);
            let hatched = Rectangle::new().set("fill", "url(#stopped)").set("opacity", 0.7);
            group =
                group.add(hatched.set("x", x).set("y", top).set("width", width).set("height", bottom - top));
        }
        let row = |resource: usize| {
            self.resources.get(&resource).map_or(top, |row| top + PADDING + count(*row) * BARS)
        };
        for (resource, span) in &self.lane.requests {
            let ((x, width), y) = (layout.stretch(*span), row(*resource) + BARS / 2.0);
            let line = Line::new().set("stroke", paint::FAINT).set("stroke-dasharray", "3 2");
            group = group.add(line.set("x1", x).set("x2", x + width).set("y1", y).set("y2", y));
        }
        for bar in &self.lane.bars {
            group = group.add(draw_bar(place, bar, layout, row(bar.resource), violated));
        }
        for act in &self.lane.acts {
            let colour = if act.is_valid { paint::INK } else { paint::ALARM };
            let dot = Circle::new().set("r", if act.is_valid { 2.0 } else { 4.0 }).set("fill", colour);
            group = group.add(dot.set("cx", layout.x(act.at)).set("cy", row(act.resource) + BARS - 4.0));
        }
        // Rejections are drawn last, so that other writes do not hide them.
        let (rejected, accepted): (Vec<_>, Vec<_>) =
            self.lane.writes.iter().partition(|write| !write.is_accepted);
        for write in accepted.into_iter().chain(rejected) {
            group = group.add(draw_write(write, layout, top + PADDING + BARS / 2.0));
        }
        for at in &self.lane.losses {
            group = group.add(draw_loss(*at, layout, top + PADDING));
        }
        let begin = top + PADDING + count(self.resources.len()) * BARS;
        for ((fault, span), row) in self.lane.faults.iter().zip(&self.faults) {
            group = group.add(draw_fault(*fault, *span, layout, begin + count(*row) * FAULTS));
        }
        group
    }
}

/// Returns the horizontal extent of a fault, with its caption.
fn extent(fault: FaultKind, span: Span, layout: &Layout) -> (f64, f64) {
    let (x, width) = layout.stretch(span);
    let text = caption(fault);
    let start = layout.caption_start(&text, x);
    (start.min(x), (x + width).max(start + text_width(&text)) + 4.0)
}

fn draw_fault(fault: FaultKind, span: Span, layout: &Layout, top: f64) -> Group {
    let (x, width) = layout.stretch(span);
    let text = caption(fault);
    let colour = paint::fault(fault);
    let extent = Rectangle::new().set("fill", colour).set("opacity", 0.25).set("rx", 2);
    let begin = Rectangle::new().set("fill", colour).set("x", x).set("y", top).set("width", 2);
    let caption = label(text.clone(), layout.caption_start(&text, x), top + 10.0, colour);
    Group::new()
        .add(extent.set("x", x).set("y", top).set("width", width).set("height", FAULTS - 2.0))
        .add(begin.set("height", FAULTS - 2.0))
        .add(caption)
        .add(title(format!("{fault}, {}", when(span))))
}

/// Draws a dot for an accepted write, a ring for an accepted token alone, and a cross for a rejection.
fn draw_write(write: &Write, layout: &Layout, y: f64) -> Group {
    let Write { at, client, fence, changes, is_accepted } = *write;
    let (x, colour) = (layout.x(at), paint::client(client));
    let mark = if !is_accepted {
        Group::new().add(cross(x, y))
    } else if changes {
        Group::new().add(Circle::new().set("r", 3.5).set("fill", colour).set("cx", x).set("cy", y))
    } else {
        ring(x, y, colour)
    };
    let verb = if is_accepted { "accepts" } else { "rejects" };
    let what = if changes { "a write with fencing token" } else { "fencing token" };
    mark.add(title(format!("{verb} {what} {fence} of c{client}")))
}

/// Draws the ring of a fencing token.
pub(super) fn ring(x: f64, y: f64, colour: &str) -> Group {
    let ring = Circle::new().set("r", 5.0).set("fill", "none").set("stroke", colour);
    Group::new().add(ring.set("stroke-width", 1.5).set("cx", x).set("cy", y))
}

/// Draws the cross of a rejection, with a border of paper around it.
pub(super) fn cross(x: f64, y: f64) -> Group {
    let path = format!("M{:.1} {:.1}l10 10m0 -10l-10 10", x - 5.0, y - 5.0);
    let line = |colour: &str, width: f64| {
        Path::new()
            .set("d", path.clone())
            .set("fill", "none")
            .set("stroke", colour)
            .set("stroke-width", width)
    };
    Group::new().add(line(paint::PAPER, 6.0)).add(line(paint::ALARM, 2.5))
}

fn draw_loss(at: Instant, layout: &Layout, top: f64) -> Group {
    let (x, text) = (layout.x(at), "loss reported");
    let line = Line::new().set("stroke", paint::ALARM).set("stroke-width", 1.5).set("x1", x).set("x2", x);
    let start = layout.text_start(text, x + 4.0);
    Group::new().add(line.set("y1", top).set("y2", top + BARS)).add(label(
        text,
        start,
        top + 14.0,
        paint::ALARM,
    ))
}

fn draw_bar(place: Place, bar: &Bar, layout: &Layout, top: f64, violated: &BTreeSet<TokenNumber>) -> Group {
    let (x, width) = layout.stretch(bar.span);
    let (is_key, colour) = (matches!(place, Place::Server(_)), paint::client(bar.client));
    let bars = Rectangle::new()
        .set("fill", colour)
        .set("fill-opacity", if is_key { paint::KEY } else { paint::LEASE });
    let bars =
        bars.set("x", x).set("y", top + 2.0).set("width", width).set("height", BARS - 4.0).set("rx", 3);
    let bars = if violated.contains(&bar.token) {
        bars.set("stroke", paint::ALARM).set("stroke-width", 1.5)
    } else if !bar.counts {
        bars.set("fill-opacity", 0).set("stroke", colour).set("stroke-dasharray", "4 3")
    } else {
        bars
    };
    let counts = if bar.counts { "" } else { ", does not count" };
    let description = if is_key { "key of " } else { "" };
    let fence = bar.fence.map_or(String::new(), |fence| format!(", fencing token {fence}"));
    let about = format!(
        "{description}c{}: r{} {}{fence}{counts}, {}",
        bar.client,
        bar.resource,
        bar.token,
        when(bar.span)
    );
    let group = Group::new().add(bars).add(title(about));
    let colour = if is_key { paint::INK } else { paint::on_client(bar.client) };
    let name = format!("r{} {}", bar.resource, bar.token);
    let texts = [format!("{name}{counts}"), name, format!("r{}", bar.resource)];
    // Actions are dots at the lower edge of a lease.
    let baseline = top + if is_key { 14.0 } else { 12.0 };
    match texts.into_iter().find(|text| text_width(text) + 8.0 <= width) {
        Some(text) => group.add(label(text, x + 5.0, baseline, colour)),
        None => group,
    }
}

fn when(span: Span) -> String {
    let seconds = |at: Instant| at.elapsed_since_origin().as_secs_f64();
    format!("{:.3} s to {:.3} s", seconds(span.from), seconds(span.until))
}
