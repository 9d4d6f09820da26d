//! Pictures of a history in plain text: one of all, and one around a violation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::history::History;
use crate::hold::{Hold, Interval};
use crate::line::{FaultLine, HoldId, Phase};
use crate::violation::{Violation, seconds};

/// The number of characters of a line of time.
const WIDTH: usize = 100;

/// The number of characters before it.
const LABEL: usize = 34;

/// The shortest time before and after a violation that is shown.
const MARGIN: u64 = 1_000_000_000;

/// A line of time, drawn in characters.
struct Lane {
    window: Interval,
    cells: Vec<char>,
}

impl Lane {
    fn new(window: Interval) -> Self {
        Self { window, cells: vec![' '; WIDTH] }
    }

    /// Returns the column of a time, if it is in the window.
    fn column(&self, time: u64) -> Option<usize> {
        let Interval { from, until } = self.window;
        (from..until).contains(&time).then(|| {
            let column = u128::from(time - from) * WIDTH as u128 / u128::from(until - from);
            usize::try_from(column).unwrap_or(WIDTH - 1).min(WIDTH - 1)
        })
    }

    fn fill(&mut self, part: Interval, with: char) {
        let Some(part) = part.common(self.window) else { return };
        let (Some(first), Some(last)) = (self.column(part.from), self.column(part.until - 1)) else { return };
        self.cells[first..=last].fill(with);
    }

    fn mark(&mut self, time: u64, with: char) {
        if let Some(column) = self.column(time) {
            self.cells[column] = with;
        }
    }

    fn line(&self, label: &str) -> String {
        let cells: String = self.cells.iter().collect();
        format!("{label:<LABEL$.LABEL$} |{cells}|\n")
    }
}

/// The meaning of the characters in the pictures of violations.
pub const LEGEND: &str = "Violations: . acquisition in flight, # valid lease, = lease of the violation, X its end by a \
                          release, a reported loss or the death of the process, <---> fault";

/// Draws the lock around a violation: its acquisitions and leases, and the faults. `None` if the violation has no time.
pub fn around(violation: &Violation, history: &History) -> Option<String> {
    let (resource, place, ids) = violation.place()?;
    let margin = MARGIN.max(place.until - place.from);
    let window = Interval { from: place.from.saturating_sub(margin), until: place.until + margin };
    let mut picture = format!("{violation}\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        picture,
        "{:LABEL$}  {:.6} s of CLOCK_MONOTONIC, one column is {:.1} ms",
        "",
        seconds(window.from),
        seconds(window.until - window.from) * 1_000.0 / 100.0,
    );
    for hold in history.holds.iter().filter(|hold| hold.resource == resource) {
        if let Some(lane) = of_hold(hold, window, &ids) {
            let token = hold.token.map(|token| format!(" {token}")).unwrap_or_default();
            picture.push_str(&lane.line(&format!("{} {}{token}", hold.id, hold.mode)));
        }
    }
    for (begin, end) in of_faults(&history.faults) {
        let time =
            Interval { from: begin.time, until: end.map_or(u64::MAX, |end| end.time.max(begin.time + 1)) };
        if time.common(window).is_some() {
            let mut lane = Lane::new(window);
            lane.fill(time, '-');
            lane.mark(time.from, '<');
            lane.mark(time.until, '>');
            picture.push_str(&lane.line(&format!("{}: {}", begin.kind, begin.targets.join(" "))));
        }
    }
    Some(picture)
}

fn of_hold(hold: &Hold, window: Interval, ids: &[&HoldId]) -> Option<Lane> {
    let mut lane = Lane::new(window);
    // An acquisition that failed is not shown: its end is unknown here.
    lane.fill(Interval { from: hold.invoked, until: hold.acquired? }, '.');
    let sign = if ids.contains(&&hold.id) { '=' } else { '#' };
    for interval in &hold.intervals {
        lane.fill(*interval, sign);
    }
    if let Some(ended) = hold.ended {
        lane.mark(ended, 'X');
    }
    lane.cells.iter().any(|cell| *cell != ' ').then_some(lane)
}

/// Returns each fault with its end. A fault without an end is one of a moment, or one that the end of the run cut off.
fn of_faults(faults: &[FaultLine]) -> Vec<(&FaultLine, Option<&FaultLine>)> {
    let ends: BTreeMap<usize, &FaultLine> =
        faults.iter().filter(|fault| fault.phase == Phase::End).map(|fault| (fault.number, fault)).collect();
    let begins = faults.iter().filter(|fault| fault.phase == Phase::Begin);
    begins.map(|begin| (begin, ends.get(&begin.number).copied())).collect()
}

/// Draws the whole run: for each lock the acquisitions in each hundredth of the time, and the faults of each kind.
pub fn overview(history: &History, violations: &[Violation]) -> String {
    let [first, .., last] = &history.events[..] else { return String::new() };
    let window = Interval { from: first.time, until: last.time + 1 };
    let mut picture = format!(
        "The run: . lock acquired, : ten times or more, ! violation, * fault begins, - fault lasts\n\
         {:LABEL$}  {:.1} s, one column is {:.1} s\n",
        "",
        seconds(window.until - window.from),
        seconds(window.until - window.from) / 100.0
    );
    let resources: BTreeSet<_> = history.holds.iter().map(|hold| hold.resource.as_str()).collect();
    for resource in resources {
        let mut lane = Lane::new(window);
        let mut counts = [0_u32; WIDTH];
        let holds = history.holds.iter().filter(|hold| hold.resource == resource);
        for column in holds.filter_map(|hold| hold.acquired).filter_map(|time| lane.column(time)) {
            counts[column] += 1;
        }
        for (cell, count) in lane.cells.iter_mut().zip(counts) {
            *cell = match count {
                0 => ' ',
                1..10 => '.',
                _ => ':',
            };
        }
        for (of, place, _) in violations.iter().filter_map(Violation::place) {
            if of == resource {
                lane.mark(place.from, '!');
            }
        }
        picture.push_str(&lane.line(resource));
    }
    let mut kinds: BTreeMap<_, Lane> = BTreeMap::new();
    for (begin, end) in of_faults(&history.faults) {
        let lane = kinds.entry(begin.kind).or_insert_with(|| Lane::new(window));
        lane.fill(Interval { from: begin.time, until: end.map_or(begin.time + 1, |end| end.time) }, '-');
        lane.mark(begin.time, '*');
    }
    for (kind, lane) in kinds {
        picture.push_str(&lane.line(&kind.to_string()));
    }
    picture
}
