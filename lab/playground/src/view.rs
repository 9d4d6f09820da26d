//! A run as the page shows it: the picture, the events, the knowledge of each place, and the violations.
//!
//! All times are seconds since the beginning.

mod words;

use std::collections::BTreeSet;
use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_simulation::attempts::failed_attempts;
use redlock_simulation::experiment::Report;
use redlock_simulation::history::{EventKind, FaultKind, Place, TokenNumber};
use redlock_simulation::invariant::Violation;
use redlock_simulation::knowledge::{Fact, Period, knowledge};
use redlock_simulation::timeline::{Drawing, Timeline};
use serde::Serialize;

use crate::setup::Setup;
use crate::subject::{Settings, Subject};

/// A run on the page.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The query of its address.
    pub address: String,
    /// The story, if it is one.
    pub story: Option<&'static str>,
    /// The title.
    pub title: String,
    /// The text below the title.
    pub sentences: Vec<String>,
    /// The setup, if the run has one.
    pub setup: Option<Setup>,
    /// The settings of a random run.
    pub random: Option<Settings>,
    /// The marked moment, at which the page opens.
    pub moment: f64,
    /// The picture.
    pub picture: Picture,
    /// The events within the picture.
    pub events: Vec<Event>,
    /// The knowledge of each place.
    pub facts: Vec<Known>,
    /// The violations.
    pub violations: Vec<Shown>,
    /// The number of grants, with their unit.
    pub grants: String,
    /// The command that repeats a random run.
    pub replay: Option<String>,
}

/// A picture, and the places of its parts.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    svg: String,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    from: f64,
    until: f64,
    /// Moments, and their shares of the way from left to right. The axis is even between them.
    scale: Vec<(f64, f64)>,
    lanes: Vec<Lane>,
}

#[derive(Clone, Debug, Serialize)]
struct Lane {
    name: String,
    top: f64,
    bottom: f64,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    at: f64,
    text: String,
    /// `true` for a message between a client and a node, `false` for a decision or a fault.
    is_message: bool,
}

/// A fact, and its period.
#[derive(Clone, Debug, Serialize)]
pub struct Known {
    place: String,
    from: f64,
    until: f64,
    text: String,
    /// The time that the page counts down to, with the text before the remaining time.
    deadline: Option<(f64, &'static str)>,
}

/// A violation.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The time.
    pub at: f64,
    /// The invariant as a sentence.
    pub sentence: &'static str,
    /// The description.
    pub text: String,
    /// The broken assumption; `None` for a defect of the lock.
    pub assumption: Option<String>,
}

impl View {
    /// Runs a subject, and draws a picture of this width.
    ///
    /// # Errors
    ///
    /// A sentence about the bound that the run exceeds.
    pub fn of(subject: &Subject, width: f64) -> Result<Self, String> {
        let report = subject.run()?;
        let drawing = Timeline::new(&report.history, &report.violations)
            .width(width)
            .without_texts()
            .stretched()
            .drawing();
        let until = drawing.until;
        let facts = knowledge(&report.history).into_iter().filter(|period| period.from <= until);
        let (title, sentences) = texts(subject);
        let grants = report.history.grants() - grants_after(&report, until);
        Ok(Self {
            address: subject.address(),
            story: if let Subject::Story(story) = subject { Some(story.id) } else { None },
            title,
            sentences,
            setup: match subject {
                Subject::Story(story) => Some(story.setup.clone()),
                Subject::Own(setup) => Some(setup.clone()),
                Subject::Random(_) => None,
            },
            random: if let Subject::Random(random) = subject { Some(random.settings()) } else { None },
            moment: moment(subject, &report, until),
            events: events(&report, until),
            facts: facts.map(Known::of).collect(),
            violations: report.violations.iter().map(|violation| Shown::of(violation, &report)).collect(),
            grants: if grants == 1 {
                "1 lock was granted".into()
            } else {
                format!("{grants} locks were granted")
            },
            replay: matches!(subject, Subject::Random(_)).then(|| report.replay()),
            picture: Picture::of(drawing),
        })
    }
}

impl Picture {
    /// Converts a drawing.
    pub fn of(drawing: Drawing) -> Self {
        let Drawing { svg, width, height, left, right, from, until, scale, lanes } = drawing;
        let scale = scale.knots().iter().map(|(at, share)| (seconds(*at), *share)).collect();
        let (from, until) = (seconds(from), seconds(until));
        let lane = |(place, top, bottom): (Place, f64, f64)| Lane { name: place.to_string(), top, bottom };
        let lanes = lanes.into_iter().map(lane).collect();
        Self { svg, width, height, left, right, from, until, scale, lanes }
    }
}

impl Shown {
    /// Describes a violation.
    pub fn of(violation: &Violation, report: &Report) -> Self {
        let at = report.history.0.get(violation.event).map_or(Instant::ORIGIN, |event| event.at);
        Self {
            at: seconds(at),
            sentence: violation.invariant.sentence(),
            text: violation.description.clone(),
            assumption: violation.broken.map(|assumption| assumption.to_string()),
        }
    }
}

