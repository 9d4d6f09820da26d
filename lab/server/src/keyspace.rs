//! The keys of a server, their values and expiries.

// Scores are milliseconds, as a server stores them.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::collections::BTreeMap;

/// The mark in the set of the readers of a resource.
pub const READERS: &str = "readers#0000000000000000000000000000000000000000";

/// The keys of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keyspace(BTreeMap<Vec<u8>, Entry>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    /// The last millisecond in which the key exists, since the Unix epoch.
    pub(crate) expires: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(Vec<u8>),
    /// The members of a sorted set, with their scores.
    Sorted(BTreeMap<Vec<u8>, f64>),
    List(Vec<Vec<u8>>),
}

/// A value that a client may have set under a key, with a time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The key.
    pub key: Vec<u8>,
    /// The value, or the member of the set of readers.
    pub token: Vec<u8>,
    /// The last millisecond in which it exists, since the Unix epoch.
    pub expires: u64,
}

impl Keyspace {
    pub(crate) fn get(&self, key: &[u8], now: u64) -> Option<&Entry> {
        self.0.get(key).filter(|entry| !entry.has_expired(now))
    }

    pub(crate) fn get_mut(&mut self, key: &[u8], now: u64) -> Option<&mut Entry> {
        self.0.get_mut(key).filter(|entry| !entry.has_expired(now))
    }

    pub(crate) fn set(&mut self, key: &[u8], value: Value, expires: Option<u64>) {
        self.0.insert(key.to_vec(), Entry { value, expires });
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes the names of the keys that have expired, and deletes them.
    pub(crate) fn take_expired(&mut self, now: u64) -> Vec<Vec<u8>> {
        let expired = self.0.iter().filter(|(_, entry)| entry.has_expired(now));
        let expired: Vec<_> = expired.map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.0.remove(key);
        }
        expired
    }

    /// Deletes a key. Returns whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    /// Deletes the keys that are not to be kept. Returns whether there were any.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&[u8]) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|key, _| is_kept(key));
        self.0.len() < before
    }

    /// Sets a list, which is no lock. It never expires.
    pub fn set_list(&mut self, key: &[u8]) {
        self.set(key, Value::List(vec![b"item".to_vec()]), None);
    }

    /// Takes the lists of other keys.
    pub fn take_lists(&mut self, other: &mut Self) {
        let lists = std::mem::take(&mut other.0).into_iter();
        self.0.extend(lists.filter(|(_, entry)| matches!(entry.value, Value::List(_))));
    }

    /// Sets a text without an expiry.
    pub fn set_text(&mut self, key: &[u8], text: &str) {
        self.set(key, Value::String(text.into()), None);
    }

    /// Returns whether the key has a list.
    pub fn is_list(&self, key: &[u8]) -> bool {
        matches!(self.0.get(key), Some(Entry { value: Value::List(_), .. }))
    }

    /// Returns whether the key exists at a time in microseconds.
    pub fn exists(&self, key: &[u8], now: u64) -> bool {
        self.get(key, now).is_some()
    }

    /// Returns the text under a key.
    pub fn text(&self, key: &[u8]) -> Option<&[u8]> {
        match self.0.get(key) {
            Some(Entry { value: Value::String(text), .. }) => Some(text),
            _ => None,
        }
    }

    /// Returns the strings and the readers with a time limit that exist at a time in microseconds, by key.
    pub fn locks(&self, now: u64) -> Vec<Lock> {
        let mut locks = Vec::new();
        for (key, entry) in self.0.iter().filter(|(_, entry)| !entry.has_expired(now)) {
            let Some(expires) = entry.expires else { continue };
            let mut add = |token: &[u8], expires| {
                locks.push(Lock { key: key.clone(), token: token.to_vec(), expires });
            };
            match &entry.value {
                Value::String(token) => add(token, expires),
                Value::Sorted(readers) => {
                    let live = readers.iter().filter(|(token, until)| {
                        token.as_slice() != READERS.as_bytes() && **until >= (now / 1000) as f64
                    });
                    live.for_each(|(token, until)| add(token, expires.min(*until as u64)));
                }
                Value::List(_) => {}
            }
        }
        locks
    }
}

impl Entry {
    fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now / 1000 > expires)
    }
}
