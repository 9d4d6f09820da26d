//! The meaning of a command for the history: the operation, and what the server has decided.
//!
//! It is independent of the library, except for the names of the scripts.

use std::collections::HashMap;
use std::sync::LazyLock;

use redlock_core::FencingToken;
use redlock_server::{Reply, sha1};
use redlock_testkit::Operation;
use redlock_wire::fuzzing::scripts;

use crate::history;

/// The beginning of the keys that are no locks: counters and the stamp.
pub(crate) const RESERVED: &[u8] = b"redlock:";

/// A command about a claim.
pub(crate) struct Effect {
    pub(crate) operation: Operation,
    pub(crate) token: Vec<u8>,
    /// The keys of the claim.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) reply: history::Reply,
}

/// The names of the scripts by their sums.
static SCRIPTS: LazyLock<HashMap<String, &'static str>> =
    LazyLock::new(|| scripts().into_iter().map(|(name, text)| (sha1(text), name)).collect());

impl Effect {
    /// Returns the meaning of a command; `None` if it is not about a claim.
    pub(crate) fn of(command: &[Vec<u8>], reply: &Reply) -> Option<Self> {
        let effect = Self::of_any(command, reply)?;
        // A handshake may try commands on a key that is no lock.
        effect.keys.iter().all(|key| !key.starts_with(RESERVED)).then_some(effect)
    }

    fn of_any(command: &[Vec<u8>], reply: &Reply) -> Option<Self> {
        let (name, args) = command.split_first()?;
        match (name.as_slice(), args) {
            (b"SET", [key, token, ..]) => {
                let reply = match reply {
                    Reply::Error(_) => history::Reply::Failed,
                    // With `GET` and without it.
                    Reply::Nil if args.last().is_some_and(|word| word == b"GET") => history::Reply::Granted,
                    Reply::Status(_) => history::Reply::Granted,
                    Reply::Bulk(held) if held == token => history::Reply::Granted,
                    _ => history::Reply::Denied,
                };
                Some(Self {
                    operation: Operation::Acquire,
                    token: token.clone(),
                    keys: vec![key.clone()],
                    reply,
                })
            }
            (b"DELIFEQ", [key, token]) | (b"DELEX", [key, _, token]) => {
                let (keys, reply) = (vec![key.clone()], vote(reply));
                Some(Self { operation: Operation::Release, token: token.clone(), keys, reply })
            }
            (b"EVAL" | b"EVALSHA", [script, count, rest @ ..]) => {
                let text = std::str::from_utf8(script).ok()?;
                let sum = if name == b"EVAL" { sha1(text) } else { text.to_owned() };
                let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
                let (keys, args) = rest.split_at(count.min(rest.len()));
                of_script(SCRIPTS.get(&sum)?, keys, args.first()?, reply)
            }
            _ => None,
        }
    }
}

fn of_script(name: &str, keys: &[Vec<u8>], token: &[u8], reply: &Reply) -> Option<Effect> {
    // The order of waiters changes neither the claim nor the votes.
    let name = name.strip_suffix("_in_turn").unwrap_or(name);
    let is_counted = matches!(name, "acquire_fenced" | "confirm" | "refill");
    let (operation, keys) = match name {
        "acquire" => (Operation::Acquire, keys),
        "acquire_fenced" | "refill" => (Operation::Acquire, &keys[..keys.len() / 2]),
        // Behind them is the gate.
        "share" => (Operation::Acquire, keys.split_last()?.1),
        "extend" => (Operation::Extend, keys),
        "confirm" => (Operation::Confirm, &keys[..keys.len() / 2]),
        "keep" => (Operation::Keep, keys),
        "release" => (Operation::Release, keys),
        _ => return None,
    };
    let reply = match counter(reply).filter(|_| is_counted) {
        Some(counter) if name == "acquire_fenced" => history::Reply::Counted(counter),
        Some(counter) => history::Reply::Superseded(counter),
        None => vote(reply),
    };
    Some(Effect { operation, token: token.to_vec(), keys: keys.to_vec(), reply })
}

fn vote(reply: &Reply) -> history::Reply {
    match reply {
        Reply::Error(_) => history::Reply::Failed,
        // A release returns the number of keys.
        Reply::Int(1..) => history::Reply::Granted,
        // A key of another type, or a damaged counter.
        Reply::Array(parts) if matches!(parts.first(), Some(Reply::Int(..0))) => history::Reply::Failed,
        _ => history::Reply::Denied,
    }
}

/// Reads a counter: a text, or a number above those of votes.
fn counter(reply: &Reply) -> Option<FencingToken> {
    match reply {
        Reply::Bulk(digits) => FencingToken::new(std::str::from_utf8(digits).ok()?.parse().ok()?),
        Reply::Int(number @ 2..) => FencingToken::new(u64::try_from(*number).ok()?),
        _ => None,
    }
}
