//! A client with a [`Script`]: one lock at a time, in the same way each time.

use std::time::Duration;

use redlock_core::kind::Owned;
use redlock_core::runtime::Runtime;
use redlock_core::{Error, Guard, KeepAlive, LockRequest};

use super::program::{Program, name};
use super::writer::{Pace, Writer};
use crate::experiment::Script;
use crate::history::{EventKind, TokenNumber};

/// The resource that all scripts lock.
const RESOURCE: usize = 0;

/// The time between two actions under a lock.
const STEP: Duration = Duration::from_millis(250);

impl Program {
    pub(super) async fn follow(&mut self, script: &Script) {
        self.rest(script.starts).await;
        while !self.client.is_closing() {
            if let Some((guard, token)) = self.request(script).await {
                self.work(script, &guard, token).await;
                self.end(guard, token, true).await;
            }
            let Some(rests) = script.rests else { return };
            self.rest(rests).await;
        }
    }

    async fn request(&self, script: &Script) -> Option<(Guard, TokenNumber)> {
        let (resources, Script { ttl, fenced, .. }) = (vec![RESOURCE], *script);
        self.record(EventKind::Requested {
            client: self.client.0.number,
            resources: resources.clone(),
            ttl,
            once: script.waits.is_none(),
            fenced,
        });
        let request = self.redlock.lock(name(RESOURCE), ttl);
        let result = if fenced {
            acquired(request.fenced(), script.waits).await
        } else {
            acquired(request, script.waits).await
        };
        self.granted(resources, Some(result))
    }

    /// Acts at intervals until the work is done, the loss of the lock is reported, or the resource rejects a write.
    async fn work(&mut self, script: &Script, guard: &Guard, token: TokenNumber) {
        let client = self.client.0.number;
        if script.renews {
            self.record(EventKind::KeepsAlive { client, token });
            guard.keep_alive(KeepAlive::new());
        }
        let mut known = self.until(guard);
        let mut writer = Writer::new(self, token, guard.fencing_token());
        let ends = self.process.now() + script.works;
        loop {
            let step = ends.saturating_duration_since(self.process.now()).min(STEP);
            if script.checks {
                if let Some(loss) = self.within(step, guard.lost()).await {
                    return self.record(EventKind::LossReported { client, token, loss });
                }
            } else {
                self.process.sleep(step).await;
            }
            if self.process.now() >= ends || self.client.is_closing() {
                return;
            }
            self.record_deadline(guard, token, &mut known);
            let Some(writer) = &mut writer else {
                self.record(EventKind::Acted { client, token });
                continue;
            };
            if writer.change(RESOURCE, &mut Pace::Even).await == Some(false) {
                return;
            }
        }
    }

    /// Waits, except if the program is to complete.
    async fn rest(&self, time: Duration) {
        let ends = self.process.now() + time;
        while self.process.now() < ends && !self.client.is_closing() {
            self.process.sleep(ends.saturating_duration_since(self.process.now()).min(STEP)).await;
        }
    }
}

/// Attempts once, or waits for this time.
async fn acquired<K: Owned>(
    request: LockRequest<K>,
    waits: Option<Duration>,
) -> Result<Option<Guard>, Error> {
    let guard = match waits {
        None => request.try_now().await?,
        Some(waits) => Some(request.max_wait(waits).await?),
    };
    Ok(guard.map(Guard::into_any))
}
