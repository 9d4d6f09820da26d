//! The picture for a terminal: one character for a period of time.

use std::collections::BTreeSet;
use std::fmt::Write;

use redlock_core::runtime::Instant;

use super::scene::{Lane, Scene, Span};
use crate::history::{FaultKind, Place};

/// The legend of the marks.
pub const LEGEND: &str = "\
clients: 0-9 holds that resource, z paused, s suspended, x dead
servers: x down, h hangs, m out of memory, r read-only, t no lock under a name, ! loses data or its clock is set
between: / all messages lost         net: ~ storm      ^ a violation";

/// The legend of the details.
const DETAILS: &str = "\
clients: - requests, * acts under its lock, ! acts without one      servers: 0-9 has a key of that client";

pub(super) fn draw(scene: &Scene<'_>, columns: usize) -> String {
    let ruler = Ruler { window: scene.window, columns: columns.max(10) };
    let mut text = String::new();
    if !scene.title.is_empty() {
        line(&mut text, scene.title);
    }
    let lanes = scene.lanes.iter().filter(|(place, _)| !matches!(place, Place::Resource(_)));
    for (place, lane) in lanes {
        let marks = marks(*place, lane, &ruler, scene.is_about);
        line(&mut text, &format!("{:>7} {marks}", place.to_string()));
    }
    let mut marks = vec![' '; ruler.columns];
    for (at, _) in &scene.violations {
        marks[ruler.column(*at)] = '^';
    }
    let marks: String = marks.iter().collect();
    line(&mut text, &format!("        {}", marks.trim_end()));
    let (from, until) =
        (seconds(scene.window.from, scene.is_about), seconds(scene.window.until, scene.is_about));
    line(&mut text, &format!("        {from}{:>width$}", until, width = ruler.columns - from.len()));
    if scene.is_about {
        if let Some(fences) = fences(scene) {
            line(&mut text, &fences);
        }
        line(&mut text, DETAILS);
    }
    line(&mut text, LEGEND);
    text
}

/// Returns the fencing tokens of the leases in a picture, in one line.
fn fences(scene: &Scene<'_>) -> Option<String> {
    let bars = scene.lanes.values().flat_map(|lane| &lane.bars);
    let known = bars.filter_map(|bar| bar.fence.map(|fence| (bar.token, bar.client, fence)));
    let fences: BTreeSet<_> = known.collect();
    let listed = fences.iter().map(|(token, client, fence)| format!("{token} of c{client} {fence}"));
    let listed: Vec<_> = listed.collect();
    (!listed.is_empty()).then(|| format!("fencing tokens: {}", listed.join(", ")))
}

fn marks(place: Place, lane: &Lane, ruler: &Ruler, details: bool) -> String {
    let mut marks = vec!['.'; ruler.columns];
    if details {
        lane.requests.iter().for_each(|(_, span)| ruler.fill(&mut marks, *span, '-'));
    }
    for bar in &lane.bars {
        match place {
            Place::Client(_) => ruler.fill(&mut marks, bar.span, digit(bar.resource)),
            _ if details => ruler.fill(&mut marks, bar.span, digit(bar.client)),
            _ => {}
        }
    }
    for (fault, span) in &lane.faults {
        ruler.fill(&mut marks, *span, mark(*fault));
    }
    for act in lane.acts.iter().filter(|_| details) {
        marks[ruler.column(act.at)] = if act.is_valid { '*' } else { '!' };
    }
    marks.into_iter().collect()
}

fn mark(fault: FaultKind) -> char {
    match fault {
        FaultKind::Crash | FaultKind::Kill => 'x',
        FaultKind::Hang => 'h',
        FaultKind::OutOfMemory => 'm',
        FaultKind::ReadOnly => 'r',
        FaultKind::WrongType => 't',
        FaultKind::Flush
        | FaultKind::Eviction
        | FaultKind::Rollback
        | FaultKind::Amnesia(_)
        | FaultKind::Step(_) => '!',
        FaultKind::Partition => '/',
        FaultKind::Storm => '~',
        FaultKind::Pause => 'z',
        FaultKind::Suspension => 's',
        FaultKind::Drift(_)
        | FaultKind::Loss
        | FaultKind::Duplicate
        | FaultKind::Straggler
        | FaultKind::Disconnect
        | FaultKind::Unwatched => '?',
    }
}

fn digit(number: usize) -> char {
    u32::try_from(number % 10).ok().and_then(|number| char::from_digit(number, 10)).unwrap_or('?')
}

fn seconds(at: Instant, exact: bool) -> String {
    let seconds = at.elapsed_since_origin();
    let digits = if exact { 3 } else { 1 };
    if seconds.is_zero() { "0".into() } else { format!("{:.digits$} s", seconds.as_secs_f64()) }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}

struct Ruler {
    window: Span,
    columns: usize,
}

impl Ruler {
    /// Returns the column of a moment; the last one shows the end.
    fn column(&self, at: Instant) -> usize {
        let since = |at: Instant| at.saturating_duration_since(self.window.from).as_nanos();
        let column = since(at) * (self.columns as u128) / since(self.window.until).max(1);
        usize::try_from(column).unwrap_or(usize::MAX).min(self.columns - 1)
    }

    fn fill(&self, marks: &mut [char], span: Span, mark: char) {
        marks[self.column(span.from)..=self.column(span.until)].fill(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timeline;
    use crate::history::TokenNumber;
    use crate::invariant::history_builder::HistoryBuilder;
    use crate::invariant::{Invariant, Violation};

    fn lanes(picture: &str, count: usize) -> Vec<&str> {
        picture.lines().take(count).collect()
    }

    #[test]
    fn lanes_bars_and_marks() {
        let builder = HistoryBuilder::default()
            .requested(0, 0)
            .sent(0, 0, 0, 0)
            .granted(100, 0, 0, 450)
            .stepped(300, 0);
        let builder = builder.paused(500, 0).resumed(700, 0).calm(1_000);
        let picture = Timeline::new(&builder.history(), &[]).text(10);
        assert_eq!(vec!["     n0 ...!......", "     c0 .0000zzz.."], lanes(&picture, 2));
    }

    #[test]
    fn a_picture_of_a_violation_shows_only_its_tokens() {
        let builder = HistoryBuilder::default().requested(0, 0).requested(0, 1).requested(0, 2);
        let builder = builder.sent(1_000, 0, 0, 7).carried(1_000, 0, 0, 7, 1_300).granted(1_000, 0, 7, 1_200);
        let builder = builder.sent(1_000, 2, 0, 9).carried(1_500, 2, 1, 9, 1_900).stepped(1_750, 0);
        let (tokens, description) = (vec![TokenNumber(7)], String::new());
        let violation =
            Violation { invariant: Invariant::Exclusion, broken: None, description, tokens, event: 8 };
        let picture = Timeline::about(&builder.history(), &violation).title("seed 5").text(17);
        let expected = vec!["seed 5", "     n0 .0000000........!", "     c0 -00000..........."];
        assert_eq!(expected, lanes(&picture, 3));
        assert!(picture.contains("\n                        ^\n"), "{picture}");
    }
}
