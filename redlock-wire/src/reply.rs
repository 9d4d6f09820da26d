//! The interpretation of replies: from a reply to a vote or an error.
//!
//! Messages of servers and clients appear in reports and logs, so parts that may contain a secret are cut off. A server
//! that does not know a command repeats its arguments, which may be a token or a password.

use std::time::Duration;

use redlock_core::node::{self, Availability, Claim, Denial, LockEntry, NodeError, Token};
use redlock_core::{FencingToken, Position, Resource};

use crate::message::{Failure, Reply, Sent};
use crate::text::sanitize;

/// Returns the error of a command without a reply.
pub(crate) fn unanswered(failure: &Failure) -> NodeError {
    let message = sanitize(&failure.message);
    match failure.sent {
        Sent::No => NodeError::unavailable(message),
        Sent::Maybe => NodeError::unknown(message),
    }
}

/// Interprets the reply to `SET .. NX PX .. GET`: the previous value, in which case nothing was set.
pub(crate) fn set_get(reply: Reply, claim: &Claim) -> Result<node::Reply, NodeError> {
    if reply == Reply::Nil { Ok(node::Reply::Granted) } else { get(reply, claim) }
}

/// Interprets the reply to `SET .. NX PX`: nil if the key existed.
pub(crate) fn set(reply: &Reply) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Nil => Ok(node::Reply::Denied(Denial::default())),
        Reply::Bytes(ok) if ok == b"OK" => Ok(node::Reply::Granted),
        Reply::Error(message) => Err(rejected(message)),
        other => Err(unexpected_reply(other)),
    }
}

/// Interprets the reply to `GET` after nothing was set. The claim's own token means a replay of this claim; nil means
/// that the key has just expired.
pub(crate) fn get(reply: Reply, claim: &Claim) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Nil => Ok(node::Reply::Denied(Denial::of_gone_key())),
        Reply::Bytes(held) if held == claim.token().as_bytes() => Ok(node::Reply::Granted),
        Reply::Bytes(held) => Ok(node::Reply::Denied(Denial::by(Token::from_bytes(held)))),
        Reply::Error(message) if message.starts_with("WRONGTYPE") => {
            Err(NodeError::wrong_type(&claim.resources()[0])) // a claim has at least one resource
        }
        Reply::Error(message) => Err(rejected(&message)),
        other => Err(unexpected_reply(&other)),
    }
}

/// Interprets the reply of the fenced acquire script: the counter as text or as a number, or a [`denial`].
pub(crate) fn fenced_vote(reply: &Reply, claim: &Claim) -> Result<node::Reply, NodeError> {
    let counter = match reply {
        Reply::Bytes(number) => fencing_token(number),
        Reply::Int(number @ 1..) => u64::try_from(*number).ok().and_then(FencingToken::new),
        _ => return denial(reply, claim).map(node::Reply::Denied),
    };
    counter.map(node::Reply::Counted).ok_or_else(|| unexpected_reply(reply))
}

/// Interprets the reply of the scripts that write a fencing token.
///
/// The reply is a greater counter as text, a number of keys, or a [`denial`].
pub(crate) fn confirm_vote(reply: &Reply, claim: &Claim) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Bytes(number) => {
            fencing_token(number).map(node::Reply::Superseded).ok_or_else(|| unexpected_reply(reply))
        }
        Reply::Int(1..) => Ok(node::Reply::Granted),
        _ => denial(reply, claim).map(node::Reply::Denied),
    }
}

/// Interprets the reply of the scripts that acquire or extend: a number of keys, or a [`denial`].
pub(crate) fn vote(reply: &Reply, claim: &Claim) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Int(1..) => Ok(node::Reply::Granted),
        _ => denial(reply, claim).map(node::Reply::Denied),
    }
}

/// Interprets the reply of the release script: the number of deleted keys.
pub(crate) fn deleted(reply: &Reply) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Int(count @ 0..) => Ok(node::Reply::Deleted(*count > 0)),
        Reply::Error(message) => Err(rejected(message)),
        _ => Err(unexpected_reply(reply)),
    }
}

