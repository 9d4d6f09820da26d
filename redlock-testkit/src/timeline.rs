//! A history as a picture in the terminal: a lane for each server and client, holds as bars, faults as marks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use redlock_core::Instant;

use crate::history::{History, Place, Trouble, What};
use crate::invariant::{Violation, holds};

/// What the marks mean.
pub const LEGEND: &str = "\
clients: 0-9 holds that resource, z paused, s suspended, x dead
servers: x down, h hangs, m out of memory, r read-only, t no lock under a name, ! loses data or its clock is set
between: / nothing gets through      net: ~ storm      ^ a violation";

/// Draws a history with a line of so many columns, from its beginning until shortly after the last fault.
pub fn draw(history: &History, violations: &[Violation], columns: usize) -> String {
    let calm = history.0.iter().find(|event| event.what == What::Calm).map(|event| event.at);
    let last = history.0.last().map_or(Instant::ORIGIN, |event| event.at);
    let end = calm.map_or(last, |calm| (calm + Duration::from_secs(1)).min(last));
    let mut canvas = Canvas { end, columns: columns.max(10), lanes: BTreeMap::new() };
    for place in places(history, end) {
        canvas.lane(place);
    }
    for hold in holds::holds(history).into_iter().filter(|hold| hold.from <= end) {
        let digit = char::from_digit(u32::try_from(hold.resource % 10).unwrap_or(0), 10).unwrap_or('?');
        canvas.bar(Place::Client(hold.client), hold.from, hold.until, digit);
    }
    for (place, trouble, from, until) in spans(history, last).into_iter().filter(|(.., from, _)| *from <= end)
    {
        if let Some(mark) = mark(trouble) {
            canvas.bar(place, from, until, mark);
        }
    }
    let seen: Vec<_> = violations.iter().filter_map(|violation| history.0.get(violation.event)).collect();
    canvas.show(seen.iter().map(|event| event.at))
}

/// Every lane: all servers and clients that did anything, and what lies between those that were ever apart.
fn places(history: &History, end: Instant) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for event in history.0.iter().filter(|event| event.at <= end) {
        match event.what {
            What::Sent(request) => {
                places.insert(Place::Server(request.server));
            }
            What::Asked { client, .. } => {
                places.insert(Place::Client(client));
            }
            What::Strikes(place, trouble) if mark(trouble).is_some() => {
                places.insert(place);
            }
            _ => {}
        }
    }
    places
}

fn mark(trouble: Trouble) -> Option<char> {
    Some(match trouble {
        Trouble::Crash | Trouble::Kill => 'x',
        Trouble::Hang => 'h',
        Trouble::OutOfMemory => 'm',
        Trouble::WrongType => 't',
        Trouble::ReadOnly => 'r',
        Trouble::Flush | Trouble::Step(_) => '!',
        Trouble::Partition => '/',
        Trouble::Storm => '~',
        Trouble::Pause => 'z',
        Trouble::Suspension => 's',
        Trouble::Drift(_) | Trouble::Loss | Trouble::Duplicate | Trouble::Straggler | Trouble::Disconnect => {
            return None;
        }
    })
}

/// When what went wrong where.
fn spans(history: &History, last: Instant) -> Vec<(Place, Trouble, Instant, Instant)> {
    let mut begun: BTreeMap<(Place, &str), (Trouble, Instant)> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in &history.0 {
        match event.what {
            What::Strikes(place, trouble @ (Trouble::Flush | Trouble::Step(_))) => {
                spans.push((place, trouble, event.at, event.at));
            }
            What::Strikes(place, trouble) => {
                begun.entry((place, trouble.name())).or_insert((trouble, event.at));
            }
            What::Passes(place, trouble) => {
                let ended = begun.remove(&(place, trouble.name()));
                spans.extend(ended.map(|(trouble, from)| (place, trouble, from, event.at)));
            }
            _ => {}
        }
    }
    spans.extend(begun.into_iter().map(|((place, _), (trouble, from))| (place, trouble, from, last)));
    spans.sort_by_key(|(.., from, _)| *from);
    spans
}

struct Canvas {
    end: Instant,
    columns: usize,
    lanes: BTreeMap<Place, Vec<char>>,
}

impl Canvas {
    fn lane(&mut self, place: Place) -> &mut Vec<char> {
        self.lanes.entry(place).or_insert_with(|| vec!['.'; self.columns])
    }

    /// Which column shows a moment; the last one shows the end.
    fn column(&self, at: Instant) -> usize {
        let (at, end) = (at.elapsed_since_origin().as_nanos(), self.end.elapsed_since_origin().as_nanos());
        let column = at * (self.columns as u128) / end.max(1);
        usize::try_from(column).unwrap_or(usize::MAX).min(self.columns - 1)
    }

    fn bar(&mut self, place: Place, from: Instant, until: Instant, mark: char) {
        let (from, until) = (self.column(from), self.column(until));
        self.lane(place)[from..=until].fill(mark);
    }

    fn show(&self, violations: impl Iterator<Item = Instant>) -> String {
        let mut text = String::new();
        for (place, lane) in &self.lanes {
            let lane: String = lane.iter().collect();
            writeln!(text, "{place:>7} {lane}", place = place.to_string())
                .expect("a string takes everything");
        }
        let mut marks = vec![' '; self.columns];
        for at in violations.filter(|at| *at <= self.end) {
            marks[self.column(at)] = '^';
        }
        let marks: String = marks.iter().collect();
        let seconds = self.end.elapsed_since_origin().as_secs_f64();
        let axis = format!("0{:>width$}", format!("{seconds:.1} s"), width = self.columns - 1);
        writeln!(text, "        {}\n        {axis}\n{LEGEND}", marks.trim_end())
            .expect("a string takes everything");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::story::Story;

    #[test]
    fn lanes_bars_and_marks() {
        let story = Story::default().asked(0, 0).sent(0, 0, 0, 0).granted(100, 0, 0, 450).stepped(300, 0);
        let story = story.paused(500, 0).resumed(700, 0).calm(1_000);
        let picture = draw(&story.history(), &[], 10);
        let lanes: Vec<_> = picture.lines().take(2).collect();
        assert_eq!(vec!["     n0 ...!......", "     c0 .0000zzz.."], lanes);
    }
}
