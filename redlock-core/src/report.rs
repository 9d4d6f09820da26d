//! What each node said in a round: for errors, for a guard's votes, for health and inspection.

use std::fmt;
use std::time::Duration;

use crate::fencing::FencingToken;
use crate::node::{Holding, NodeError, Refusal};
use crate::token::Token;

/// What one node said.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub(crate) index: usize,
    pub(crate) label: String,
    pub(crate) outcome: Outcome,
    pub(crate) latency: Duration,
    pub(crate) same_server_as: Option<(usize, String)>,
}

/// How a request to one node ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The node said yes.
    Granted,
    /// The node said no.
    Refused(Refusal),
    /// The node said yes to a fenced lock, and its counter is at this number.
    Counted(FencingToken),
    /// The node has the lock, and a newer fenced one has counted there up to this number: it does not count any more.
    Superseded(FencingToken),
    /// The node has nothing under the resource: what an inspection found.
    Free,
    /// The node has this under the resource: what an inspection found.
    Held(Holding),
    /// There was no answer; the error says why.
    Failed(NodeError),
    /// The node did not answer within the node timeout.
    TimedOut,
    /// The node had not answered yet when the round was decided.
    Pending,
}

impl NodeReport {
    /// The node's position in the configuration, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The node's label, such as `10.0.0.1:6379`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How the request ended.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// From the round's first send to the outcome, or to the report while it is pending.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// The first node that turned out to be the same server, as index and label: the two have one vote.
    pub fn same_server_as(&self) -> Option<(usize, &str)> {
        self.same_server_as.as_ref().map(|(index, label)| (*index, label.as_str()))
    }
}

/// `node 2 (10.0.0.3:6379): timed out after 50ms`
impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, label, outcome, latency, same_server_as } = self;
        write!(f, "node {index} ({label}): ")?;
        match outcome {
            Outcome::Granted => write!(f, "granted after {latency:.1?}")?,
            Outcome::Refused(Refusal { holder: Some(holder), .. }) => {
                write!(f, "refused after {latency:.1?}, held by {holder}")?;
            }
            Outcome::Refused(_) => write!(f, "refused after {latency:.1?}")?,
            Outcome::Counted(counter) => write!(f, "granted, with {counter}, after {latency:.1?}")?,
            Outcome::Superseded(counter) => write!(f, "superseded by {counter} after {latency:.1?}")?,
            Outcome::Free => write!(f, "free after {latency:.1?}")?,
            Outcome::Held(Holding { token, remaining: Some(left) }) => {
                write!(f, "held by {token} for {left:.1?} after {latency:.1?}")?;
            }
            Outcome::Held(Holding { token, remaining: None }) => {
                write!(f, "held by {token} without expiry after {latency:.1?}")?;
            }
            Outcome::Failed(error) => write!(f, "{error} (after {latency:.1?})")?,
            Outcome::TimedOut => write!(f, "timed out after {latency:.1?}")?,
            Outcome::Pending => write!(f, "no answer yet after {latency:.1?}")?,
        }
        match same_server_as {
            Some((index, label)) => write!(f, " [the same server as node {index} ({label})]"),
            None => Ok(()),
        }
    }
}

/// Who holds what was refused: the token that most nodes named.
pub(crate) fn holder<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Option<&'a Token> {
    let named = outcomes.filter_map(|outcome| match outcome {
        Outcome::Refused(refusal) => refusal.holder.as_ref(),
        _ => None,
    });
    let votes = |token: &Token| named.clone().filter(|other| *other == token).count();
    named.clone().max_by_key(|token| votes(token))
}

/// The reports of all nodes, as the source of an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeReports(pub(crate) Vec<NodeReport>);

impl std::ops::Deref for NodeReports {
    type Target = [NodeReport];

    fn deref(&self) -> &[NodeReport] {
        &self.0
    }
}

impl fmt::Display for NodeReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, report) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}{report}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NodeReports {}