fn fencing_token(number: &[u8]) -> Option<FencingToken> {
    std::str::from_utf8(number).ok()?.parse().ok().and_then(FencingToken::new)
}

/// Interprets the denials and errors of all scripts.
///
/// - 0: a key is missing.
/// - `{0, holder, remaining}`: another client holds a key.
/// - `{0, holder, remaining, rank, waiters}`: the same, with the position of the place of the request.
/// - `{-1, position}`: a key of another type.
/// - `{-2, position}`: the counter at this position is not a number.
/// - `{-3, position, number, seconds}`: a number that is this far ahead of the clock.
fn denial(reply: &Reply, claim: &Claim) -> Result<Denial, NodeError> {
    match reply {
        Reply::Int(0) => Ok(Denial::default()),
        Reply::Error(message) => Err(rejected(message)),
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(0), Reply::Bytes(holder), Reply::Int(left)] => Ok(held_by(holder, *left)),
            [
                Reply::Int(0),
                Reply::Bytes(holder),
                Reply::Int(left),
                Reply::Int(rank),
                Reply::Int(waiters),
            ] => {
                let position = position(*rank, *waiters).ok_or_else(|| unexpected_reply(reply))?;
                Ok(held_by(holder, *left).at(position))
            }
            [Reply::Int(what @ (-1 | -2)), Reply::Int(position)] => {
                let index = position.checked_sub(1).and_then(|index| usize::try_from(index).ok());
                match index.and_then(|index| claim.resources().get(index)) {
                    Some(resource) if *what == -1 => Err(NodeError::wrong_type(resource)),
                    Some(resource) => {
                        let message =
                            format!("the fencing counter of {resource:?} is not a number below 2^53");
                        Err(NodeError::damaged_counter(message))
                    }
                    None => Err(unexpected_reply(reply)),
                }
            }
            [Reply::Int(-3), Reply::Int(position), Reply::Bytes(number), Reply::Int(seconds)] => {
                match too_far_ahead(*position, number, *seconds, claim) {
                    Some(message) if *position == 0 => Err(NodeError::rejected(message)),
                    Some(message) => Err(NodeError::damaged_counter(message)),
                    None => Err(unexpected_reply(reply)),
                }
            }
            _ => Err(unexpected_reply(reply)),
        },
        _ => Err(unexpected_reply(reply)),
    }
}

/// Returns the position with this rank among the waiters.
fn position(rank: i64, waiters: i64) -> Option<Position> {
    let is_valid = 1 <= rank && rank <= waiters;
    let position = || Some(Position::new(u32::try_from(rank).ok()?, u32::try_from(waiters).ok()?));
    position().filter(|_| is_valid)
}

/// Describes a fencing token or counter that is ahead of the server's clock. Returns `None` if the reply is malformed.
fn too_far_ahead(position: i64, number: &[u8], seconds: i64, claim: &Claim) -> Option<String> {
    let number = fencing_token(number)?;
    let what = match usize::try_from(position).ok()?.checked_sub(1) {
        None => format!("the fencing token {number}"),
        Some(index) => format!("the fencing counter of {:?}, {number},", claim.resources().get(index)?),
    };
    Some(format!("{what} is {seconds}s ahead of the server's clock, more than the counter retention"))
}

/// Interprets the reply of an inspection.
///
/// It is `{0, waiters}` or `{0, holder, remaining, waiters}`, or `{-1, 1}` for a key of another type. A negative number of
/// waiters is unknown.
pub(crate) fn holding(reply: Reply, resource: &Resource) -> Result<node::Reply, NodeError> {
    match reply {
        Reply::Error(message) => Err(rejected(&message)),
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(0), Reply::Int(waiters)] => {
                Ok(node::Reply::Free { waiters: u32::try_from(*waiters).ok() })
            }
            [Reply::Int(0), Reply::Bytes(holder), Reply::Int(left), Reply::Int(waiters)] => {
                let mut entry = LockEntry::of(Token::from_bytes(holder));
                entry.remaining = u64::try_from(*left).ok().map(Duration::from_millis);
                entry.waiters = u32::try_from(*waiters).ok();
                Ok(node::Reply::Held(entry))
            }
            [Reply::Int(-1), Reply::Int(1)] => Err(NodeError::wrong_type(resource)),
            _ => Err(unexpected_reply(&Reply::Array(parts))),
        },
        other => Err(unexpected_reply(&other)),
    }
}

