//! The texts of a picture: the numbers of violations, their descriptions, and the legend.

use ::svg::node::element::{Circle, Group, Line, Rectangle};
use redlock_core::runtime::Instant;

use super::lane::{cross, ring};
use super::layout::{LEFT, Layout, count, rows, text_width};
use super::paint::{self, label};
use crate::history::Place;
use crate::invariant::Violation;
use crate::timeline::scene::{Lane, Scene, Write};

/// The height of a line of text.
const LINE: f64 = 16.0;

/// The radius of the circle around a number.
const BADGE: f64 = 8.0;

/// Draws a number above each violation. Overlapping numbers are stacked.
///
/// Returns the drawing and the end of its space.
pub(super) fn badges(scene: &Scene<'_>, layout: &Layout, top: f64) -> (Group, f64) {
    let places: Vec<f64> = scene.violations.iter().map(|(at, _)| layout.x(*at)).collect();
    let (rows, height) = rows(places.iter().map(|x| (x - BADGE, x + BADGE + 1.0)));
    let mut badges = Group::new();
    for (number, (x, row)) in (1..).zip(places.into_iter().zip(rows)) {
        badges = badges.add(badge(number, x, top + BADGE + count(height - 1 - row) * (2.0 * BADGE + 2.0)));
    }
    (badges, top + count(height) * (2.0 * BADGE + 2.0) + 2.0)
}

/// Draws the descriptions of violations, one per line. Returns the drawing and its end.
pub(super) fn violations(scene: &Scene<'_>, top: f64) -> (Group, f64) {
    let mut y = top;
    let mut lines = Group::new();
    for (number, (at, violation)) in (1..).zip(&scene.violations) {
        y += LINE + 2.0;
        let text = label(sentence(*at, violation), LEFT, y, paint::INK);
        lines = lines.add(badge(number, LEFT - 16.0, y - 4.0)).add(text);
    }
    (lines, y)
}

fn sentence(at: Instant, violation: &Violation) -> String {
    format!("{:.3} s  {violation}", at.elapsed_since_origin().as_secs_f64())
}

fn badge(number: u32, x: f64, y: f64) -> Group {
    let circle = Circle::new().set("r", BADGE).set("fill", paint::ALARM).set("cx", x).set("cy", y);
    let text = label(number.to_string(), x, y + 4.0, paint::PAPER).set("text-anchor", "middle");
    Group::new().add(circle).add(text.set("font-weight", "bold"))
}

/// Draws the legend, with as many entries in a line as fit. Returns the drawing and its end.
pub(super) fn legend(scene: &Scene<'_>, layout: &Layout, top: f64) -> (Group, f64) {
    let (mut x, mut y) = (LEFT, top + LINE);
    let mut legend = Group::new();
    for (swatch, text) in entries(scene) {
        let width = 26.0 + text_width(&text) + 14.0;
        if x + width > layout.right() && x > LEFT {
            (x, y) = (LEFT, y + LINE + 2.0);
        }
        let swatch = swatch.set("transform", format!("translate({x:.1} {:.1})", y - 10.0));
        legend = legend.add(swatch).add(label(text, x + 26.0, y, paint::FAINT));
        x += width;
    }
    (legend, y)
}

/// Returns the entries of the legend: one for each kind of mark in the picture.
fn entries(scene: &Scene<'_>) -> Vec<(Group, String)> {
    let clients = scene.lanes.keys().filter_map(|place| match place {
        Place::Client(client) => Some(*client),
        _ => None,
    });
    let holds = |number: usize| (bar(paint::client(number), paint::LEASE), format!("c{number} holds a lock"));
    let mut entries: Vec<(Group, String)> = clients.clone().map(holds).collect();
    let colour = paint::client(clients.min().unwrap_or(0));

    let nodes = scene.lanes.iter().filter(|(place, _)| matches!(place, Place::Server(_)));
    let has_key = |counts| nodes.clone().any(|(_, lane)| lane.bars.iter().any(|bar| bar.counts == counts));
    let has = |is: &dyn Fn(&Lane) -> bool| scene.lanes.values().any(is);
    let has_act = |is_valid| has(&|lane| lane.acts.iter().any(|act| act.is_valid == is_valid));
    let has_write = |is: &dyn Fn(&Write) -> bool| has(&|lane| lane.writes.iter().any(is));
    let marks = [
        (has_key(true), bar(colour, paint::KEY), "key on a node, in the color of its client"),
        (has_key(false), dashed(colour), "key whose vote does not count"),
        (has(&|lane| !lane.requests.is_empty()), dashes(), "requests the lock"),
        (has_act(true), dot(2.0, paint::INK), "acts under the lock"),
        (has_act(false), dot(4.0, paint::ALARM), "acts without the lock"),
        (
            has_write(&|write| write.is_accepted && write.changes),
            dot(3.5, colour),
            "write that the resource accepts",
        ),
        (
            has_write(&|write| write.is_accepted && !write.changes),
            ring(10.0, 6.0, colour),
            "fencing token that it accepts",
        ),
        (has_write(&|write| !write.is_accepted), cross(10.0, 6.0), "write that it rejects"),
        (
            has(&|lane| lane.faults.iter().any(|(fault, _)| paint::stops(*fault))),
            hatched(),
            "down or stopped",
        ),
        (!scene.violations.is_empty(), outlined(), "part of a violation"),
    ];
    let present = marks.into_iter().filter(|(is_present, ..)| *is_present);
    entries.extend(present.map(|(_, swatch, text)| (swatch, text.into())));
    entries
}

fn bar(colour: &str, opacity: f64) -> Group {
    Group::new().add(swatch().set("fill", colour).set("fill-opacity", opacity))
}

fn dashed(colour: &str) -> Group {
    let border = swatch().set("fill", colour).set("fill-opacity", 0).set("stroke", colour);
    Group::new().add(border.set("stroke-dasharray", "4 3"))
}

fn hatched() -> Group {
    Group::new().add(swatch().set("fill", "url(#stopped)"))
}

fn outlined() -> Group {
    Group::new().add(swatch().set("fill", "none").set("stroke", paint::ALARM).set("stroke-width", 1.5))
}

fn dot(radius: f64, colour: &str) -> Group {
    Group::new().add(Circle::new().set("r", radius).set("fill", colour).set("cx", 10).set("cy", 6))
}

fn dashes() -> Group {
    let line = Line::new().set("stroke", paint::FAINT).set("stroke-dasharray", "3 2");
    Group::new().add(line.set("x2", 20).set("y1", 6).set("y2", 6))
}

fn swatch() -> Rectangle {
    Rectangle::new().set("width", 20).set("height", 12).set("rx", 3)
}
