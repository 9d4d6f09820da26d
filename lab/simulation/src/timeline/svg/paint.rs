//! Colors, texts, and the appearance of each fault.

use ::svg::node::element::{Text, Title};

use super::layout::round;
use crate::history::FaultKind;

pub(super) const PAPER: &str = "#ffffff";
pub(super) const INK: &str = "#1f2933";
pub(super) const FAINT: &str = "#52606d";
pub(super) const GRID: &str = "#e4e7eb";
pub(super) const STOPPED: &str = "#9aa5b1";
pub(super) const ALARM: &str = "#d61f1f";

/// Text on a strong color, which is the same on light and on dark paper.
pub(super) const ON_DARK: &str = "white";
const ON_LIGHT: &str = "black";

/// Colors that depend on the paper, and their counterparts on dark paper.
const ON_DARK_PAPER: [(&str, &str); 9] = [
    (PAPER, "#14181d"),
    (INK, "#e4e7eb"),
    (FAINT, "#9aa5b1"),
    (GRID, "#323f4b"),
    (STOPPED, "#616e7c"),
    (ALARM, "#ff6b6b"),
    (DOWN, "#cbd2d9"),
    (STILL, "#9fb3c8"),
    (DISTURBED, "#f0b429"),
];

/// The colors of faults.
const DOWN: &str = "#3e4c59";
const STILL: &str = "#3f5a75";
const DISTURBED: &str = "#854d0e";

/// The colors of clients, which color-blind readers can also distinguish.
///
/// Source: Okabe and Ito, "Color universal design".
const CLIENTS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#b8a800"];

pub(super) fn client(number: usize) -> &'static str {
    CLIENTS[number % CLIENTS.len()]
}

/// The opacity of a lease. Its text is readable on any paper.
pub(super) const LEASE: f64 = 0.95;

/// The opacity of a key.
pub(super) const KEY: f64 = 0.35;

/// Returns the color of text on a client's color.
pub(super) fn on_client(number: usize) -> &'static str {
    if number % CLIENTS.len() == 0 { ON_DARK } else { ON_LIGHT }
}

pub(super) fn label(text: impl Into<String>, x: f64, y: f64, colour: &str) -> Text {
    Text::new(text).set("x", round(x)).set("y", round(y)).set("fill", colour)
}

/// Returns the tooltip of an element.
pub(super) fn title(text: impl Into<String>) -> Title {
    Title::new(text)
}

/// Returns the caption of a fault in a picture.
pub(super) fn caption(fault: FaultKind) -> String {
    match fault {
        FaultKind::Crash => "down".into(),
        FaultKind::Hang => "hangs".into(),
        FaultKind::Flush => "flushed".into(),
        FaultKind::Step(millis) => format!("clock {millis:+} ms"),
        FaultKind::Partition => "all messages lost".into(),
        FaultKind::Storm => "messages lost or late".into(),
        FaultKind::WrongType => "key of another program".into(),
        FaultKind::Pause => "paused".into(),
        FaultKind::Suspension => "suspended".into(),
        FaultKind::Kill => "dead".into(),
        other => other.name().into(),
    }
}

/// Returns the color of a fault: dark for faults that stop everything, bright for faults that delete keys.
pub(super) fn fault(fault: FaultKind) -> &'static str {
    match fault {
        FaultKind::Crash | FaultKind::Kill => DOWN,
        FaultKind::Hang | FaultKind::Pause | FaultKind::Suspension => STILL,
        FaultKind::Flush
        | FaultKind::Eviction
        | FaultKind::Rollback
        | FaultKind::Amnesia(_)
        | FaultKind::Step(_) => ALARM,
        _ => DISTURBED,
    }
}

/// Returns the style sheet of a picture for readers who prefer dark paper.
pub(super) fn dark() -> String {
    let rule = |(light, dark): (&str, &str)| {
        format!("svg [fill=\"{light}\"]{{fill:{dark}}}svg [stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    let rules: String = ON_DARK_PAPER.into_iter().map(rule).collect();
    format!("@media (prefers-color-scheme: dark){{{rules}}}")
}

/// Returns whether the server or client is inactive during the fault.
pub(super) fn stops(fault: FaultKind) -> bool {
    matches!(
        fault,
        FaultKind::Crash | FaultKind::Kill | FaultKind::Hang | FaultKind::Pause | FaultKind::Suspension
    )
}