/// Interprets the replies to `CLIENT CACHING YES` and `PTTL`. If either failed, nothing is tracked.
pub(crate) fn availability(replies: &[Reply]) -> Result<Availability, NodeError> {
    match replies {
        [Reply::Error(message), _] | [_, Reply::Error(message)] => Err(rejected(message)),
        [_, Reply::Int(-2)] => Ok(Availability::Free),
        [_, Reply::Int(left)] => {
            Ok(Availability::Taken(u64::try_from(*left).ok().map(Duration::from_millis)))
        }
        _ => Err(unexpected_reply(&Reply::Array(replies.to_vec()))),
    }
}

/// Returns the token in the reply to `GET`. A key of readers, or any other value that is not a lock, names no token.
pub(crate) fn token(replies: &[Reply]) -> Option<Token> {
    match replies {
        [Reply::Bytes(token)] => Some(Token::from_bytes(token)),
        _ => None,
    }
}

/// Interprets the replies to `CLIENT CACHING YES`, `TYPE` and `PTTL`. If a command failed, nothing is tracked.
pub(crate) fn shared_availability(replies: &[Reply]) -> Result<Availability, NodeError> {
    match replies {
        [caching, Reply::Bytes(kind), left] => match availability(&[caching.clone(), left.clone()])? {
            _ if matches!(kind.as_slice(), b"none" | b"zset") => Ok(Availability::Free),
            Availability::Taken(remaining) => Ok(Availability::Taken(remaining)),
            // The key has just expired, which is a change after `TYPE`.
            _ => Ok(Availability::Free),
        },
        [_, Reply::Error(message), _] => Err(rejected(message)),
        _ => Err(unexpected_reply(&Reply::Array(replies.to_vec()))),
    }
}

/// Returns the denial for a holder and its key's `PTTL` (negative without expiry).
fn held_by(holder: &[u8], left: i64) -> Denial {
    let denial = Denial::by(Token::from_bytes(holder));
    match u64::try_from(left) {
        Ok(left) => denial.expiring_in(Duration::from_millis(left)),
        Err(_) => denial,
    }
}

fn rejected(message: &str) -> NodeError {
    let text = sanitize(message);
    if text.starts_with("ERR the fencing counter is") {
        NodeError::damaged_counter(text)
    } else {
        NodeError::rejected(text)
    }
}

/// Returns the error for a reply that no server sends. Its effect on the server is unknown.
fn unexpected_reply(reply: &Reply) -> NodeError {
    let reply = sanitize(&format!("{reply:?}"));
    NodeError::unknown(format!("unexpected reply: {reply}"))
}

#[cfg(test)]
mod tests {
    use redlock_core::IntoResources;
    use redlock_core::node::NodeErrorKind;

    use super::*;

    fn claim() -> Claim {
        Claim::new(["a", "b"].into_resources().unwrap(), Token::from_bytes("mine"))
    }

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn error(text: &str) -> Reply {
        Reply::Error(text.into())
    }

    fn denied_by(holder: &str) -> node::Reply {
        node::Reply::Denied(Denial::by(Token::from_bytes(holder)))
    }

    fn kind<T>(outcome: Result<T, NodeError>) -> Result<T, NodeErrorKind> {
        outcome.map_err(|error| error.kind())
    }

    #[test]
    fn set_with_get_returns_the_holder_and_detects_a_repeated_request() {
        let outcome = |reply| kind(set_get(reply, &claim()));
        assert_eq!(Ok(node::Reply::Granted), outcome(Reply::Nil));
        assert_eq!(Ok(node::Reply::Granted), outcome(bytes("mine")));
        assert_eq!(Ok(denied_by("other")), outcome(bytes("other")));
        assert_eq!(Err(NodeErrorKind::WrongType), outcome(error("WRONGTYPE Operation against a key")));
        assert_eq!(Err(NodeErrorKind::Rejected), outcome(error("OOM command not allowed")));
        assert_eq!(Err(NodeErrorKind::Unknown), outcome(Reply::Int(7)));
    }

