//! The text form of a history: one line for each event.

use std::fmt;
use std::time::Duration;

use redlock_core::runtime::Instant;

use super::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", time(self.at), self.kind)
    }
}

/// Formats seconds with nanoseconds, to distinguish the events of one millisecond.
fn time(at: Instant) -> String {
    let elapsed = at.elapsed_since_origin();
    format!("{:>4}.{:09}", elapsed.as_secs(), elapsed.subsec_nanos())
}

fn millis(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Formats resources as `r0+r2`.
pub(crate) fn names(resources: &[usize]) -> String {
    let names: Vec<_> = resources.iter().map(|resource| format!("r{resource}")).collect();
    names.join("+")
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested { client, resources, ttl, once, fenced } => {
                let how = if *once { "requests once" } else { "requests" };
                let fenced = if *fenced { ", fenced" } else { "" };
                write!(f, "c{client} {how} {} for {}{fenced}", names(resources), millis(*ttl))
            }
            Self::Granted { client, resources, token, until, fence } => {
                write!(f, "c{client} is granted {} as {token} until {}", names(resources), time(*until))?;
                fence.map_or(Ok(()), |fence| write!(f, ", fencing token {fence}"))
            }
            Self::NotGranted { client, why: Some(why) } => {
                write!(f, "c{client} is not granted the lock: {why:?}")
            }
            Self::NotGranted { client, why: None } => write!(f, "c{client} drops its request"),
            Self::Extending { client, token, ttl } => {
                write!(f, "c{client} extends {token} for {}", millis(*ttl))
            }
            Self::Extended { client, token, until } => {
                write!(f, "c{client} has extended {token} until {}", time(*until))
            }
            Self::NotExtended { client, token, why: Some(why) } => {
                write!(f, "c{client} has not extended {token}: {why:?}")
            }
            Self::NotExtended { client, token, why: None } => {
                write!(f, "c{client} drops the extension of {token}")
            }
            Self::Reads { client, token } => write!(f, "c{client} shares {token} with readers"),
            Self::KeepsAlive { client, token } => write!(f, "c{client} keeps {token} alive"),
            Self::Noticed { client, token, until } => {
                write!(f, "c{client} notices that {token} is valid until {}", time(*until))
            }
            Self::LossReported { client, token, loss } => {
                write!(f, "c{client} learns that {token} is lost: {loss}")
            }
            Self::Acted { client, token } => write!(f, "c{client} acts under {token}"),
            Self::Wrote { client, resource, token, fence, seen, accepted } => {
                let verb = if *accepted { "accepts" } else { "rejects" };
                let write = seen.map_or(String::new(), |seen| format!("write {} with ", seen + 1));
                write!(f, "r{resource} {verb} {write}fencing token {fence} of c{client}, under {token}")
            }
            Self::Releasing { client, token, waits, .. } => {
                write!(f, "c{client} {} {token}", if *waits { "releases" } else { "drops" })
            }
            Self::Keeping { client, token } => {
                write!(f, "c{client} keeps {token} for a time")
            }
            Self::Kept { client, token, until } => {
                write!(f, "c{client} has kept {token} until {}", time(*until))
            }
            Self::Released { client, token, outcome: Ok(outcome) } => {
                write!(f, "c{client} has released {token}: {outcome:?}")
            }
            Self::Released { client, token, outcome: Err(why) } => {
                write!(f, "c{client} has no outcome for {token}: {why:?}")
            }
            Self::Closed { client } => write!(f, "c{client} is closed"),
            Self::Runs { client, tasks } => write!(f, "c{client} still runs {tasks} tasks"),
            Self::Sent(request) => write!(f, "{request} is sent"),
            Self::CarriedOut { request, reply, until, travelled, again } => {
                write!(f, "{request} is carried out: {reply}")?;
                if let Some(until) = until {
                    write!(f, " until {}", time(*until))?;
                }
                write!(f, ", after {travelled:?}{}", if *again { ", for the second time" } else { "" })
            }
            Self::Received { request, reply } => write!(f, "{request} receives: {reply}"),
            Self::Moved { server, token, until } => {
                write!(f, "n{server} keeps {token} until {}", time(*until))
            }
            Self::Lost { server, token } => write!(f, "n{server} has lost {token}"),
            Self::Left { server, token } => write!(f, "n{server} still has {token}"),
            Self::FaultBegins(place, fault) => write!(f, "{place} ! {fault}"),
            Self::FaultEnds(place, fault) => write!(f, "{place} . {} is over", fault.name()),
            Self::Calm => f.write_str("-- the faults have ended"),
            Self::FinalCheck { client } => write!(f, "-- the final check: c{client} requests each lock"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, server, operation, token, call } = self;
        write!(f, "c{client}-n{server} {operation:?} {token} ({call})")
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Counted(counter) => write!(f, "granted, counter {counter}"),
            Self::Denied => f.write_str("denied"),
            Self::Superseded(counter) => write!(f, "superseded by {counter}"),
            Self::Failed => f.write_str("error"),
            Self::Uncounted => f.write_str("does not count"),
        }
    }
}

/// Formats as `#7`, or as `-` without a number.
impl fmt::Display for TokenNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("-"),
            Self(number) => write!(f, "#{number}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => write!(f, "n{server}"),
            Self::Client(client) => write!(f, "c{client}"),
            Self::Between(client, server) => write!(f, "c{client}-n{server}"),
            Self::Network => f.write_str("net"),
            Self::Resource(resource) => write!(f, "r{resource}"),
        }
    }
}

impl FaultKind {
    /// Returns whether the fault lasts for a period. The others are momentary, or affect a single message.
    pub(crate) fn lasts(self) -> bool {
        let is_message = matches!(
            self,
            Self::Loss | Self::Duplicate | Self::Straggler | Self::Disconnect | Self::Unwatched
        );
        !self.is_momentary() && !is_message
    }

    /// Returns whether the fault has no duration.
    pub(crate) fn is_momentary(self) -> bool {
        matches!(self, Self::Flush | Self::Eviction | Self::Amnesia(_) | Self::Rollback | Self::Step(_))
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(by) => write!(f, "clock step of {by} ms"),
            Self::Drift(ppm) => write!(f, "clock drift of {ppm} ppm"),
            Self::Amnesia(away) => write!(f, "lost counters after a downtime of {away:?}"),
            _ => f.write_str(self.name()),
        }
    }
}
