//! The keys of one node, and the operations on them. Pure functions on values and a given time.
//!
//! An operation checks every resource of a claim before it changes the first, so that a denial changes nothing. A key
//! lives while `now < expires`. An expired key is treated as absent everywhere and is removed from time to time.

use std::collections::HashMap;
use std::time::Duration;

use event_listener::{Event, EventListener};
use redlock_core::node::{Availability, Claim, Denial, LockEntry, NodeError, Place, Reply, Token, Ttl};
use redlock_core::runtime::Instant;
use redlock_core::{FencingToken, Resource};

use super::counters::{Counters, Numbers};
use super::places::Places;
use super::readers::Readers;

#[derive(Default)]
pub(crate) struct Store {
    entries: HashMap<Resource, Entry>,
    sweep_at: usize,
    pub(crate) counters: Counters,
    /// The requests that wait, by resource. They are not part of the data: their loss changes the order only.
    places: HashMap<Resource, Places>,
    /// The events that fire when a resource is changed by anything except time.
    watches: HashMap<Resource, Event>,
    forget_watches_at: usize,
}

/// The keys and counters at one moment.
#[derive(Clone)]
pub(crate) struct Content {
    entries: HashMap<Resource, Entry>,
    numbers: Numbers,
}

#[derive(Clone)]
struct Entry {
    value: Value,
    /// The expiry; `None` for a key that never expires.
    expires: Option<Instant>,
}

#[derive(Clone)]
enum Value {
    Lock(Token),
    Readers(Readers),
    Other,
}

/// A release by a token whose last byte is a multiple of this number reserves nothing: others get their chance.
const OPEN: u8 = 16;

impl Store {
    /// Carries out an acquisition in the order of the waiters. That of a reader has a gate.
    pub(crate) fn in_turn(
        &mut self,
        claim: &Claim,
        gate: Option<&Resource>,
        now: Instant,
        acquire: impl FnOnce(&mut Self) -> Result<Reply, NodeError>,
    ) -> Result<Reply, NodeError> {
        let Some(place) = claim.place() else { return acquire(self) };
        let is_preceded = |places: &mut Places| places.is_preceded(place, now);
        // The resources that were reserved for the request.
        let mut turns = Vec::new();
        let awaited = || claim.resources().iter().chain(gate);
        for resource in awaited() {
            if self.holder(resource, now) == Some(&place.id) {
                turns.push(resource);
                // The acquisition of a reader needs to know its reservations.
                if gate.is_none() {
                    self.remove(resource);
                }
            } else if self.living(resource, now).is_none()
                && self.places.get_mut(resource).is_some_and(is_preceded)
            {
                self.reserve(resource, now);
            }
        }
        let reply = acquire(self);
        let is_grant = reply.as_ref().is_ok_and(Reply::is_grant);
        for resource in awaited() {
            if turns.contains(&resource) && self.holder(resource, now) == Some(&place.id) {
                self.remove(resource);
            }
            if is_grant {
                self.places.entry(resource.clone()).or_default().remove(&place.id);
                // The gate of a reader is not set. The turn passes on.
                if turns.contains(&resource) && self.living(resource, now).is_none() {
                    self.reserve(resource, now);
                }
            } else if turns.contains(&resource) {
                // Another resource is held, or the reply is an error. The turn passes on, and the request goes to the
                // end here.
                self.reserve(resource, now);
                let last = Place::new(place.id.clone(), Duration::ZERO, place.reserved_for);
                self.places.entry(resource.clone()).or_default().put(&last, now);
            } else if reply.is_ok() {
                self.places.entry(resource.clone()).or_default().put(place, now);
            }
            self.forget_places(resource);
        }
        let position = match claim.resources() {
            [resource] if gate.is_none() => {
                self.places.get(resource).and_then(|places| places.position(&place.id, now))
            }
            _ => None,
        };
        Ok(match (reply?, position) {
            (Reply::Denied(denial), Some(position)) => Reply::Denied(denial.at(position)),
            (reply, _) => reply,
        })
    }

    /// Reserves an absent resource for the request that has waited longest.
    fn reserve(&mut self, resource: &Resource, now: Instant) {
        let Some(places) = self.places.get_mut(resource) else { return };
        let first = places.take_first(now);
        self.forget_places(resource);
        if let Some((id, reserved_for)) = first {
            self.set_holder(resource.clone(), id, now + reserved_for, now);
        }
    }

