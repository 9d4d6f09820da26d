//! The words of the page for events, faults and replies.
//!
//! The history as text has the format of `scripts/simulate` instead.

use std::collections::BTreeMap;

use redlock_core::runtime::Instant;
use redlock_core::{ErrorKind, ReleaseOutcome};
use redlock_simulation::attempts::FailedAttempt;
use redlock_simulation::history::{Event, EventKind, FaultKind, Place, Reply, Request, TokenNumber};
use redlock_testkit::Operation;

/// Describes the reservation of a lock for a waiter, and its end. Its token is that of no attempt.
pub(super) fn reservation(event: &Event, is_attempt: impl Fn(TokenNumber) -> bool) -> Option<String> {
    match event.kind {
        EventKind::Moved { token, .. } if is_attempt(token) => None,
        EventKind::Moved { server, until, .. } if until <= event.at => {
            Some(format!("the reservation on n{server} ends"))
        }
        EventKind::Moved { server, until, .. } => Some(format!(
            "n{server} reserves the lock for the client that has waited longest, for {:.3} s",
            left(event.at, until)
        )),
        _ => None,
    }
}

/// Describes an event.
pub(super) fn event(Event { at, kind }: &Event) -> String {
    match kind {
        EventKind::Requested { client, resources, ttl, once, fenced } => {
            let fenced = if *fenced { " and a fencing token" } else { "" };
            let once = if *once { ", in a single attempt" } else { "" };
            format!(
                "c{client} requests {} with a TTL of {} ms{fenced}{once}",
                names(resources),
                ttl.as_millis()
            )
        }
        EventKind::Granted { client, resources, token, until, fence } => {
            let fence = fence.map_or(String::new(), |fence| format!(", with fencing token {fence}"));
            format!("c{client} acquires {} as {token}{fence}, {}", names(resources), valid(*at, *until))
        }
        EventKind::NotGranted { client, why: Some(why) } => {
            format!("c{client} does not acquire the lock: {}", reason(*why))
        }
        EventKind::Extended { client, token, until } => {
            format!("c{client} has extended {token}, {}", valid(*at, *until))
        }
        EventKind::NotExtended { client, token, why: Some(why) } => {
            format!("c{client} has not extended {token}: {}", reason(*why))
        }
        EventKind::KeepsAlive { client, token } => format!("c{client} renews {token} from now on"),
        EventKind::Noticed { client, token, until } if until <= at => {
            format!("c{client} notices that {token} has expired")
        }
        EventKind::Noticed { client, token, until } => {
            format!("c{client} has renewed {token}, {}", valid(*at, *until))
        }
        EventKind::Released { client, token, outcome } => {
            format!("c{client} has released {token}{}", released(*outcome))
        }
        EventKind::Closed { client } => format!("c{client} is done"),
        EventKind::Sent(request) => format!("{} is sent", message(request)),
        EventKind::CarriedOut { request, reply, .. } => {
            let server = request.server;
            format!(
                "{} is carried out by n{server}: {}",
                message(request),
                reply_text(request.operation, *reply)
            )
        }
        EventKind::Received { request, reply } => {
            let client = request.client;
            format!("{} returns to c{client}: {}", message(request), reply_text(request.operation, *reply))
        }
        EventKind::Moved { server, token, until } if until <= at => {
            format!("{token} expires on n{server} at once")
        }
        EventKind::Moved { server, token, until } => {
            format!("{token} expires on n{server} in {:.3} s", left(*at, *until))
        }
        EventKind::FaultBegins(place, fault) => begin(*place, *fault),
        EventKind::FaultEnds(place, fault) => end(*place, *fault),
        EventKind::Releasing { client, token, waits: false, .. } => {
            format!("c{client} releases {token} without waiting for the outcome")
        }
        EventKind::Calm => "all incidents end, and the clients complete".into(),
        other => other.to_string(),
    }
}

/// Describes an attempt that ended without a lock, at this number of nodes.
pub(super) fn failed_attempt(attempt: &FailedAttempt, nodes: usize) -> String {
    let FailedAttempt { client, token, replies, releases, .. } = attempt;
    let vote = |node: usize| match replies.get(&node) {
        None => format!("n{node} not connected"),
        Some(None) => format!("n{node} no reply"),
        Some(Some(reply)) => vote(node, *reply),
    };
    let votes: Vec<_> = (0..nodes).map(vote).collect();
    let has_votes = replies.values().flatten().any(|reply| reply.is_grant());
    let released = if *releases && has_votes { ", and its votes are released" } else { "" };
    format!("attempt {token} of c{client} fails ({}){released}", votes.join(", "))
}

