//! A client that reads and writes under one lock, in every way, and sometimes drops an operation.

use std::time::Duration;

use redlock_core::kind::{Kind, Owned, Read};
use redlock_core::{Error, Guard, KeepAlive, LockRequest, RwLock};

use super::program::{Program, name};
use crate::history::{EventKind, TokenNumber};

impl Program {
    pub(super) async fn read_and_write(&mut self) {
        let lock = self.redlock.rw_lock(name(0)).expect("the name is valid");
        while !self.client.is_closing() {
            self.idle(400).await;
            if self.chance.u32(..3) > 0 {
                self.read(&lock).await;
            } else {
                self.write(&lock).await;
            }
        }
    }

    async fn read(&mut self, lock: &RwLock) {
        let request = lock.read(self.requested());
        let result = self.request_in_any_way(request, 100_000).await;
        let Some((guard, token)) = self.granted(vec![0], result) else { return };
        self.record(EventKind::Reads { client: self.client.0.number, token });
        self.hold_as_reader(&guard, token).await;
        self.release(guard, token).await;
    }

    async fn hold_as_reader(&mut self, guard: &Guard<Read>, token: TokenNumber) {
        let client = self.client.0.number;
        let mut known = self.until(guard);
        let kept = self.chance.u32(..4) == 0;
        if kept {
            self.record(EventKind::KeepsAlive { client, token });
            guard.keep_alive(KeepAlive::new());
        }
        for _ in 0..self.chance.u32(..4) {
            self.idle(1_200).await;
            if guard.is_held() {
                self.record_deadline(guard, token, &mut known);
                self.record(EventKind::Acted { client, token });
            }
            if !kept && self.chance.bool() {
                self.extend(guard, token).await;
                known = self.until(guard);
            }
        }
    }

    async fn write(&mut self, lock: &RwLock) {
        let ttl = self.requested();
        let result = if self.chance.u32(..4) == 0 {
            any(self.request_in_any_way(self.redlock.lock(name(0), ttl), 400_000).await)
        } else {
            any(self.request_in_any_way(lock.write(ttl), 400_000).await)
        };
        let granted: Option<(Guard, TokenNumber)> = self.granted(vec![0], result);
        if let Some((guard, token)) = granted {
            self.hold(&guard, token, &[0]).await;
            self.release(guard, token).await;
        }
    }

    /// Makes a request in one of three ways. If the client drops it, this is within these microseconds.
    async fn request_in_any_way<K: Kind>(
        &mut self,
        request: LockRequest<K>,
        patience: u64,
    ) -> Option<Result<Option<Guard<K>>, Error>> {
        match self.chance.u32(..6) {
            0 => Some(request.try_now().await),
            1..5 => {
                let wait = self.millis(0, 3_000);
                Some(request.max_wait(wait).await.map(Some))
            }
            _ => {
                let patience = self.micros(0, patience);
                self.within(patience, request.into_future()).await.map(|result| result.map(Some))
            }
        }
    }

    /// Records a request, and returns its TTL.
    fn requested(&mut self) -> Duration {
        let (client, ttl) = (self.client.0.number, self.ttl());
        self.record(EventKind::Requested { client, resources: vec![0], ttl, once: false, fenced: false });
        ttl
    }
}

fn any<K: Owned>(result: Option<Result<Option<Guard<K>>, Error>>) -> Option<Result<Option<Guard>, Error>> {
    result.map(|result| result.map(|guard| guard.map(Guard::into_any)))
}
