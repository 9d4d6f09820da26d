//! Scripted nodes, for which the test decides the outcome of every call.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use redlock_core::node::{
    Admission, AdmissionId, Begun, Claim, ConnectionId, Denial, Exchange, LockNode, NodeError, Quarantine,
    QuarantineReason, Reply, Request, Status, Token,
};
use redlock_core::runtime::{Instant, Runtime};
use redlock_model::{CLIENTS, NODES};

pub(crate) type Outcome = Result<Reply, NodeError>;

/// The operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    Extend,
    Release,
}

/// A call made by the core.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) operation: Operation,
    pub(crate) token: Token,
    /// The start of the call, by the clock of the client.
    pub(crate) begun: Instant,
    /// The number of earlier calls.
    pub(crate) number: usize,
    /// The last round of the lease at the time of the call, recorded after the step.
    pub(crate) round: Option<usize>,
    reply: Option<oneshot::Sender<Outcome>>,
}

impl Call {
    /// Returns true if the core waits for the reply.
    pub(crate) fn is_open(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_canceled())
    }

    pub(crate) fn end(&mut self, reply: Outcome) {
        if let Some(sender) = self.reply.take() {
            drop(sender.send(reply));
        }
    }
}

/// All calls of all clients, and the keys on the nodes.
pub(crate) struct Script {
    pub(crate) calls: Vec<Call>,
    pub(crate) keys: [Option<Token>; NODES],
    /// The connection numbers, if there are connections.
    pub(crate) connections: Option<[[u64; NODES]; CLIENTS]>,
    /// The client and the node whose votes do not count at this moment.
    pub(crate) quarantined: Option<(usize, usize)>,
}

impl Script {
    /// Carries a request out according to the contract of a node.
    pub(crate) fn carry_out(&mut self, node: usize, operation: Operation, token: &Token) -> Reply {
        let key = &mut self.keys[node];
        let is_owner = key.as_ref() == Some(token);
        let granted = match operation {
            Operation::Acquire => is_owner || key.is_none(),
            Operation::Extend | Operation::Release => is_owner,
        };
        match operation {
            Operation::Acquire if granted => *key = Some(token.clone()),
            Operation::Release if granted => *key = None,
            _ => {}
        }
        if granted { Reply::Granted } else { Reply::Denied(Denial::default()) }
    }
}

#[derive(Clone)]
pub(crate) struct ScriptedNode {
    pub(crate) script: Arc<Mutex<Script>>,
    pub(crate) clock: Arc<dyn Runtime>,
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) label: String,
}

pub(crate) fn locked(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedNode {
    fn admission(&self) -> Admission {
        if locked(&self.script).quarantined == Some((self.client, self.node)) {
            Admission::Quarantined(Quarantine::new(QuarantineReason::DataLost))
        } else {
            Admission::Admitted(AdmissionId(0))
        }
    }

    fn connection(&self) -> Option<ConnectionId> {
        locked(&self.script).connections.map(|connections| ConnectionId(connections[self.client][self.node]))
    }

    async fn send(&self, operation: Operation, claim: &Claim) -> Outcome {
        let (sender, reply) = oneshot::channel();
        {
            let mut script = locked(&self.script);
            let (client, node, token) = (self.client, self.node, claim.token().clone());
            let (begun, number) = (self.clock.now(), script.calls.len());
            script.calls.push(Call {
                client,
                node,
                operation,
                token,
                begun,
                number,
                round: None,
                reply: Some(sender),
            });
        }
        match reply.await {
            Ok(reply) => reply,
            Err(oneshot::Canceled) => pending().await,
        }
    }

    async fn reply_to(&self, request: &Request) -> Outcome {
        match request {
            Request::Acquire(claim, _) => self.send(Operation::Acquire, claim).await,
            Request::Extend(claim, _) => self.send(Operation::Extend, claim).await,
            Request::Release(claim) => {
                let reply = self.send(Operation::Release, claim).await?;
                Ok(Reply::Deleted(reply == Reply::Granted))
            }
            other => Err(NodeError::unsupported(other)),
        }
    }
}

impl LockNode for ScriptedNode {
    fn label(&self) -> &str {
        &self.label
    }

    fn status(&self) -> Status {
        let mut status = Status::default();
        status.connection = self.connection();
        if let Admission::Quarantined(quarantine) = self.admission() {
            status.quarantine = Some(quarantine);
        }
        status
    }

    fn begin(&self, request: &Request) -> Begun {
        let (node, request, before) = (self.clone(), request.clone(), self.admission());
        let reply = async move {
            let reply = node.reply_to(&request).await?;
            Ok(if request.is_vote() { before.judge(reply, node.admission()) } else { reply })
        };
        Begun::Sent(Exchange { connection: self.connection(), server: None, reply: Box::pin(reply) })
    }
}