    fn forget_places(&mut self, resource: &Resource) {
        if self.places.get(resource).is_some_and(Places::is_empty) {
            self.places.remove(resource);
        }
    }

    pub(crate) fn acquire(&mut self, claim: &Claim, ttl: Ttl, now: Instant) -> Result<Reply, NodeError> {
        if let Some(denial) = self.denial(claim, now)? {
            return Ok(Reply::Denied(denial));
        }
        self.fill(claim, ttl, now);
        Ok(Reply::Granted)
    }

    pub(crate) fn acquire_fenced(
        &mut self,
        claim: &Claim,
        ttl: Ttl,
        now: Instant,
    ) -> Result<Reply, NodeError> {
        if let Some(denial) = self.denial(claim, now)? {
            return Ok(Reply::Denied(denial));
        }
        let resources = claim.resources();
        let held = resources.iter().all(|resource| self.living(resource, now).is_some());
        if let (Some(counter), true) = self.counters.greatest(resources, now) {
            if held {
                self.counters.check(resources, counter, now)?;
                return Ok(Reply::Counted(counter));
            }
        }
        let next = self.counters.next(resources, now)?;
        self.fill(claim, ttl, now);
        self.counters.set(resources, next, ttl, now);
        Ok(Reply::Counted(next))
    }

    pub(crate) fn acquire_shared(
        &mut self,
        claim: &Claim,
        gate: &Resource,
        ttl: Ttl,
        now: Instant,
    ) -> Result<Reply, NodeError> {
        if self.reads(claim, now) {
            return Ok(Reply::Granted);
        }
        let mut is_reserved = false;
        for resource in claim.resources().iter().chain([gate]) {
            let Some(entry) = self.living(resource, now) else { continue };
            match &entry.value {
                // Free for all readers.
                Value::Lock(token) if token.is_place_of_reader() => is_reserved = true,
                // These readers have waited longer than the writer that has locked the gate.
                Value::Lock(_) if resource == gate && is_reserved => {}
                Value::Lock(token) => return Ok(Reply::Denied(entry.denial(token, now))),
                Value::Other if resource != gate => return Err(NodeError::wrong_type(resource)),
                Value::Readers(_) | Value::Other => {}
            }
        }
        for resource in claim.resources() {
            self.add_reader(resource, claim.token(), now + ttl.as_duration(), now);
        }
        Ok(Reply::Granted)
    }

    /// Returns whether the token reads every resource.
    fn reads(&self, claim: &Claim, now: Instant) -> bool {
        claim.resources().iter().all(|resource| {
            self.readers(resource, now).is_some_and(|readers| readers.has(claim.token(), now))
        })
    }

    /// Adds a reader to a resource, or makes its time at least this long.
    fn add_reader(&mut self, resource: &Resource, token: &Token, expires: Instant, now: Instant) {
        let mut readers = self.readers(resource, now).cloned().unwrap_or_default();
        readers.add(token, expires, now);
        self.set_readers(resource, readers, now);
    }

    /// Returns the readers of a resource, if it has any.
    pub(crate) fn readers(&self, resource: &Resource, now: Instant) -> Option<&Readers> {
        match &self.living(resource, now)?.value {
            Value::Readers(readers) => Some(readers),
            Value::Lock(_) | Value::Other => None,
        }
    }

    /// Sets the readers of a resource, or removes it with the last one.
    fn set_readers(&mut self, resource: &Resource, readers: Readers, now: Instant) {
        let Some(expires) = readers.last() else { return self.remove(resource) };
        self.sweep(now);
        self.changed(resource);
        self.entries
            .insert(resource.clone(), Entry { value: Value::Readers(readers), expires: Some(expires) });
    }

    pub(crate) fn extend(&mut self, claim: &Claim, ttl: Ttl, now: Instant) -> Result<Reply, NodeError> {
        let may_read = true;
        if let Some(denial) = self.first_missing(claim, may_read, now)? {
            return Ok(Reply::Denied(denial));
        }
        for resource in claim.resources() {
            if self.readers(resource, now).is_some() {
                self.add_reader(resource, claim.token(), now + ttl.as_duration(), now);
            } else {
                self.lengthen(resource, ttl, now);
            }
        }
        Ok(Reply::Granted)
    }

    pub(crate) fn keep_for(&mut self, claim: &Claim, ttl: Ttl, now: Instant) -> Result<Reply, NodeError> {
        let may_read = false;
        if let Some(denial) = self.first_missing(claim, may_read, now)? {
            return Ok(Reply::Denied(denial));
        }
        for resource in claim.resources() {
            let entry = self.entries.get_mut(resource).expect("every resource was found before");
            entry.expires = Some(now + ttl.as_duration());
        }
        claim.resources().iter().for_each(|resource| self.changed(resource));
        Ok(Reply::Granted)
    }