/// Describes a fault that lasts.
pub(super) fn fault(fault: FaultKind) -> String {
    match fault {
        FaultKind::Crash => "is down".into(),
        FaultKind::Hang => "hangs: it receives requests and does nothing".into(),
        FaultKind::Partition => "all messages are lost".into(),
        FaultKind::Storm => "many messages are lost, repeated or late".into(),
        FaultKind::WrongType => "another program uses the key of the lock".into(),
        FaultKind::Pause => "is paused".into(),
        FaultKind::Suspension => "is suspended".into(),
        FaultKind::Kill => "is dead".into(),
        FaultKind::Drift(ppm) => format!("its clock drifts by {ppm} ppm"),
        other => other.to_string(),
    }
}

/// Lists the votes of nodes; `None` without a reply so far.
pub(super) fn votes(replies: &BTreeMap<usize, Option<Reply>>) -> String {
    let vote = |(node, reply): (&usize, &Option<Reply>)| {
        reply.map_or_else(|| format!("n{node} no reply yet"), |reply| vote(*node, reply))
    };
    let votes: Vec<_> = replies.iter().map(vote).collect();
    votes.join(", ")
}

/// Lists resources.
pub(super) fn names(resources: &[usize]) -> String {
    let names: Vec<_> = resources.iter().map(|resource| format!("r{resource}")).collect();
    names.join(" and ")
}

fn begin(place: Place, fault: FaultKind) -> String {
    match fault {
        FaultKind::Crash => format!("{place} is down"),
        FaultKind::Hang => format!("{place} hangs"),
        FaultKind::Pause => format!("{place} is paused"),
        FaultKind::Suspension => format!("{place} is suspended"),
        FaultKind::Kill => format!("{place} is killed"),
        FaultKind::Step(millis) => format!("the clock of {place} is set by {millis:+} ms"),
        other => format!("{place}: {}", self::fault(other)),
    }
}

fn end(place: Place, fault: FaultKind) -> String {
    match fault {
        FaultKind::Crash => format!("{place} is up again"),
        FaultKind::Hang | FaultKind::Pause | FaultKind::Suspension => format!("{place} resumes"),
        FaultKind::Kill => format!("{place} starts again"),
        FaultKind::Partition => format!("{place}: messages arrive again"),
        FaultKind::WrongType => format!("{place}: the key of another program is deleted"),
        other => format!("{place}: {} is over", other.name()),
    }
}

fn message(Request { client, server, operation, token, .. }: &Request) -> String {
    let operation = format!("{operation:?}").to_lowercase();
    format!("{operation} {token} of c{client} to n{server}")
}

fn vote(node: usize, reply: Reply) -> String {
    format!("n{node} {}", reply_text(Operation::Acquire, reply))
}

fn reply_text(operation: Operation, reply: Reply) -> &'static str {
    match (operation, reply) {
        (_, Reply::Failed) => "failed",
        (_, Reply::Uncounted) => "does not count",
        (Operation::Inspect | Operation::Watch, reply) => {
            if reply.is_grant() {
                "free"
            } else {
                "locked"
            }
        }
        (Operation::Release, reply) => {
            if reply.is_grant() {
                "deleted"
            } else {
                "no such key"
            }
        }
        (_, reply) => {
            if reply.is_grant() {
                "granted"
            } else {
                "denied"
            }
        }
    }
}

fn reason(why: ErrorKind) -> String {
    match why {
        ErrorKind::Contended => "another client holds it".into(),
        ErrorKind::NoQuorum => "too few nodes replied".into(),
        ErrorKind::TooSlow => "no validity is left".into(),
        ErrorKind::Lost => "the lock is lost".into(),
        ErrorKind::Superseded => "a newer lock has a greater fencing token".into(),
        other => format!("{other:?}"),
    }
}

