//! Who has a resource, without taking it.
//!
//! One question to all nodes, decided in [`sight`](crate::decide::sight) as soon as it can be. What a node says is as old
//! as its answer, so the time since the question was sent is taken off what a holder has left.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::background::{Verdict, drive};
use crate::calls::Calls;
use crate::decide::sight::{Conclusion, conclude};
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::observe::Operation;
use crate::report::{NodeReport, NodeReports};
use crate::resource::Resource;
use crate::round::Ballots;
use crate::shared::Shared;
use crate::token::{Fingerprint, Token};

/// What the nodes say about who has a resource. See [`Redlock::inspect`](crate::Redlock::inspect).
#[derive(Clone, Debug)]
pub struct Inspection {
    resource: Resource,
    finding: Finding,
    holder: Option<Token>,
    nodes: NodeReports,
}

/// Who has a resource, as a quorum of nodes sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Nobody: a quorum has nothing under the name, so that a lock asked for now can be won.
    Free,
    /// Somebody: a quorum has the same token under the name.
    #[non_exhaustive]
    Held {
        /// Whose token, as a fingerprint, with the [owner's label](Fingerprint::owner) if there is one.
        by: Fingerprint,
        /// For how long at least, unless it is released before. `None` when it never expires, as another program may
        /// have it.
        remaining: Option<Duration>,
    },
    /// Neither: the nodes disagree, or too few of those that agree could be asked. An attempt is under way or is being
    /// undone, or nodes have lost data. [`Inspection::nodes`] says who has it where.
    Undecided,
}

impl Inspection {
    /// What was inspected.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Who has it.
    pub fn finding(&self) -> &Finding {
        &self.finding
    }

    /// Whether a quorum says that nobody has it.
    pub fn is_free(&self) -> bool {
        self.finding == Finding::Free
    }

    /// Who has it, where a quorum says the same.
    pub fn holder(&self) -> Option<&Fingerprint> {
        match &self.finding {
            Finding::Held { by, .. } => Some(by),
            _ => None,
        }
    }

    /// For how long it is held at least, unless it is released before, counted from when this was answered. `None` where
    /// nobody has it, the nodes disagree, or it never expires.
    pub fn remaining(&self) -> Option<Duration> {
        match self.finding {
            Finding::Held { remaining, .. } => remaining,
            _ => None,
        }
    }

    /// Whether the holder is this very lease.
    pub fn is_held_by(&self, lease: &Lease) -> bool {
        self.holder.as_ref() == Some(lease.claim().token())
    }

    /// What every node said, in the order in which the nodes were configured. Nodes that had not answered when a quorum
    /// had are pending.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.nodes
    }
}

/// `"invoice:42" is held by host-1:4242#9c01a7f2 for at least 8.9s`, `"invoice:42" is free`, or who has it where.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, finding, holder, nodes } = self;
        match holder {
            Some(holder) => write!(f, "{resource:?} is held by {holder}")?,
            None if self.is_free() => write!(f, "{resource:?} is free")?,
            None => write!(f, "who holds {resource:?} is undecided: {nodes}")?,
        }
        match finding {
            Finding::Held { remaining: Some(left), .. } => write!(f, " for at least {left:.1?}"),
            Finding::Held { remaining: None, .. } => f.write_str(" without expiry"),
            _ => Ok(()),
        }
    }
}

pub(crate) async fn inspect(shared: &Arc<Shared>, resource: Resource) -> Result<Inspection, Error> {
    shared.check_names(std::slice::from_ref(&resource))?;
    let able = shared.members.iter().filter(|member| member.node.capabilities().inspect).count();
    if able < shared.quorum() {
        let (nodes, quorum) = (shared.members.len(), shared.quorum());
        let message = format!("{able} of {nodes} nodes can be inspected, {quorum} must");
        return Err(Error::new(ErrorKind::Unsupported, message, NodeReports::default()));
    }
    // Driven to its end also when a quorum was sooner: a request that is dropped looks like one that is not answered.
    drive(shared, |verdict| everywhere(Arc::clone(shared), resource, verdict)).await
}

async fn everywhere(shared: Arc<Shared>, resource: Resource, verdict: Verdict<Result<Inspection, Error>>) {
    let start = shared.now();
    let calls = shared.members.iter().map(|member| member.node.inspect(&resource));
    let mut calls = Calls::new(&*shared.runtime, start, shared.settings.node_timeout, calls);
    let mut ballots = Ballots::new(start, shared.members.len());
    let mut verdict = Some(verdict);
    while let Some((index, ending)) = calls.next().await {
        ballots.cast(index, ending.into(), Operation::Inspect, calls.seen(), &shared);
        if let Some(result) = verdict.as_ref().and_then(|_| result(&resource, &ballots, &shared)) {
            if let Some(verdict) = verdict.take() {
                verdict.send(result);
            }
        }
    }
}

/// What the nodes have said, once that is certain.
fn result(resource: &Resource, ballots: &Ballots, shared: &Shared) -> Option<Result<Inspection, Error>> {
    let sights = ballots.sights();
    let (finding, holder) = match conclude(&sights, shared.quorum()) {
        Conclusion::Open => return None,
        Conclusion::NoQuorum => {
            let (kind, message) = ballots.no_quorum(format_args!("inspect {resource:?}"), shared);
            return Some(Err(ballots.error(kind, message, shared)));
        }
        Conclusion::Free => (Finding::Free, None),
        Conclusion::Undecided => (Finding::Undecided, None),
        Conclusion::Held(token, remaining) => {
            let passed = shared.now().saturating_duration_since(ballots.start);
            let remaining = remaining.map(|left| left.saturating_sub(passed));
            (Finding::Held { by: token.fingerprint(), remaining }, Some(token.clone()))
        }
    };
    let nodes = NodeReports(ballots.reports(shared));
    Some(Ok(Inspection { resource: resource.clone(), finding, holder, nodes }))
}
