//! Colors, texts, and the appearance of each fault.

use ::svg::node::element::{Text, Title};

use super::layout::round;
use crate::history::FaultKind;

pub(super) const INK: &str = "#1f2933";
pub(super) const FAINT: &str = "#7b8794";
pub(super) const GRID: &str = "#e4e7eb";
pub(super) const STOPPED: &str = "#9aa5b1";
pub(super) const ALARM: &str = "#d61f1f";

/// The colors of clients, which color-blind readers can also distinguish.
///
/// Source: Okabe and Ito, "Color universal design".
const CLIENTS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#b8a800"];

pub(super) fn client(number: usize) -> &'static str {
    CLIENTS[number % CLIENTS.len()]
}

/// Returns the color of text on a client's color.
pub(super) fn on_client(number: usize) -> &'static str {
    if [0, 2].contains(&(number % CLIENTS.len())) { "#ffffff" } else { INK }
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
        FaultKind::Partition => "nothing gets through".into(),
        FaultKind::Pause => "paused".into(),
        FaultKind::Suspension => "suspended".into(),
        FaultKind::Kill => "dead".into(),
        other => other.name().into(),
    }
}

/// Returns the color of a fault: dark for faults that stop everything, bright for faults that delete keys.
pub(super) fn fault(fault: FaultKind) -> &'static str {
    match fault {
        FaultKind::Crash | FaultKind::Kill => "#3e4c59",
        FaultKind::Hang | FaultKind::Pause | FaultKind::Suspension => "#7b8794",
        FaultKind::Flush
        | FaultKind::Eviction
        | FaultKind::Rollback
        | FaultKind::Amnesia(_)
        | FaultKind::Step(_) => ALARM,
        _ => "#b7791f",
    }
}

/// Returns whether nothing happens during the fault.
pub(super) fn stops(fault: FaultKind) -> bool {
    matches!(
        fault,
        FaultKind::Crash | FaultKind::Kill | FaultKind::Hang | FaultKind::Pause | FaultKind::Suspension
    )
}