    #[test]
    fn readers_are_free_for_a_reader() {
        let view = |kind: &str, left| {
            shared_availability(&[bytes("OK"), bytes(kind), Reply::Int(left)]).map_err(|error| error.kind())
        };
        assert_eq!(Ok(Availability::Free), view("none", -2));
        assert_eq!(Ok(Availability::Free), view("zset", 900));
        assert_eq!(Ok(Availability::Taken(Some(Duration::from_millis(900)))), view("string", 900));
        assert_eq!(Ok(Availability::Free), view("string", -2), "it has just expired");
        let denied = [bytes("OK"), error("NOPERM no permission"), Reply::Int(900)];
        assert_eq!(Err(NodeErrorKind::Rejected), kind(shared_availability(&denied)));
        assert_eq!(Err(NodeErrorKind::Unknown), kind(shared_availability(&[bytes("OK")])));
    }

    #[test]
    fn set_without_get_returns_the_result_and_get_the_holder() {
        assert_eq!(Ok(node::Reply::Denied(Denial::default())), kind(set(&Reply::Nil)));
        assert_eq!(Ok(node::Reply::Granted), kind(set(&bytes("OK"))));
        assert_eq!(Err(NodeErrorKind::Rejected), kind(set(&error("OOM command not allowed"))));
        assert_eq!(Err(NodeErrorKind::Unknown), kind(set(&bytes("QUEUED"))));
        assert_eq!(Ok(node::Reply::Denied(Denial::of_gone_key())), kind(get(Reply::Nil, &claim())));
        assert_eq!(Ok(node::Reply::Granted), kind(get(bytes("mine"), &claim())));
        assert_eq!(Ok(denied_by("other")), kind(get(bytes("other"), &claim())));
    }

    #[test]
    fn scripts_return_numbers_and_reasons() {
        let outcome = |reply| vote(&reply, &claim());
        assert_eq!(Ok(node::Reply::Granted), kind(outcome(Reply::Int(1))));
        assert_eq!(Ok(node::Reply::Granted), kind(outcome(Reply::Int(2))));
        assert_eq!(Ok(node::Reply::Denied(Denial::default())), kind(outcome(Reply::Int(0))));
        let held = |left| Reply::Array(vec![Reply::Int(0), bytes("other"), Reply::Int(left)]);
        let denial = Denial::by(Token::from_bytes("other"));
        assert_eq!(Ok(node::Reply::Denied(denial.clone())), kind(outcome(held(-1))));
        let expiring = denial.expiring_in(Duration::from_millis(70));
        assert_eq!(Ok(node::Reply::Denied(expiring)), kind(outcome(held(70))));
        let waiting = |rank, waiters| {
            let [rank, waiters] = [rank, waiters].map(Reply::Int);
            outcome(Reply::Array(vec![Reply::Int(0), bytes("other"), Reply::Int(-1), rank, waiters]))
        };
        let third = Denial::by(Token::from_bytes("other")).at(Position::new(3, 7));
        assert_eq!(Ok(node::Reply::Denied(third)), kind(waiting(3, 7)));
        for (rank, waiters) in [(0, 7), (8, 7), (-1, -1), (1, i64::MAX)] {
            assert_eq!(Err(NodeErrorKind::Unknown), kind(waiting(rank, waiters)));
        }
        let wrong = outcome(Reply::Array(vec![Reply::Int(-1), Reply::Int(2)])).unwrap_err();
        assert_eq!(NodeErrorKind::WrongType, wrong.kind());
        assert!(wrong.to_string().contains("\"b\""), "{wrong}");
        for odd in [3, 0, -7, i64::MIN] {
            let odd = Reply::Array(vec![Reply::Int(-1), Reply::Int(odd)]);
            assert_eq!(Err(NodeErrorKind::Unknown), kind(outcome(odd)));
        }
        assert_eq!(Err(NodeErrorKind::Unknown), kind(outcome(Reply::Int(-1))));
        assert_eq!(Err(NodeErrorKind::Unknown), kind(outcome(Reply::Nil)));
    }

