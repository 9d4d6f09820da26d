//! The resources that the locks of an experiment protect. They check fencing tokens, and are reached over the network.
//!
//! A resource checks and writes in one step. A holder's message is in flight for a while, sometimes for longer than the
//! TTL of its lock. It arrives regardless of the state of the holder.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_channel::oneshot;
use redlock_core::FencingToken;
use redlock_core::runtime::Runtime;
use redlock_testkit::sim::Process;

use crate::history::{EventKind, Recorder, TokenNumber};

#[derive(Clone)]
pub(in crate::experiment) struct Protected(Arc<Shared>);

struct Shared {
    machine: Process,
    recorder: Recorder,
    rows: Mutex<Vec<Row>>,
}

#[derive(Clone, Default)]
struct Row {
    /// The greatest token received.
    fence: Option<FencingToken>,
    /// The number of accepted writes.
    writes: u64,
}

/// The sender of a write, and its lock.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) client: usize,
    pub(super) token: TokenNumber,
    pub(super) fence: FencingToken,
}

impl Protected {
    pub(in crate::experiment) fn new(machine: Process, recorder: Recorder, resources: usize) -> Self {
        Self(Arc::new(Shared { machine, recorder, rows: Mutex::new(vec![Row::default(); resources]) }))
    }

    /// Sends the holder's fencing token, or a write with it that follows `seen`. Returns whether it was accepted.
    pub(super) fn write(
        &self,
        holder: Holder,
        resource: usize,
        seen: Option<u64>,
        delays: [Duration; 2],
    ) -> oneshot::Receiver<bool> {
        let me = self.clone();
        self.call(delays, move || me.arrives(holder, resource, seen))
    }

    /// Reads the number of writes.
    pub(super) fn read(&self, resource: usize, delays: [Duration; 2]) -> oneshot::Receiver<u64> {
        let me = self.clone();
        self.call(delays, move || me.rows()[resource].writes)
    }

    fn arrives(&self, holder: Holder, resource: usize, seen: Option<u64>) -> bool {
        let Holder { client, token, fence } = holder;
        let mut rows = self.rows();
        let row = &mut rows[resource];
        let accepted = row.fence.is_none_or(|greatest| greatest <= fence);
        if accepted {
            row.fence = Some(fence);
            row.writes += u64::from(seen.is_some());
        }
        drop(rows);
        self.0.recorder.record(EventKind::Wrote { client, resource, token, fence, seen, accepted });
        accepted
    }

    /// Runs work at the resource after a delay, and replies after another delay.
    fn call<T: Send + 'static>(
        &self,
        [there, back]: [Duration; 2],
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let machine = self.0.machine.clone();
        self.0.machine.spawn(Box::pin(async move {
            machine.sleep(there).await;
            let result = work();
            machine.sleep(back).await;
            // The holder may have dropped the call, or crashed.
            drop(sender.send(result));
        }));
        receiver
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
