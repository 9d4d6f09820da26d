//! The content of a picture, independent of its format: lanes, and their content within the window.

use std::collections::BTreeMap;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;

use super::Timeline;
use super::keys::{keys, uncounted};
use crate::history::claims::{Claimed, claims};
use crate::history::{EventKind, FaultKind, History, Place, TokenNumber};
use crate::invariant::{Violation, holds};

/// A period in true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// A lease of a client, or a key of a server, for one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) span: Span,
    pub(super) resource: usize,
    pub(super) client: usize,
    pub(super) token: TokenNumber,
    pub(super) fence: Option<FencingToken>,
    /// `false` for a key whose vote does not count.
    pub(super) counts: bool,
}

/// An action of a client under a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    pub(super) at: Instant,
    pub(super) resource: usize,
    /// `true` if its lease was valid then.
    pub(super) is_valid: bool,
}

/// A message with a fencing token that arrives at the resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) at: Instant,
    pub(super) client: usize,
    pub(super) fence: FencingToken,
    /// `true` if it changes the resource, `false` if it only makes the token known.
    pub(super) changes: bool,
    pub(super) is_accepted: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) bars: Vec<Bar>,
    /// The faults, in the order in which they began.
    pub(super) faults: Vec<(FaultKind, Span)>,
    pub(super) acts: Vec<Act>,
    /// The periods in which a client requests a resource.
    pub(super) requests: Vec<(usize, Span)>,
    /// The moments at which a client learns of a loss.
    pub(super) losses: Vec<Instant>,
    pub(super) writes: Vec<Write>,
}

pub(super) struct Scene<'a> {
    pub(super) title: &'a str,
    pub(super) window: Span,
    pub(super) lanes: BTreeMap<Place, Lane>,
    /// The violations within the window, with their times.
    pub(super) violations: Vec<(Instant, &'a Violation)>,
    /// The moments of the events, if the time axis is stretched.
    pub(super) moments: Option<Vec<Instant>>,
    /// `true` for a picture of one violation, which has room for details.
    pub(super) is_about: bool,
}

impl<'a> Scene<'a> {
    pub(super) fn new(timeline: &'a Timeline<'_>) -> Self {
        let history = timeline.history;
        let window = Span { from: timeline.from, until: timeline.until };
        let at = |violation: &Violation| history.0.get(violation.event).map(|event| event.at);
        let violations = timeline.violations.iter();
        let violations: Vec<_> = violations
            .filter_map(|one| at(one).filter(|at| window.holds(*at)).map(|at| (at, *one)))
            .collect();
        let mut scene = Self {
            title: &timeline.title,
            window,
            lanes: BTreeMap::new(),
            violations,
            moments: timeline.is_stretched.then(|| history.0.iter().map(|event| event.at).collect()),
            is_about: timeline.about.is_some(),
        };
        scene.open_lanes(timeline);
        scene.draw_bars(timeline, &claims(history));
        scene.draw_actions(timeline);
        for (place, fault, span) in faults(history) {
            if window.meets(span) && timeline.shows(place) {
                scene.lanes.entry(place).or_default().faults.push((fault, window.clip(span)));
            }
        }
        scene
    }

    /// Adds a lane for each server and client with an event up to the end of the window.
    fn open_lanes(&mut self, timeline: &Timeline<'_>) {
        for event in timeline.history.0.iter().filter(|event| event.at <= self.window.until) {
            let place = match event.kind {
                EventKind::Sent(request) => Place::Server(request.server),
                EventKind::Requested { client, .. } | EventKind::Granted { client, .. } => {
                    Place::Client(client)
                }
                _ => continue,
            };
            if timeline.shows(place) {
                self.lanes.entry(place).or_default();
            }
        }
    }

    fn draw_bars(&mut self, timeline: &Timeline<'_>, claims: &BTreeMap<TokenNumber, Claimed>) {
        let of_interest = |token| timeline.about.as_ref().is_none_or(|about| about.tokens.contains(&token));
        let fences = fences(timeline.history);
        let mut bars = Vec::new();
        for hold in
            holds::holds(timeline.history).into_iter().filter(|hold| timeline.shows_resource(hold.resource))
        {
            let holds::Hold { client, resource, token, from, until, .. } = hold;
            let fence = fences.get(&token).copied();
            let bar = Bar { span: Span { from, until }, resource, client, token, fence, counts: true };
            bars.push((Place::Client(client), bar));
        }
        let uncounted = uncounted(timeline.history);
        for key in keys(timeline.history).into_iter().filter(|key| of_interest(key.token)) {
            let Some(Claimed { client, resources }) = claims.get(&key.token) else { continue };
            let counts = !uncounted.contains(&(key.server, key.token));
            let span = Span { from: key.from, until: key.until };
            for resource in resources.iter().filter(|resource| timeline.shows_resource(**resource)) {
                let (client, token, fence) = (*client, key.token, fences.get(&key.token).copied());
                let bar = Bar { span, resource: *resource, client, token, fence, counts };
                bars.push((Place::Server(key.server), bar));
            }
        }
        let window = self.window;
        for (place, bar) in bars.into_iter().filter(|(_, bar)| window.meets(bar.span)) {
            if let Some(lane) = self.lanes.get_mut(&place) {
                lane.bars.push(Bar { span: window.clip(bar.span), ..bar });
            }
        }
    }