    #[test]
    fn an_unexpected_reply_is_truncated_in_messages() {
        let wide = Reply::Array(vec![bytes("hunter2"); 1_000]);
        let nested = Reply::Array(vec![wide.clone(), error(&"x".repeat(5_000))]);
        for odd in [wide, nested] {
            let message = vote(&odd, &claim()).unwrap_err().to_string();
            assert!(message.len() < 300, "{} bytes", message.len());
            assert!(format!("{odd:?}").len() < 1_000);
        }
    }

    #[test]
    fn counters_and_grants_are_read() {
        let token = |number| FencingToken::new(number).unwrap();
        let fenced = |reply| kind(fenced_vote(&reply, &claim()));
        let confirmed = |reply| kind(confirm_vote(&reply, &claim()));
        assert_eq!(Ok(node::Reply::Counted(token(42))), fenced(bytes("42")));
        assert_eq!(Ok(node::Reply::Superseded(token(42))), confirmed(bytes("42")));
        assert_eq!(Ok(node::Reply::Granted), confirmed(Reply::Int(1)));
        assert_eq!(Ok(node::Reply::Denied(Denial::default())), confirmed(Reply::Int(0)));
        let held = || Reply::Array(vec![Reply::Int(0), bytes("other"), Reply::Int(-1)]);
        let denial = Denial::by(Token::from_bytes("other"));
        assert_eq!(Ok(node::Reply::Denied(denial.clone())), fenced(held()));
        assert_eq!(Ok(node::Reply::Denied(denial)), confirmed(held()));
        for odd in ["", "0", "-1", "1e3", "9007199254740992", "mine"] {
            assert_eq!(Err(NodeErrorKind::Unknown), fenced(bytes(odd)));
            assert_eq!(Err(NodeErrorKind::Unknown), confirmed(bytes(odd)));
        }
        assert_eq!(Ok(node::Reply::Counted(token(42))), fenced(Reply::Int(42)));
        for odd in [-4, 1 << 53, i64::MAX] {
            assert_eq!(Err(NodeErrorKind::Unknown), fenced(Reply::Int(odd)));
        }
        let wrong = fenced_vote(&Reply::Array(vec![Reply::Int(-2), Reply::Int(2)]), &claim()).unwrap_err();
        assert_eq!(NodeErrorKind::DamagedCounter, wrong.kind());
        assert!(wrong.to_string().contains("the fencing counter of \"b\" is not a number"), "{wrong}");
    }

    #[test]
    fn a_number_ahead_of_the_clock_is_rejected_with_its_distance() {
        let far = |position, number: &str, seconds| {
            Reply::Array(vec![Reply::Int(-3), Reply::Int(position), bytes(number), Reply::Int(seconds)])
        };
        let fenced = |reply: &Reply| fenced_vote(reply, &claim()).unwrap_err();
        let confirmed = |reply: &Reply| confirm_vote(reply, &claim()).unwrap_err();
        for error_of in [&fenced as &dyn Fn(&Reply) -> NodeError, &confirmed] {
            let error = error_of(&far(2, "9007199254740991", 90_000));
            assert_eq!(NodeErrorKind::DamagedCounter, error.kind());
            let text =
                "the fencing counter of \"b\", 9007199254740991, is 90000s ahead of the server's clock";
            assert!(error.to_string().starts_with(text), "{error}");
            let error = error_of(&far(0, "42", 86_500));
            assert_eq!(NodeErrorKind::Rejected, error.kind());
            assert!(error.to_string().starts_with("the fencing token 42 is 86500s ahead"), "{error}");
            for odd in [far(3, "42", 1), far(-1, "42", 1), far(1, "no", 1), far(i64::MIN, "42", 1)] {
                assert_eq!(NodeErrorKind::Unknown, error_of(&odd).kind());
            }
        }
    }

