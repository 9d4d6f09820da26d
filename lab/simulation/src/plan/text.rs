//! Plans as text: one sentence for each incident, in lines or separated by semicolons.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Incident, Plan};
use crate::duration::duration;
use crate::network::Direction;
use crate::server::Persistence;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(when, incident)| writeln!(f, "at {when:?} {incident}"))
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { server, persistence, lasts } => {
                write!(f, "n{server} crashes for {lasts:?} and keeps {persistence:?}")
            }
            Self::Hang { server, lasts } => write!(f, "n{server} hangs for {lasts:?}"),
            Self::Flush { server } => write!(f, "n{server} is flushed"),
            Self::Copy { server } => write!(f, "the data of n{server} is copied"),
            Self::Failback { server, lasts } => {
                write!(f, "n{server} is a replica with the older copy for {lasts:?}")
            }
            Self::Evict { server } => write!(f, "n{server} loses its locks"),
            Self::Forget { server } => write!(f, "n{server} loses its counters"),
            Self::OutOfMemory { server, lasts } => write!(f, "n{server} is out of memory for {lasts:?}"),
            Self::ReadOnly { server, lasts } => write!(f, "n{server} is read-only for {lasts:?}"),
            Self::WrongType { server, resource, lasts } => {
                write!(f, "r{resource} on n{server} has a non-lock value for {lasts:?}")
            }
            Self::Step { server, millis } => write!(f, "the clock of n{server} steps by {millis} ms"),
            Self::Slew { server, ppm, lasts } => {
                write!(f, "the clock of n{server} runs faster by {ppm} ppm for {lasts:?}")
            }
            Self::Partition { client, server, way: None, lasts } => {
                write!(f, "all messages between c{client} and n{server} are lost for {lasts:?}")
            }
            Self::Partition { client, server, way: Some(Direction::Requests), lasts } => {
                write!(f, "all messages from c{client} to n{server} are lost for {lasts:?}")
            }
            Self::Partition { client, server, way: Some(Direction::Replies), lasts } => {
                write!(f, "all messages from n{server} to c{client} are lost for {lasts:?}")
            }
            Self::Storm { lasts } => write!(f, "a storm for {lasts:?}"),
            Self::Pause { client, lasts } => write!(f, "c{client} is paused for {lasts:?}"),
            Self::Suspend { client, lasts } => write!(f, "c{client} is suspended for {lasts:?}"),
            Self::Kill { client, lasts } => write!(f, "c{client} is killed and restarts after {lasts:?}"),
        }
    }
}

/// Reads the text of a plan.
///
/// The error is a sentence about the first incident that is not readable.
impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sentences = text.split(['\n', ';']).map(str::trim).filter(|sentence| !sentence.is_empty());
        let mut plan = Self::new();
        for sentence in sentences {
            let (when, incident) =
                timed(sentence).ok_or_else(|| format!("the incident \"{sentence}\" is not readable"))?;
            plan = plan.at(when, incident);
        }
        Ok(plan)
    }
}

fn timed(sentence: &str) -> Option<(Duration, Incident)> {
    let (when, incident) = sentence.strip_prefix("at ")?.split_once(' ')?;
    Some((duration(when)?, incident_of(&incident.split(' ').collect::<Vec<_>>())?))
}

