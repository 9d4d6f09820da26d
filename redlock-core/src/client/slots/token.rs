//! The fencing tokens of slots. They compare with those of the same slot only.

use std::cmp::Ordering;
use std::fmt;

use crate::types::fencing_token::FencingToken;
use crate::types::resource::Resource;

/// The fencing token of one slot.
///
/// Tokens of the same slot are ordered. Tokens of different slots are neither smaller, nor equal, nor greater: every
/// comparison of them is false.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotToken {
    resource: Resource,
    number: FencingToken,
}

impl SlotToken {
    pub(crate) fn new(resource: Resource, number: FencingToken) -> Self {
        Self { resource, number }
    }

    /// Returns the slot to which the token belongs.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # use std::collections::HashMap;
    /// // The greatest token of each slot, as the protected resource stores it.
    /// let mut greatest = HashMap::new();
    /// let slot = redlock.slots("disks", 2)?.acquire(ttl).fenced().await?;
    /// let token = slot.token();
    /// let stored = greatest.entry(token.resource().clone()).or_insert(token.number());
    /// assert!(token.number() >= *stored, "a stale request");
    /// *stored = token.number();
    /// # });
    /// ```
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the number, which increases with every fenced lock on this slot.
    ///
    /// Compare it only with numbers of the same [`resource`](SlotToken::resource).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let slot = redlock.slots("disks", 2)?.acquire(ttl).fenced().await?;
    /// let token = slot.token();
    /// // UPDATE disks SET token = $1, .. WHERE slot = $2 AND token <= $1
    /// let parameters = (i64::from(token.number()), token.resource().to_string());
    /// assert_eq!(format!("disks:slot:{}", slot.index()), parameters.1);
    /// # });
    /// ```
    pub fn number(&self) -> FencingToken {
        self.number
    }
}

impl PartialOrd for SlotToken {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.resource == other.resource).then(|| self.number.cmp(&other.number))
    }
}

impl fmt::Debug for SlotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotToken({} of {:?})", self.number, self.resource)
    }
}
