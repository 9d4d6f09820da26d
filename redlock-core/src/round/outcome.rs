//! The outcome that follows from the reply of a node.

use crate::node::{NodeError, Reply, Request};
use crate::types::report::Outcome;

/// Returns the outcome of a request.
///
/// The effect is unknown if the reply does not belong to the request.
pub(crate) fn outcome(result: Result<Reply, NodeError>, of: &Request) -> Outcome {
    use Request::{
        Acquire, AcquireFenced, AcquireShared, Confirm, Extend, Inspect, Keep, Refill, Release, Vouch,
    };

    let reply = match result {
        Ok(reply) => reply,
        Err(error) => return Outcome::Failed(error),
    };
    match (reply, of) {
        (
            Reply::Granted,
            Acquire(..) | Extend(..) | Confirm(..) | Refill(..) | AcquireShared(..) | Keep(..) | Vouch,
        ) => Outcome::Granted,
        (Reply::Counted(counter), AcquireFenced(..)) => Outcome::GrantedFenced(counter),
        (
            Reply::Denied(denial),
            Acquire(..) | Extend(..) | AcquireFenced(..) | Confirm(..) | Refill(..) | AcquireShared(..)
            | Keep(..),
        ) => Outcome::Denied(denial),
        (Reply::Superseded(counter), Confirm(..) | Refill(..)) => Outcome::Superseded(counter),
        (Reply::Deleted(true), Release(_)) => Outcome::Released,
        (Reply::Deleted(false), Release(_)) => Outcome::NotHeld,
        (Reply::Free { waiters }, Inspect(_)) => Outcome::Free { waiters },
        (Reply::Held(entry), Inspect(_)) => Outcome::Held(entry),
        (Reply::Quarantined(reply, quarantine), of) => match outcome(Ok(*reply), of) {
            Outcome::Failed(error) => Outcome::Failed(error),
            outcome => {
                let granted = matches!(outcome, Outcome::Granted | Outcome::GrantedFenced(_));
                Outcome::Quarantined { granted, quarantine }
            }
        },
        (reply, of) => Outcome::Failed(NodeError::unknown(format!(
            "the backend replied {reply:?} to a request of another kind ({})",
            of.operation()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::node::{Availability, Claim, Denial, NodeErrorKind, Token, Ttl, Watch};
    use crate::types::fencing_token::FencingToken;
    use crate::types::resource::{IntoResource, IntoResources};

    fn requests() -> Vec<Request> {
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes("mine"));
        let (a, one) = ("a".into_resource().unwrap(), FencingToken::new(1).unwrap());
        vec![
            Request::Acquire(claim.clone(), Ttl::MAX),
            Request::Extend(claim.clone(), Ttl::MAX),
            Request::Keep(claim.clone(), Ttl::MAX),
            Request::AcquireShared(claim.clone(), a.clone(), Ttl::MAX),
            Request::AcquireFenced(claim.clone(), Ttl::MAX),
            Request::Confirm(claim.clone(), Ttl::MAX, one),
            Request::Refill(claim.clone(), Ttl::MAX, one),
            Request::Release(claim),
            Request::Inspect(a.clone()),
            Request::Vouch,
            Request::Watch(a),
        ]
    }

    /// Returns the operations for which a reply is valid. The others must fail with an unknown effect.
    fn valid_for(reply: impl Fn() -> Reply) -> Vec<String> {
        let is_valid = |request: &Request| match outcome(Ok(reply()), request) {
            Outcome::Failed(error) => {
                assert_eq!(NodeErrorKind::Unknown, error.kind(), "{error}");
                false
            }
            _ => true,
        };
        requests().iter().filter(|request| is_valid(request)).map(ToString::to_string).collect()
    }

    #[test]
    fn a_reply_of_another_kind_is_an_error_with_an_unknown_effect() {
        let one = FencingToken::new(1).unwrap();
        let plain =
            ["acquire a lock", "extend a lock", "keep a lock for a time", "share a lock among readers"];
        let fenced = ["acquire with a fencing token"];
        let written = ["confirm a fencing token", "refill with a fencing token"];
        let vouch = ["vouch for its data"];
        assert_eq!([&plain[..], &written, &vouch].concat(), valid_for(|| Reply::Granted));
        assert_eq!(fenced[..], valid_for(|| Reply::Counted(one)));
        assert_eq!([&plain[..], &fenced, &written].concat(), valid_for(|| Reply::Denied(Denial::default())));
        assert_eq!(written[..], valid_for(|| Reply::Superseded(one)));
        assert_eq!(["release a lock"][..], valid_for(|| Reply::Deleted(true)));
        assert_eq!(["inspect"][..], valid_for(|| Reply::Free { waiters: None }));
        let watch = || Reply::Watching(Watch::new(Availability::Free, pending()));
        assert!(valid_for(watch).is_empty(), "a watch is no call of a round");
    }
}