fn released(outcome: Result<ReleaseOutcome, ErrorKind>) -> String {
    match outcome {
        Ok(ReleaseOutcome::Released) => String::new(),
        Ok(ReleaseOutcome::AlreadyExpired) => ", which had expired".into(),
        Ok(ReleaseOutcome::AlreadyLost) => ", which was lost".into(),
        Ok(other) => format!(": {other:?}"),
        Err(why) => format!(" with an unknown outcome: {}", reason(why)),
    }
}

fn valid(at: Instant, until: Instant) -> String {
    format!("valid for {:.3} s", left(at, until))
}

fn left(at: Instant, until: Instant) -> f64 {
    until.saturating_duration_since(at).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlock_simulation::history::TokenNumber;

    use super::*;

    fn text(kind: EventKind) -> String {
        event(&Event { at: Instant::since_origin(Duration::from_millis(500)), kind })
    }

    #[test]
    fn a_grant_states_its_validity() {
        let until = Instant::since_origin(Duration::from_millis(3_455));
        let (resources, token) = (vec![0, 2], TokenNumber(7));
        let granted = EventKind::Granted { client: 1, resources, token, until, fence: None };
        assert_eq!("c1 acquires r0 and r2 as #7, valid for 2.955 s", text(granted));
    }

    #[test]
    fn a_fault_begins_and_ends() {
        let begin = |place, fault| text(EventKind::FaultBegins(place, fault));
        let end = |place, fault| text(EventKind::FaultEnds(place, fault));
        let (node, client) = (Place::Server(2), Place::Client(0));
        assert_eq!(
            ["n2 is down", "n2 is up again"],
            [begin(node, FaultKind::Crash), end(node, FaultKind::Crash)]
        );
        assert_eq!(
            ["c0 is paused", "c0 resumes"],
            [begin(client, FaultKind::Pause), end(client, FaultKind::Pause)]
        );
        assert_eq!("the clock of n2 is set by +10000 ms", begin(node, FaultKind::Step(10_000)));
        assert_eq!("c0-n2: all messages are lost", begin(Place::Between(0, 2), FaultKind::Partition));
    }

    #[test]
    fn a_clock_step_moves_the_expiry_of_keys() {
        let moved = |millis| {
            let until = Instant::since_origin(Duration::from_millis(millis));
            text(EventKind::Moved { server: 2, token: TokenNumber(7), until })
        };
        assert_eq!(["#7 expires on n2 at once", "#7 expires on n2 in 1.500 s"], [500, 2_000].map(moved));
    }

    #[test]
    fn a_reservation_names_no_token() {
        let moved = |millis| {
            let until = Instant::since_origin(Duration::from_millis(millis));
            let kind = EventKind::Moved { server: 2, token: TokenNumber(7), until };
            Event { at: Instant::since_origin(Duration::from_millis(500)), kind }
        };
        let text = |millis| reservation(&moved(millis), |_| false).unwrap();
        assert_eq!("the reservation on n2 ends", text(500));
        assert_eq!("n2 reserves the lock for the client that has waited longest, for 0.200 s", text(700));
        assert_eq!(None, reservation(&moved(700), |token| token == TokenNumber(7)));
    }

    #[test]
    fn a_failed_attempt_has_its_votes() {
        let failed = |replies, releases| {
            let replies = BTreeMap::from(replies);
            let (client, token) = (1, TokenNumber(7));
            failed_attempt(&FailedAttempt { event: 9, client, token, replies, releases }, 3)
        };
        assert_eq!(
            "attempt #7 of c1 fails (n0 granted, n1 no reply, n2 not connected), and its votes are released",
            failed([(0, Some(Reply::Granted)), (1, None)], true)
        );
        let denied = "attempt #7 of c1 fails (n0 denied, n1 failed, n2 not connected)";
        assert_eq!(denied, failed([(0, Some(Reply::Denied)), (1, Some(Reply::Failed))], true));
    }

    #[test]
    fn a_reply_depends_on_its_operation() {
        let words = |reply| {
            [Operation::Acquire, Operation::Release, Operation::Watch]
                .map(|operation| reply_text(operation, reply))
        };
        assert_eq!(["granted", "deleted", "free"], words(Reply::Granted));
        assert_eq!(["denied", "no such key", "locked"], words(Reply::Denied));
        assert_eq!(["failed"; 3], words(Reply::Failed));
    }
}
