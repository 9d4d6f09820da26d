//! The serialized form of what users look at: flat, with text and numbers, and without tokens.
//!
//! Names of variants are those of the metrics. Durations are milliseconds, and the names of their fields end in `_ms`.
//! A holder is its fingerprint, with the owner label before it.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::lease_state::Loss;
use crate::types::quarantine::Quarantine;
use crate::types::report::{NodeReport, Outcome, ReleaseOutcome};
use crate::types::resource::Resource;
use crate::types::token::{Fingerprint, Token};

/// Returns a duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns a duration in whole milliseconds, rounded down.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

macro_rules! serialize_by_name {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

macro_rules! serialize_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

serialize_by_name!(ErrorKind, Loss, ReleaseOutcome);
serialize_as_text!(Fingerprint, Resource);

#[derive(Serialize)]
#[serde(rename = "Quarantine")]
struct QuarantineFields {
    reason: &'static str,
    remaining_ms: Option<u64>,
}

impl Serialize for Quarantine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let remaining_ms = self.remaining.map(whole_millis);
        QuarantineFields { reason: self.reason.name(), remaining_ms }.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "NodeReport")]
struct ReportFields<'a> {
    index: usize,
    label: &'a str,
    outcome: &'static str,
    latency_ms: f64,
    holder: Option<Fingerprint>,
    remaining_ms: Option<u64>,
    waiters: Option<u32>,
    fencing_counter: Option<FencingToken>,
    quarantine: Option<&'a Quarantine>,
    error: Option<String>,
    same_server_as: Option<&'a str>,
}

impl Serialize for NodeReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome();
        let (holder, remaining, waiters) = match outcome {
            Outcome::Denied(denial) => {
                let waiters = denial.position.map(|position| position.waiters);
                (denial.holder.as_ref(), denial.remaining, waiters)
            }
            Outcome::Held(entry) => (Some(&entry.token), entry.remaining, entry.waiters),
            Outcome::Free { waiters } => (None, None, *waiters),
            _ => (None, None, None),
        };
        ReportFields {
            index: self.index(),
            label: self.label(),
            outcome: outcome.name(),
            latency_ms: millis(self.latency()),
            holder: holder.map(Token::fingerprint),
            remaining_ms: remaining.map(whole_millis),
            waiters,
            fencing_counter: match outcome {
                Outcome::GrantedFenced(counter) | Outcome::Superseded(counter) => Some(*counter),
                _ => None,
            },
            quarantine: self.quarantine(),
            error: match outcome {
                Outcome::Failed(error) => Some(error.to_string()),
                _ => None,
            },
            same_server_as: self.same_server_as().map(|(_, label)| label),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "Error")]
struct ErrorFields<'a> {
    kind: ErrorKind,
    message: String,
    is_retryable: bool,
    holder: Option<Fingerprint>,
    remaining_ms: Option<u64>,
    rank: Option<u32>,
    waiters: Option<u32>,
    loss: Option<&'a Loss>,
    quarantine_ms: Option<u64>,
    nodes: &'a [NodeReport],
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ErrorFields {
            kind: self.kind(),
            message: self.to_string(),
            is_retryable: self.is_retryable(),
            holder: self.holder(),
            remaining_ms: self.remaining().map(whole_millis),
            rank: self.position().map(|position| position.rank),
            waiters: self.position().map(|position| position.waiters),
            loss: self.loss(),
            quarantine_ms: self.quarantine().map(whole_millis),
            nodes: self.node_reports(),
        }
        .serialize(serializer)
    }
}
