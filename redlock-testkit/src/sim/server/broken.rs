//! What a server does wrong on purpose: in the build of `scripts/variants` alone.
//!
//! A wrong operation is the right one on a store that was changed just before it.

use std::time::Duration;

use redlock_core::broken::{Variant, broken};
use redlock_core::{Instant, Resource, Token};

use crate::faulty::state::Request;
use crate::memory::store::Store;

pub(super) fn prepare(store: &mut Store, request: &Request, now: Instant) {
    let token = request.claim().token();
    for resource in request.claim().resources() {
        if let Some(expires) = planted(store, request, resource, token, now) {
            store.put(resource.clone(), token.clone(), expires, now);
        }
    }
}

/// Until when the asker's token is put under a resource, if it is.
fn planted(
    store: &Store,
    request: &Request,
    resource: &Resource,
    token: &Token,
    now: Instant,
) -> Option<Instant> {
    let (holder, soon) = (store.holder(resource, now), now + Duration::from_millis(1));
    let wrong = match request {
        Request::Acquire(..)
        | Request::AcquireFenced(..)
        | Request::Confirm(..)
        | Request::RefillFenced(..)
        | Request::Inspect(_)
        | Request::Watch(_) => false,
        Request::Release(_) => broken(Variant::ReleaseComparesNothing) && holder.is_some(),
        Request::Extend(..) => {
            (broken(Variant::ExtensionRecreates) && holder.is_none())
                || (broken(Variant::ExtensionShortens) && holder == Some(token))
        }
    };
    wrong.then_some(soon)
}