    fn draw_actions(&mut self, timeline: &Timeline<'_>) {
        let history = timeline.history;
        let (claims, holds, window) = (claims(history), holds::holds(history), self.window);
        let valid =
            |token, at| holds.iter().any(|hold| hold.token == token && hold.from <= at && at <= hold.until);
        let shown = |resource: &&usize| timeline.shows_resource(**resource);
        let mut requesting: BTreeMap<usize, (Instant, &[usize])> = BTreeMap::new();
        for event in &history.0 {
            match &event.kind {
                EventKind::Acted { client, token } if window.holds(event.at) => {
                    let Some(lane) = self.lanes.get_mut(&Place::Client(*client)) else { continue };
                    let resources = claims.get(token).map_or(&[][..], |claim| &claim.resources);
                    let is_valid = valid(*token, event.at);
                    let act = |resource: &usize| Act { at: event.at, resource: *resource, is_valid };
                    lane.acts.extend(resources.iter().filter(shown).map(act));
                }
                EventKind::LossReported { client, .. } if window.holds(event.at) => {
                    let Some(lane) = self.lanes.get_mut(&Place::Client(*client)) else { continue };
                    lane.losses.push(event.at);
                }
                EventKind::Wrote { client, resource, fence, seen, accepted, .. }
                    if window.holds(event.at) =>
                {
                    let place = Place::Resource(*resource);
                    if timeline.shows(place) {
                        let (client, fence, changes) = (*client, *fence, seen.is_some());
                        let write = Write { at: event.at, client, fence, changes, is_accepted: *accepted };
                        self.lanes.entry(place).or_default().writes.push(write);
                    }
                }
                EventKind::Requested { client, resources, .. } => {
                    requesting.insert(*client, (event.at, resources));
                }
                EventKind::Granted { client, .. } | EventKind::NotGranted { client, .. } => {
                    let Some((from, resources)) = requesting.remove(client) else { continue };
                    let span = Span { from, until: event.at };
                    let Some(lane) = self.lanes.get_mut(&Place::Client(*client)) else { continue };
                    if window.meets(span) {
                        let requests = resources.iter().filter(shown);
                        lane.requests.extend(requests.map(|resource| (*resource, window.clip(span))));
                    }
                }
                _ => {}
            }
        }
    }
}

impl Span {
    pub(super) fn holds(self, at: Instant) -> bool {
        self.from <= at && at <= self.until
    }

    fn meets(self, other: Self) -> bool {
        other.from <= self.until && self.from <= other.until
    }

    fn clip(self, other: Self) -> Self {
        Self { from: other.from.max(self.from), until: other.until.min(self.until) }
    }
}

/// Returns whether a fault is drawn. Faults of single messages are too frequent, and a clock drift lasts for the whole
/// run.
fn is_drawn(fault: FaultKind) -> bool {
    fault.lasts() && !matches!(fault, FaultKind::Drift(_))
}

/// Returns the fencing token of each lease that has one.
fn fences(history: &History) -> BTreeMap<TokenNumber, FencingToken> {
    let fence = |kind: &EventKind| match *kind {
        EventKind::Granted { token, fence: Some(fence), .. } => Some((token, fence)),
        _ => None,
    };
    history.0.iter().filter_map(|event| fence(&event.kind)).collect()
}

/// Returns the faults with their places and periods.
fn faults(history: &History) -> Vec<(Place, FaultKind, Span)> {
    let last = super::end(history);
    let mut begun: BTreeMap<(Place, &str), (FaultKind, Instant)> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in &history.0 {
        match event.kind {
            EventKind::FaultBegins(place, fault) if fault.is_momentary() => {
                spans.push((place, fault, Span { from: event.at, until: event.at }));
            }
            EventKind::FaultBegins(place, fault) if is_drawn(fault) => {
                begun.entry((place, fault.name())).or_insert((fault, event.at));
            }
            EventKind::FaultEnds(place, fault) => {
                if let Some((fault, from)) = begun.remove(&(place, fault.name())) {
                    spans.push((place, fault, Span { from, until: event.at }));
                }
            }
            _ => {}
        }
    }
    let lasting = begun.into_iter();
    spans.extend(lasting.map(|((place, _), (fault, from))| (place, fault, Span { from, until: last })));
    spans.sort_by_key(|(.., span)| span.from);
    spans
}
