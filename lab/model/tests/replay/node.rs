//! Nodes that do nothing by themselves: what becomes of a call is the script's to say.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use redlock_core::{
    Claim, ConnectionId, Denial, Instant, LockNode, NodeError, Runtime, Token, Ttl, Vote, async_trait,
};
use redlock_model::{CLIENTS, NODES};

pub(crate) type Answer = Result<Vote, NodeError>;

/// What core asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    Extend,
    Release,
}

/// A call that core has made.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) operation: Operation,
    pub(crate) token: Token,
    /// By the client's clock.
    pub(crate) begun: Instant,
    /// How many calls were made before.
    pub(crate) number: usize,
    /// The last round of the lease when it was made; noted after the step.
    pub(crate) round: Option<usize>,
    answer: Option<oneshot::Sender<Answer>>,
}

impl Call {
    /// Whether core waits for the answer.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_canceled())
    }

    pub(crate) fn end(&mut self, answer: Answer) {
        if let Some(sender) = self.answer.take() {
            drop(sender.send(answer));
        }
    }
}

/// All calls of all clients, and what the nodes have.
pub(crate) struct Script {
    pub(crate) calls: Vec<Call>,
    pub(crate) keys: [Option<Token>; NODES],
    /// Counts connections, where there are any.
    pub(crate) connections: Option<[[u64; NODES]; CLIENTS]>,
}

impl Script {
    /// Carries a request out, by the contract of a node.
    pub(crate) fn carry_out(&mut self, node: usize, operation: Operation, token: &Token) -> Vote {
        let key = &mut self.keys[node];
        let ours = key.as_ref() == Some(token);
        let granted = match operation {
            Operation::Acquire => ours || key.is_none(),
            Operation::Extend | Operation::Release => ours,
        };
        match operation {
            Operation::Acquire if granted => *key = Some(token.clone()),
            Operation::Release if granted => *key = None,
            _ => {}
        }
        if granted { Vote::Granted } else { Vote::Denied(Denial::default()) }
    }
}

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
    async fn call(&self, operation: Operation, claim: &Claim) -> Answer {
        let (sender, answer) = oneshot::channel();
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
                answer: Some(sender),
            });
        }
        match answer.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => pending().await,
        }
    }
}

#[async_trait]
impl LockNode for ScriptedNode {
    fn label(&self) -> &str {
        &self.label
    }

    async fn acquire(&self, claim: &Claim, _: Ttl) -> Answer {
        self.call(Operation::Acquire, claim).await
    }

    async fn extend(&self, claim: &Claim, _: Ttl) -> Answer {
        self.call(Operation::Extend, claim).await
    }

    async fn release(&self, claim: &Claim) -> Answer {
        self.call(Operation::Release, claim).await
    }

    fn connection(&self) -> Option<ConnectionId> {
        locked(&self.script).connections.map(|connections| ConnectionId(connections[self.client][self.node]))
    }
}
