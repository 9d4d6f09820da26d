//! A client that keeps some of its locks for a time after its work, like a job that runs once a period.

use redlock_core::Guard;

use super::program::Program;
use crate::history::{EventKind, TokenNumber};

impl Program {
    pub(super) async fn lock_and_keep(&mut self) {
        while !self.client.is_closing() {
            self.idle(400).await;
            let resources = self.choose_resources();
            let Some((guard, token)) = self.acquire(resources.clone()).await else { continue };
            self.hold(&guard, token, &resources).await;
            if self.chance.bool() {
                self.keep(guard, token).await;
            } else {
                self.release(guard, token).await;
            }
        }
    }

    /// Keeps a lock for less or for more than its TTL, and sometimes drops the operation.
    async fn keep(&mut self, guard: Guard, token: TokenNumber) {
        let client = self.client.0.number;
        let rest = self.millis(10, 3_000);
        self.record(EventKind::Keeping { client, token });
        let until = self.client.0.network.now() + rest;
        let result = if self.chance.u32(..5) == 0 {
            let patience = self.micros(0, 20_000);
            self.within(patience, guard.keep_for(rest)).await
        } else {
            Some(guard.keep_for(rest).await)
        };
        if matches!(result, Some(Ok(()))) {
            self.record(EventKind::Kept { client, token, until });
        }
    }
}
