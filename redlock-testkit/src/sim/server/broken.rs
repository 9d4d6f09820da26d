//! What a server does wrong on purpose: in the build of `scripts/variants` alone.
//!
//! A wrong operation is the right one on a store that was changed just before it; or, where it is fenced, one of its own.

use std::time::Duration;

use redlock_core::broken::{Variant, broken};
use redlock_core::{FencingToken, Instant, Resource, Token, Vote};

use crate::faulty::state::{Answer, Request};
use crate::memory::store::Store;

/// What becomes of a fenced request that is carried out in a wrong way.
pub(super) fn answer(store: &mut Store, request: &Request, now: Instant) -> Option<Answer> {
    let resources = request.claim().resources();
    let counter = resources.iter().filter_map(|resource| store.counter(resource, now)).max();
    let set = |store: &mut Store, to: FencingToken| {
        resources.iter().for_each(|resource| store.set_counter(resource, Some(to), now));
    };
    match request {
        Request::Confirm(claim, ttl, fence)
            if broken(Variant::ConfirmAnywhere) && counter.is_none_or(|is| is <= *fence) =>
        {
            let answer = store.confirm(claim, *ttl, *fence, now);
            set(store, *fence);
            Some(answer.map(|_| Vote::Granted))
        }
        Request::Confirm(claim, ttl, fence) if broken(Variant::ConfirmIgnoresCounter) => {
            let answer = store.extend(claim, *ttl, now);
            if matches!(answer, Ok(Vote::Granted)) {
                set(store, counter.map_or(*fence, |counter| counter.max(*fence)));
            }
            Some(answer)
        }
        Request::Confirm(claim, ttl, fence) if broken(Variant::ConfirmRefills) => {
            let filled = store.refill_fenced(claim, *ttl, *fence, now);
            let is_ours = matches!(filled, Ok(Vote::Granted));
            Some(if is_ours { store.confirm(claim, *ttl, *fence, now) } else { filled })
        }
        Request::AcquireFenced(claim, ttl) if broken(Variant::AcquireCountsTwice) => {
            let answer = store.acquire_fenced(claim, *ttl, now);
            let held = matches!(answer, Ok(Vote::Counted(now)) if Some(now) == counter);
            let next = FencingToken::next(counter, now.elapsed_since_origin()).filter(|_| held)?;
            set(store, next);
            Some(Ok(Vote::Counted(next)))
        }
        _ => None,
    }
}

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
