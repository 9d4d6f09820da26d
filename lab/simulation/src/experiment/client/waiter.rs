//! A client that requests one lock all the time, and waits for it without a limit.
//!
//! Mostly the client holds the lock briefly and requests it again at once. Sometimes it pauses for so long that only one
//! other client waits. Sometimes it holds the lock for long with keep-alive, or forgets it until it has expired.

use redlock_core::{ErrorKind, KeepAlive};

use super::program::{Program, name};
use crate::history::EventKind;

impl Program {
    pub(super) async fn keep_waiting(&mut self) {
        while !self.client.is_closing() {
            match self.chance.u32(..8) {
                ..4 => {}
                4 | 5 => self.idle(20).await,
                6 => self.idle(1_000).await,
                _ => self.idle(10_000).await,
            }
            self.wait_once().await;
        }
    }

    async fn wait_once(&mut self) {
        let (client, ttl, resources) = (self.client.0.number, self.ttl(), vec![0]);
        self.record(EventKind::Requested {
            client,
            resources: resources.clone(),
            ttl,
            once: false,
            fenced: false,
        });
        let guard = match self.redlock.lock(name(0), ttl).wait_unbounded().await {
            Ok(guard) => guard,
            Err(error) => {
                self.record(EventKind::NotGranted { client, why: Some(error.kind()) });
                assert_ne!(
                    ErrorKind::Contended,
                    error.kind(),
                    "an unbounded wait does not end with contention"
                );
                return self.idle(100).await;
            }
        };
        let (guard, token) = self.granted_as(resources, guard);
        match self.chance.u32(..8) {
            0 => {
                // Waits until the lock has expired, and a little longer.
                while guard.is_held() && !self.client.is_closing() {
                    self.idle(500).await;
                }
            }
            1 => {
                self.record(EventKind::KeepsAlive { client, token });
                guard.keep_alive(KeepAlive::new());
                self.idle(6_000).await;
            }
            _ => self.idle(30).await,
        }
        self.release(guard, token).await;
    }
}
