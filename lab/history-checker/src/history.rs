//! A history: from lines to leases.

use std::collections::HashMap;

use crate::hold::Hold;
use crate::line::{Action, Event, FaultKind, FaultLine, HoldId, Key, Phase};

/// All that is known about a run.
#[derive(Debug)]
pub struct History {
    /// The acquisitions, by the time at which they began.
    pub holds: Vec<Hold>,
    /// The events, by their time.
    pub events: Vec<Event>,
    /// The faults, as they were recorded.
    pub faults: Vec<FaultLine>,
    /// The keys on the servers at the end.
    pub keys: Vec<Key>,
}

/// The state of one acquisition while the lines are read.
struct Open {
    hold: Hold,
    /// True while an acquisition or an extension is in flight.
    in_flight: bool,
}

impl History {
    /// Builds the leases from the lines.
    ///
    /// # Errors
    ///
    /// - A result without a beginning, or a second one; an event of an unknown acquisition; another resource.
    /// - A time before that of the previous line of the same process.
    pub fn new(events: Vec<Event>, faults: Vec<FaultLine>, keys: Vec<Key>) -> Result<Self, String> {
        let mut open: HashMap<HoldId, Open> = HashMap::new();
        let mut last: HashMap<&str, u64> = HashMap::new();
        for event in &events {
            let wrong = |what: &str| format!("{what}: {event:?}");
            let last = last.entry(&event.id.process).or_default();
            if event.time < *last {
                return Err(wrong("time runs backward"));
            }
            *last = event.time;
            if let Action::Acquire { mode, .. } = event.action {
                let hold = Hold {
                    id: event.id.clone(),
                    resource: event.resource.clone(),
                    mode,
                    invoked: event.time,
                    acquired: None,
                    token: None,
                    intervals: Vec::new(),
                    ended: None,
                };
                let state = Open { hold, in_flight: true };
                if open.insert(event.id.clone(), state).is_some() {
                    return Err(wrong("an acquisition that began before"));
                }
                continue;
            }
            let state = open.get_mut(&event.id).ok_or_else(|| wrong("an unknown acquisition"))?;
            if state.hold.resource != event.resource {
                return Err(wrong("another resource"));
            }
            state.apply(event).map_err(wrong)?;
        }
        for fault in &faults {
            if fault.kind == FaultKind::KillClient && fault.phase == Phase::Begin {
                for state in open.values_mut().filter(|state| fault.targets.contains(&state.hold.id.process))
                {
                    state.hold.end(fault.time);
                }
            }
        }
        let mut holds: Vec<_> = open.into_values().map(|state| state.hold).collect();
        holds.iter_mut().for_each(Hold::cut);
        holds.sort_by(|a, b| (a.invoked, &a.id).cmp(&(b.invoked, &b.id)));
        let mut events = events;
        events.sort_by_key(|event| event.time);
        Ok(Self { holds, events, faults, keys })
    }
}

impl Open {
    fn apply(&mut self, event: &Event) -> Result<(), &'static str> {
        let Self { hold, in_flight } = self;
        let time = event.time;
        let was_acquired = hold.acquired.is_some();
        let mut complete =
            || if std::mem::take(in_flight) { Ok(()) } else { Err("a result without a beginning") };
        match &event.action {
            Action::Acquire { .. } => unreachable!("the caller begins acquisitions"),
            Action::Acquired { valid_until, token } if !was_acquired => {
                complete()?;
                hold.acquired = Some(time);
                hold.token = *token;
                hold.valid(time, *valid_until);
            }
            Action::NotAcquired { .. } if !was_acquired => complete()?,
            _ if !was_acquired => return Err("an event of a lock that was not acquired"),
            Action::Acquired { .. } | Action::NotAcquired { .. } => return Err("a second result"),
            Action::Extend { .. } => {
                if std::mem::replace(in_flight, true) {
                    return Err("a second extension before the result of the first");
                }
            }
            Action::Extended { valid_until } => {
                complete()?;
                hold.valid(time, *valid_until);
            }
            Action::NotExtended { .. } => complete()?,
            Action::Held { valid_until } => hold.valid(time, *valid_until),
            Action::Lost { .. } | Action::Release => hold.end(time),
            Action::Released { .. } | Action::NotReleased { .. } if hold.ended.is_none() => {
                return Err("the result of a release that did not begin");
            }
            Action::Released { .. } | Action::NotReleased { .. } | Action::Left => {}
        }
        Ok(())
    }
}