    #[test]
    fn an_inspection_returns_the_holder_and_the_remaining_time() {
        let outcome = |reply| kind(holding(reply, &claim().resources()[1]));
        let entry = |entry| Ok(node::Reply::Held(entry));
        let held_with = |left, waiters| {
            Reply::Array(vec![Reply::Int(0), bytes("other"), Reply::Int(left), Reply::Int(waiters)])
        };
        let held = |left| held_with(left, -1);
        let free = |waiters| outcome(Reply::Array(vec![Reply::Int(0), Reply::Int(waiters)]));
        let other = || LockEntry::of(Token::from_bytes("other"));
        assert_eq!(Ok(node::Reply::Free { waiters: None }), free(-1), "no permission to count them");
        assert_eq!(Ok(node::Reply::Free { waiters: Some(0) }), free(0));
        assert_eq!(entry(other().expiring_in(Duration::from_millis(70))), outcome(held(70)));
        assert_eq!(entry(other().expiring_in(Duration::ZERO)), outcome(held(0)));
        assert_eq!(entry(other()), outcome(held(-1)), "the key never expires");
        assert_eq!(entry(other().with_waiters(7)), outcome(held_with(-1, 7)));
        let wrong = holding(Reply::Array(vec![Reply::Int(-1), Reply::Int(1)]), &claim().resources()[1]);
        let wrong = wrong.unwrap_err();
        assert_eq!(NodeErrorKind::WrongType, wrong.kind());
        assert!(wrong.to_string().contains("\"b\""), "{wrong}");
        assert_eq!(Err(NodeErrorKind::Rejected), outcome(error("NOPERM no")));
        for odd in
            [Reply::Nil, Reply::Int(0), Reply::Int(1), bytes("hunter2"), Reply::Array(vec![bytes("hunter2")])]
        {
            let odd = holding(odd, &claim().resources()[0]).unwrap_err();
            assert_eq!(NodeErrorKind::Unknown, odd.kind());
            assert!(!odd.to_string().contains("hunter2"), "{odd}");
        }
    }

    #[test]
    fn an_armed_watch_returns_the_availability_and_the_remaining_time() {
        let outcome = |replies: &[Reply]| availability(replies).map_err(|error| error.kind());
        let tracked = |left| outcome(&[bytes("OK"), Reply::Int(left)]);
        assert_eq!(Ok(Availability::Free), tracked(-2));
        assert_eq!(Ok(Availability::Taken(None)), tracked(-1), "the key never expires");
        assert_eq!(Ok(Availability::Taken(Some(Duration::ZERO))), tracked(0));
        assert_eq!(Ok(Availability::Taken(Some(Duration::from_millis(70)))), tracked(70));
        let rejected = Err(NodeErrorKind::Rejected);
        assert_eq!(
            rejected,
            outcome(&[error("NOPERM no"), Reply::Int(70)]),
            "notifications would be missing"
        );
        assert_eq!(rejected, outcome(&[bytes("OK"), error("NOPERM no")]));
        assert_eq!(Err(NodeErrorKind::Unknown), outcome(&[bytes("OK"), Reply::Nil]));
        assert_eq!(Err(NodeErrorKind::Unknown), outcome(&[bytes("OK")]));
    }

    #[test]
    fn a_failure_is_unknown_only_if_the_request_was_sent() {
        let kind = |sent| unanswered(&Failure { sent, message: "gone".into() }).kind();
        assert_eq!(NodeErrorKind::Unavailable, kind(Sent::No));
        assert_eq!(NodeErrorKind::Unknown, kind(Sent::Maybe));
    }

    #[test]
    fn arguments_of_commands_are_never_published() {
        let message = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'me' 'hunter2'";
        for shown in [
            rejected(message).to_string(),
            unanswered(&Failure { sent: Sent::No, message: message.into() }).to_string(),
        ] {
            assert_eq!("ERR unknown command 'HELLO'", shown);
        }
        let shown = format!("{0} {0:?}", vote(&Reply::Array(vec![bytes("hunter2")]), &claim()).unwrap_err());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
