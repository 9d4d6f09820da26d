//! The position of a request among the waiters of its resource.

use std::fmt;

/// The position of a request among the waiters of its resource.
///
/// See [`Error::position`](crate::Error::position) and [`Denial::position`](crate::node::Denial::position). Formatted as
/// `position 3 of 7 waiters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Position {
    /// The rank of the request: 1 for the one that has waited longest.
    pub rank: u32,
    /// The number of waiters, including the request.
    pub waiters: u32,
}

impl Position {
    /// Creates the position of the request with this rank, which is 1 for the first of the `waiters`.
    ///
    /// ```
    /// # use redlock_core::Position;
    /// // A backend has two places with a longer wait, and four with a shorter one.
    /// let position = Position::new(3, 7);
    /// assert_eq!("position 3 of 7 waiters", position.to_string());
    /// ```
    pub fn new(rank: u32, waiters: u32) -> Self {
        Self { rank, waiters }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {} of {} waiters", self.rank, self.waiters)
    }
}