impl Known {
    fn of(Period { place, from, until, fact }: Period) -> Self {
        let (text, deadline) = match fact {
            Fact::Key { client, token, expires } => {
                (format!("key of c{client} ({token})"), Some((expires, "expires in")))
            }
            Fact::Counter(counter) => (format!("fencing counter {counter}"), None),
            Fact::Fault(fault) => (words::fault(fault), None),
            Fact::Requests { ttl, fenced, .. } => {
                let fenced = if fenced { " and a fencing token" } else { "" };
                (format!("requests the lock with a TTL of {} ms{fenced}", ttl.as_millis()), None)
            }
            Fact::Votes { token, replies } => {
                (format!("votes for {token}: {}", words::votes(&replies)), None)
            }
            Fact::Lease { resources, token, deadline, fence } => {
                let fence = fence.map_or(String::new(), |fence| format!(", fencing token {fence}"));
                (
                    format!("holds {} as {token}{fence}", words::names(&resources)),
                    Some((deadline, "valid for")),
                )
            }
            Fact::Resource { fence, writes } => {
                (format!("greatest fencing token {fence}, {writes} writes accepted"), None)
            }
        };
        let deadline = deadline.map(|(at, label)| (seconds(at), label));
        Self { place: place.to_string(), from: seconds(from), until: seconds(until), text, deadline }
    }
}

/// Returns the events within the picture, with the failed attempts among them.
fn events(report: &Report, until: Instant) -> Vec<Event> {
    let mut failed = failed_attempts(&report.history).into_iter().peekable();
    let nodes = report.rules().servers;
    let tokens: BTreeSet<_> = report.history.0.iter().filter_map(|event| sent(&event.kind)).collect();
    let mut events = Vec::new();
    for (index, event) in report.history.0.iter().enumerate().take_while(|(_, event)| event.at <= until) {
        let at = seconds(event.at);
        let attempts = std::iter::from_fn(|| failed.next_if(|attempt| attempt.event == index));
        let failed = attempts.map(|attempt| words::failed_attempt(&attempt, nodes));
        events.extend(failed.map(|text| Event { at, text, is_message: false }));
        let reservation = words::reservation(event, |token| tokens.contains(&token));
        let text = reservation.unwrap_or_else(|| words::event(event));
        events.push(Event { at, text, is_message: is_message(&event.kind) });
    }
    events
}

/// Returns the token that a client sends.
fn sent(kind: &EventKind) -> Option<TokenNumber> {
    let EventKind::Sent(request) = kind else { return None };
    Some(request.token)
}

/// Returns the moment of a story, of the violation that a search announces, of the first violation, or of the first grant.
fn moment(subject: &Subject, report: &Report, until: Instant) -> f64 {
    let announced = match subject {
        Subject::Story(story) => return Duration::from_millis(story.moment).as_secs_f64(),
        Subject::Own(_) => None,
        Subject::Random(random) => random.announced(report),
    };
    let violation = announced.or(report.violations.first());
    let mut shown = report.history.0.iter().filter(|event| event.at <= until);
    let event = match violation {
        Some(violation) => report.history.0.get(violation.event),
        None => shown.find(|event| matches!(event.kind, EventKind::Granted { .. })),
    };
    event.map_or(0.0, |event| seconds(event.at))
}

/// Returns the number of grants after the picture.
fn grants_after(report: &Report, until: Instant) -> usize {
    let late = report.history.0.iter().filter(|event| event.at > until);
    late.filter(|event| matches!(event.kind, EventKind::Granted { .. })).count()
}

fn texts(subject: &Subject) -> (String, Vec<String>) {
    match subject {
        Subject::Story(story) => (story.title.into(), story.sentences.map(String::from).to_vec()),
        Subject::Own(_) => {
            let text = "Change the nodes, the clients and the incidents below the timeline. The address of the page \
                        contains all of them.";
            ("Your experiment".into(), vec![text.into()])
        }
        Subject::Random(random) => {
            let text = "The behavior of clients, the incidents and all delays are drawn from the seed. Such a run cannot be edited.";
            (format!("Random run, seed {}", random.seed), vec![text.into()])
        }
    }
}

fn is_message(kind: &EventKind) -> bool {
    match kind {
        EventKind::Sent(_) | EventKind::CarriedOut { .. } | EventKind::Received { .. } => true,
        EventKind::FaultBegins(_, fault) | EventKind::FaultEnds(_, fault) => matches!(
            fault,
            FaultKind::Loss | FaultKind::Duplicate | FaultKind::Straggler | FaultKind::Disconnect
        ),
        _ => false,
    }
}

/// Returns the seconds since the beginning.
pub(crate) fn seconds(at: Instant) -> f64 {
    at.elapsed_since_origin().as_secs_f64()
}
