//! The details of a denial.

use std::time::Duration;

use crate::types::position::Position;
use crate::types::token::Token;

/// The details of a denial.
///
/// The fields are optional: a backend sets those that are cheap to determine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// The token that holds the resource.
    pub holder: Option<Token>,
    /// The time until the key expires unless it is extended, by the node's clock.
    pub remaining: Option<Duration>,
    /// `true` if the key was gone when the node looked for its holder.
    ///
    /// Such a denial names no holder because there is none. Without this, a denial that names no holder may be caused by
    /// any client.
    pub is_gone: bool,
    /// The position of the [place](crate::node::Place) that the request has entered with this denial.
    ///
    /// It is the position among the places that wait. A place for which the resource is reserved no longer waits.
    pub position: Option<Position>,
}

impl Denial {
    /// Creates a denial because of `holder`.
    ///
    /// ```
    /// # use redlock_core::node::{Denial, Reply, Token};
    /// // The value that the server has under the resource.
    /// let holder = Token::from_bytes("1d0ca7e5");
    /// let reply = Reply::Denied(Denial::by(holder.clone()));
    /// assert!(matches!(reply, Reply::Denied(denial) if denial.holder == Some(holder)));
    /// ```
    pub fn by(holder: Token) -> Self {
        Self { holder: Some(holder), ..Self::default() }
    }

    /// Creates the denial of a node that found no key any more when it looked for the holder.
    ///
    /// ```
    /// # use redlock_core::node::Denial;
    /// // `SET .. NX` set nothing, and `GET` then returned nothing.
    /// assert!(Denial::of_gone_key().is_gone);
    /// ```
    pub fn of_gone_key() -> Self {
        Self { is_gone: true, ..Self::default() }
    }

    /// Adds the time after which the holder's key expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Denial, Token};
    /// // The server returns the remaining time in milliseconds.
    /// let (value, pttl) = ("1d0ca7e5", 8_900);
    /// let denial = Denial::by(Token::from_bytes(value));
    /// let denial = denial.expiring_in(Duration::from_millis(pttl));
    /// assert_eq!(Some(Duration::from_millis(8_900)), denial.remaining);
    /// ```
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }

    /// Adds the position of the place of the request.
    ///
    /// ```
    /// # use redlock_core::Position;
    /// # use redlock_core::node::{Denial, Token};
    /// let denial = Denial::by(Token::from_bytes("1d0ca7e5")).at(Position::new(3, 7));
    /// assert_eq!(Some(Position::new(3, 7)), denial.position);
    /// ```
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }
}