    pub(crate) fn confirm(
        &mut self,
        claim: &Claim,
        ttl: Ttl,
        fence: FencingToken,
        now: Instant,
    ) -> Result<Reply, NodeError> {
        if let Some(denial) = self.denial(claim, now)? {
            return Ok(Reply::Denied(denial));
        }
        if claim.resources().iter().any(|resource| self.living(resource, now).is_none()) {
            return Ok(Reply::Denied(Denial::default()));
        }
        self.counters.check(claim.resources(), fence, now)?;
        if let Some(newer) = self.newer(claim, fence, now) {
            return Ok(Reply::Superseded(newer));
        }
        claim.resources().iter().for_each(|resource| self.lengthen(resource, ttl, now));
        self.counters.set(claim.resources(), fence, ttl, now);
        Ok(Reply::Granted)
    }

    pub(crate) fn refill_fenced(
        &mut self,
        claim: &Claim,
        ttl: Ttl,
        fence: FencingToken,
        now: Instant,
    ) -> Result<Reply, NodeError> {
        if let Some(denial) = self.denial(claim, now)? {
            return Ok(Reply::Denied(denial));
        }
        self.counters.check(claim.resources(), fence, now)?;
        if let Some(newer) = self.newer(claim, fence, now) {
            return Ok(Reply::Superseded(newer));
        }
        self.fill(claim, ttl, now);
        self.counters.set(claim.resources(), fence, ttl, now);
        Ok(Reply::Granted)
    }

