//! This library, with fencing tokens.

use redlock_core::{Guard, Redlock, kind};

use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct Fenced(pub(crate) Redlock);

impl Contender for Fenced {
    type Held = Guard<kind::Fenced>;

    async fn acquire(&self, key: &str) -> Self::Held {
        self.0.lock(key, TTL).fenced().wait_unbounded().await.expect("a quorum replies")
    }

    async fn release(&self, held: Self::Held) {
        held.release().await.expect("a quorum replies");
    }

    async fn extend(&self, held: &mut Self::Held) {
        held.extend(TTL).await.expect("a quorum holds the lock");
    }
}