/// Reads the sentence of an incident, as its `Display` writes it.
fn incident_of(words: &[&str]) -> Option<Incident> {
    let server = |name: &str| numbered('n', name);
    let client = |name: &str| numbered('c', name);
    Some(match words {
        [node, "crashes", "for", lasts, "and", "keeps", kept] => Incident::Crash {
            server: server(node)?,
            persistence: persistence(kept)?,
            lasts: duration(lasts)?,
        },
        [node, "hangs", "for", lasts] => Incident::Hang { server: server(node)?, lasts: duration(lasts)? },
        [node, "is", "flushed"] => Incident::Flush { server: server(node)? },
        ["the", "data", "of", node, "is", "copied"] => Incident::Copy { server: server(node)? },
        [node, "is", "a", "replica", "with", "the", "older", "copy", "for", lasts] => {
            Incident::Failback { server: server(node)?, lasts: duration(lasts)? }
        }
        [node, "loses", "its", "locks"] => Incident::Evict { server: server(node)? },
        [node, "loses", "its", "counters"] => Incident::Forget { server: server(node)? },
        [node, "is", "out", "of", "memory", "for", lasts] => {
            Incident::OutOfMemory { server: server(node)?, lasts: duration(lasts)? }
        }
        [node, "is", "read-only", "for", lasts] => {
            Incident::ReadOnly { server: server(node)?, lasts: duration(lasts)? }
        }
        [resource, "on", node, "has", "a", "non-lock", "value", "for", lasts] => Incident::WrongType {
            server: server(node)?,
            resource: numbered('r', resource)?,
            lasts: duration(lasts)?,
        },
        ["the", "clock", "of", node, "steps", "by", millis, "ms"] => {
            Incident::Step { server: server(node)?, millis: millis.parse().ok()? }
        }
        ["the", "clock", "of", node, "runs", "faster", "by", ppm, "ppm", "for", lasts] => {
            Incident::Slew { server: server(node)?, ppm: ppm.parse().ok()?, lasts: duration(lasts)? }
        }
        ["all", "messages", path @ .., "are", "lost", "for", lasts] => {
            let (from, to, way) = match path {
                ["between", client, "and", node] => (client, node, None),
                ["from", from, "to", to] if from.starts_with('c') => (from, to, Some(Direction::Requests)),
                ["from", from, "to", to] => (to, from, Some(Direction::Replies)),
                _ => return None,
            };
            Incident::Partition { client: client(from)?, server: server(to)?, way, lasts: duration(lasts)? }
        }
        ["a", "storm", "for", lasts] => Incident::Storm { lasts: duration(lasts)? },
        [name, "is", "paused", "for", lasts] => {
            Incident::Pause { client: client(name)?, lasts: duration(lasts)? }
        }
        [name, "is", "suspended", "for", lasts] => {
            Incident::Suspend { client: client(name)?, lasts: duration(lasts)? }
        }
        [name, "is", "killed", "and", "restarts", "after", lasts] => {
            Incident::Kill { client: client(name)?, lasts: duration(lasts)? }
        }
        _ => return None,
    })
}

fn persistence(name: &str) -> Option<Persistence> {
    [Persistence::All, Persistence::Part, Persistence::Counters, Persistence::Older, Persistence::Nothing]
        .into_iter()
        .find(|persistence| format!("{persistence:?}") == name)
}

fn numbered(letter: char, name: &str) -> Option<usize> {
    name.strip_prefix(letter)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Faults, Scope};
    use super::*;

    #[test]
    fn every_plan_is_read_again() {
        let (lasts, longest_ttl) = (Duration::from_secs(20), Duration::from_secs(4));
        let mut incidents = std::collections::HashSet::new();
        for (seed, (_, faults)) in (0..50).flat_map(|seed| Faults::ALL.map(|faults| (seed, faults))) {
            let scope = Scope { servers: 3, clients: 3, resources: 2, lasts, longest_ttl, faults };
            let plan = Plan::draw(seed, &scope);
            assert_eq!(Ok(&plan), plan.to_string().parse().as_ref(), "{plan}");
            assert_eq!(Ok(&plan), plan.to_string().replace('\n', "; ").parse().as_ref(), "{plan}");
            incidents.extend(plan.0.iter().map(|(_, incident)| std::mem::discriminant(incident)));
        }
        assert_eq!(17, incidents.len(), "every kind of incident occurs");
    }

    #[test]
    fn the_first_incident_that_is_not_readable_is_named() {
        for wrong in
            ["at 1s", "at n0 hangs for 1s", "at 1s n0 hangs", "at 1s c0 hangs for 1s", "n0 is flushed"]
        {
            let text = format!("at 1s n0 is flushed\n{wrong}");
            assert_eq!(Err(format!("the incident \"{wrong}\" is not readable")), text.parse::<Plan>());
        }
    }
}