    /// Returns the reason why a claim is denied: another token holds a part of it.
    fn denial(&self, claim: &Claim, now: Instant) -> Result<Option<Denial>, NodeError> {
        for resource in claim.resources() {
            let Some(entry) = self.living(resource, now) else { continue };
            if !entry.is_locked_by(claim.token()) {
                return entry.foreign(resource, now).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the reason why a claim cannot be extended: the first resource that the token does not hold is free, or
    /// is held by another one. Later resources do not matter, as on servers.
    fn first_missing(
        &self,
        claim: &Claim,
        may_read: bool,
        now: Instant,
    ) -> Result<Option<Denial>, NodeError> {
        for resource in claim.resources() {
            let Some(entry) = self.living(resource, now) else { return Ok(Some(Denial::default())) };
            let is_read = may_read && entry.is_read_by(claim.token(), now);
            if !is_read && !entry.is_locked_by(claim.token()) {
                return entry.foreign(resource, now).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the greater counter of a newer claim, if there is one.
    fn newer(&self, claim: &Claim, fence: FencingToken, now: Instant) -> Option<FencingToken> {
        self.counters.greatest(claim.resources(), now).0.filter(|counter| *counter > fence)
    }

    fn fill(&mut self, claim: &Claim, ttl: Ttl, now: Instant) {
        for resource in claim.resources() {
            if self.living(resource, now).is_none() {
                self.set_holder(resource.clone(), claim.token().clone(), now + ttl.as_duration(), now);
            }
        }
    }

    /// Makes the time of a resource, which is there, at least this long.
    fn lengthen(&mut self, resource: &Resource, ttl: Ttl, now: Instant) {
        let at_least = now + ttl.as_duration();
        let entry = self.entries.get_mut(resource).expect("every resource was found before");
        entry.expires = entry.expires.map(|expires| expires.max(at_least));
        self.changed(resource);
    }

    pub(crate) fn fencing_counter(&self, resource: &Resource, now: Instant) -> Option<FencingToken> {
        self.counters.of(resource, now)
    }

    /// Sets a counter, or deletes it.
    pub(crate) fn set_counter(&mut self, resource: &Resource, number: Option<FencingToken>, now: Instant) {
        match number {
            Some(number) => self.counters.set(std::slice::from_ref(resource), number, Ttl::MAX, now),
            None => self.counters.remove(resource),
        }
    }

    /// Returns whether a resource held the token and was removed.
    pub(crate) fn release(&mut self, claim: &Claim, now: Instant) -> bool {
        let mut deleted = false;
        if let Some(place) = claim.place() {
            for resource in claim.resources() {
                // A reservation for the place is its turn: it would wait for a second one.
                let is_reserved = self.holder(resource, now) == Some(&place.id);
                if !is_reserved || place.waited.is_none() {
                    self.places.entry(resource.clone()).or_default().put(place, now);
                }
            }
        }
        let is_open = claim.token().as_bytes().last().is_some_and(|byte| byte % OPEN == 0);
        for resource in claim.resources() {
            if self.holder(resource, now) == Some(claim.token()) {
                self.remove(resource);
                deleted = true;
            } else if let Some(readers) =
                self.readers(resource, now).filter(|readers| readers.has(claim.token(), now))
            {
                let mut readers = readers.clone();
                readers.remove(claim.token());
                self.set_readers(resource, readers, now);
                deleted = true;
            } else {
                self.forget_places(resource);
                continue;
            }
            if !is_open && self.living(resource, now).is_none() {
                self.reserve(resource, now);
            }
        }
        deleted
    }

    pub(crate) fn inspect(&self, resource: &Resource, now: Instant) -> Result<Option<LockEntry>, NodeError> {
        let Some(entry) = self.living(resource, now) else { return Ok(None) };
        entry.lock(now).map(Some).ok_or_else(|| NodeError::wrong_type(resource))
    }

    /// Returns the number of requests that wait for a resource.
    pub(crate) fn waiters(&self, resource: &Resource, now: Instant) -> u32 {
        self.places.get(resource).map_or(0, |places| places.count(now))
    }

    /// Same as [`watch`](Store::watch), except that readers count as free.
    pub(crate) fn watch_shared(
        &mut self,
        resource: &Resource,
        now: Instant,
    ) -> (Availability, EventListener) {
        let (availability, changed) = self.watch(resource, now);
        let is_read = self.readers(resource, now).is_some();
        (if is_read { Availability::Free } else { availability }, changed)
    }

    /// Returns the availability of a resource, and the event of its next change.
    pub(crate) fn watch(&mut self, resource: &Resource, now: Instant) -> (Availability, EventListener) {
        if self.watches.len() >= self.forget_watches_at {
            self.watches.retain(|_, event| event.total_listeners() > 0);
            self.forget_watches_at = (2 * self.watches.len()).max(64);
        }
        let changed = self.watches.entry(resource.clone()).or_default().listen();
        let availability = match self.living(resource, now) {
            None => Availability::Free,
            Some(entry) => Availability::Taken(entry.remaining(now)),
        };
        (availability, changed)
    }

    pub(crate) fn holder(&self, resource: &Resource, now: Instant) -> Option<&Token> {
        match &self.living(resource, now)?.value {
            Value::Lock(token) => Some(token),
            Value::Readers(_) | Value::Other => None,
        }
    }

    pub(crate) fn remaining(&self, resource: &Resource, now: Instant) -> Option<Duration> {
        self.living(resource, now)?.remaining(now)
    }

    pub(crate) fn living_count(&self, now: Instant) -> usize {
        self.entries.values().filter(|entry| entry.is_alive(now)).count()
    }

    pub(crate) fn set_holder(&mut self, resource: Resource, token: Token, expires: Instant, now: Instant) {
        self.sweep(now);
        self.changed(&resource);
        self.entries.insert(resource, Entry { value: Value::Lock(token), expires: Some(expires) });
    }

    pub(crate) fn set_non_lock_value(&mut self, resource: Resource) {
        self.changed(&resource);
        self.entries.insert(resource, Entry { value: Value::Other, expires: None });
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.counters.clear();
        self.end_watches();
    }

    /// Completes all watches.
    pub(crate) fn end_watches(&mut self) {
        for (_, event) in self.watches.drain() {
            event.notify(usize::MAX);
        }
    }

    pub(crate) fn content(&self) -> Content {
        Content { entries: self.entries.clone(), numbers: self.counters.numbers().clone() }
    }

    pub(crate) fn restore(&mut self, content: &Content) {
        self.clear();
        self.entries.clone_from(&content.entries);
        self.counters.restore(&content.numbers);
    }

    /// Returns the live locks, sorted by resource: the order of a map would differ from run to run.
    pub(crate) fn locks(&self, now: Instant) -> Vec<(Resource, LockEntry)> {
        let living = self.entries.iter().filter(|(_, entry)| entry.is_alive(now));
        let mut locks: Vec<_> = living
            .flat_map(|(resource, entry)| entry.locks(now).map(|lock| (resource.clone(), lock)))
            .collect();
        // The sort is stable, because the readers of a resource are already in order.
        locks.sort_by(|(one, _), (other, _)| one.cmp(other));
        locks
    }

    pub(crate) fn remove(&mut self, resource: &Resource) {
        self.changed(resource);
        self.entries.remove(resource);
    }

    fn changed(&mut self, resource: &Resource) {
        if let Some(event) = self.watches.remove(resource) {
            event.notify(usize::MAX);
        }
    }

    fn living(&self, resource: &Resource, now: Instant) -> Option<&Entry> {
        self.entries.get(resource).filter(|entry| entry.is_alive(now))
    }

    /// Removes expired keys whenever the number of keys has doubled.
    ///
    /// This bounds memory to twice the live keys, at a constant cost per key.
    fn sweep(&mut self, now: Instant) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.is_alive(now));
            self.sweep_at = (2 * self.entries.len()).max(64);
        }
    }
}

impl Entry {
    fn is_alive(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn remaining(&self, now: Instant) -> Option<Duration> {
        self.expires.map(|expires| expires.saturating_duration_since(now))
    }

    /// Returns the lock, or one for all readers together; `None` for a non-lock value.
    fn lock(&self, now: Instant) -> Option<LockEntry> {
        let lock = LockEntry::of(match &self.value {
            Value::Lock(token) => token.clone(),
            Value::Readers(_) => Token::of_readers(),
            Value::Other => return None,
        });
        Some(match self.remaining(now) {
            Some(remaining) => lock.expiring_in(remaining),
            None => lock,
        })
    }

    /// Returns the lock, or that of each reader.
    fn locks(&self, now: Instant) -> impl Iterator<Item = LockEntry> {
        let (lock, readers) = match &self.value {
            Value::Readers(readers) => (None, Some(readers)),
            Value::Lock(_) | Value::Other => (self.lock(now), None),
        };
        let readers = readers.into_iter().flat_map(move |readers| readers.living(now));
        lock.into_iter().chain(readers.map(move |(token, expires)| {
            LockEntry::of(token).expiring_in(expires.saturating_duration_since(now))
        }))
    }

    fn is_locked_by(&self, token: &Token) -> bool {
        matches!(&self.value, Value::Lock(holder) if holder == token)
    }

    fn is_read_by(&self, token: &Token, now: Instant) -> bool {
        matches!(&self.value, Value::Readers(readers) if readers.has(token, now))
    }

    /// Returns the denial of a claim of another token. A non-lock value is an error.
    fn foreign(&self, resource: &Resource, now: Instant) -> Result<Denial, NodeError> {
        match &self.value {
            Value::Lock(token) => Ok(self.denial(token, now)),
            Value::Readers(_) => Ok(self.denial(&Token::of_readers(), now)),
            Value::Other => Err(NodeError::wrong_type(resource)),
        }
    }

    fn denial(&self, holder: &Token, now: Instant) -> Denial {
        let denial = Denial::by(holder.clone());
        match self.remaining(now) {
            Some(remaining) => denial.expiring_in(remaining),
            None => denial,
        }
    }
}

#[cfg(test)]
mod tests {
    use redlock_core::IntoResources;

    use super::*;

    #[test]
    fn watches_without_a_waiter_are_forgotten() {
        let mut store = Store::default();
        for number in 0..10_000 {
            let resource = Resource::new(number.to_string()).unwrap();
            let (_, changed) = store.watch(&resource, Instant::ORIGIN);
            drop(changed);
        }
        assert!(store.watches.len() <= 64, "{} watches", store.watches.len());
    }

    #[test]
    fn expired_keys_are_removed() {
        let mut store = Store::default();
        for number in 0..10_000_u64 {
            let now = Instant::since_origin(Duration::from_millis(number));
            let resource = number.to_string().into_resources().unwrap();
            store.acquire(&Claim::new(resource, Token::from_bytes("t")), Ttl::MIN, now).unwrap();
        }
        assert!(store.entries.len() <= 64, "{} entries for 10 that live", store.entries.len());
    }

    #[test]
    fn a_key_is_absent_from_its_expiry_on() {
        let mut store = Store::default();
        let resource = Resource::new("a").unwrap();
        let at = |millis| Instant::since_origin(Duration::from_millis(millis));
        store.set_holder(resource.clone(), Token::from_bytes("t"), at(10), at(0));
        assert_eq!(
            Some(Duration::from_nanos(1)),
            store.remaining(&resource, at(10) - Duration::from_nanos(1))
        );
        assert_eq!(None, store.remaining(&resource, at(10)));
    }
}
