//! The writes of a holder to the protected resource: its fencing token first, then the value that it has read, changed.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use futures_channel::oneshot;
use redlock_core::FencingToken;
use redlock_core::runtime::Runtime;
use redlock_testkit::sim::Process;

use super::program::{Program, micros, within};
use super::protected::{Holder, Protected};
use crate::history::TokenNumber;

/// The time that a holder waits for a reply of the resource.
const PATIENCE: Duration = Duration::from_millis(500);

/// A lease with a fencing token, and the resources that it protects.
pub(super) struct Writer {
    protected: Protected,
    process: Process,
    holder: Holder,
    /// The resources to which it has written its fencing token.
    announced: BTreeSet<usize>,
    reads_first: bool,
}

impl Writer {
    /// Returns `None` for a lease without a fencing token.
    pub(super) fn new(program: &Program, token: TokenNumber, fence: Option<FencingToken>) -> Option<Self> {
        let shared = &program.client.0;
        let (client, protected) = (shared.number, shared.protected.clone()?);
        let holder = Holder { client, token, fence: fence? };
        let (process, reads_first) = (program.process.clone(), shared.behavior.reads_first);
        Some(Self { protected, process, holder, announced: BTreeSet::new(), reads_first })
    }

    /// Changes a resource once. Stops without a reply, or after a rejection.
    ///
    /// Returns whether the resource accepted it; `None` without a reply.
    pub(super) async fn change(&mut self, resource: usize, pace: &mut Pace<'_>) -> Option<bool> {
        if !self.reads_first && !self.announced.contains(&resource) {
            let reply = self.protected.write(self.holder, resource, None, pace.delays());
            let accepted = self.reply(reply).await;
            if accepted != Some(true) {
                return accepted;
            }
            self.announced.insert(resource);
        }
        let reply = self.protected.read(resource, pace.delays());
        let seen = self.reply(reply).await?;
        self.process.sleep(pace.think_time()).await;
        let reply = self.protected.write(self.holder, resource, Some(seen), pace.delays());
        self.reply(reply).await
    }

    fn reply<T>(&self, reply: oneshot::Receiver<T>) -> impl Future<Output = Option<T>> {
        let patience = within(&self.process, PATIENCE, reply);
        async { patience.await?.ok() }
    }
}

/// The delays between a holder and the resource, and the time between its read and its write.
pub(super) enum Pace<'a> {
    /// They are drawn. Some messages are in flight for longer than a TTL.
    Random(&'a mut fastrand::Rng),
    /// They are short, and always the same.
    Even,
}

impl Pace<'_> {
    /// Returns the delays of the request and the reply.
    fn delays(&mut self) -> [Duration; 2] {
        let Self::Random(chance) = self else { return [Duration::from_millis(2); 2] };
        let there =
            if chance.u32(..6) == 0 { micros(chance, 0, 6_000_000) } else { micros(chance, 0, 20_000) };
        [there, micros(chance, 0, 20_000)]
    }

    fn think_time(&mut self) -> Duration {
        let Self::Random(chance) = self else { return Duration::ZERO };
        micros(chance, 0, 300_000)
    }
}
