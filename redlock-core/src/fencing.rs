//! The number that grows with every grant: what a resource checks, so that a holder that came too late cannot write.
//!
//! A lock with a time limit cannot stop a holder that was paused past its validity from going on. The resource can, if
//! every write carries a number and smaller numbers than the greatest seen are refused. [The chapter on
//! fencing](https://github.com/redlock-rs/redlock/blob/main/docs/fencing.md) has the rule by which independent nodes agree
//! on such numbers, and why it holds.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// A number that is greater than that of every earlier grant of the same resource. See [`LockRequest::fenced`].
///
/// At most 2<sup>53</sup> - 1, so that it is exact as a JSON number, in Lua and in JavaScript, and fits the signed integers of
/// databases: `i64::from`. With the feature `serde` it is serialised as an integer.
///
/// [`LockRequest::fenced`]: crate::LockRequest::fenced
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u64", try_from = "u64"))]
pub struct FencingToken(NonZeroU64);

/// The steps of the time that a counter begins with, in microseconds: some 4.2 s.
const GRANULE: u64 = 1 << 22;

impl FencingToken {
    /// The greatest: 2<sup>53</sup> - 1.
    pub const MAX: Self = Self(NonZeroU64::new((1 << 53) - 1).unwrap());

    /// This number as a token; `None` for zero and for what is greater than [`MAX`](FencingToken::MAX).
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self).filter(|token| *token <= Self::MAX)
    }

    /// The number.
    pub fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// What the counter of a node becomes when it grants: one more than it is, and no less than the node's own time,
    /// in microseconds since 1970 rounded down to multiples of 2<sup>22</sup>. `None` at the end of all numbers.
    ///
    /// For backends. The time is for counters that were lost: they go on beyond what they were, if the node stayed away
    /// for longer than one step of it, and by how much clocks differ. Where no counter is lost no clock matters.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlock_core::FencingToken;
    ///
    /// let now = Duration::from_secs(1_800_000_000);
    /// let first = FencingToken::next(None, now).unwrap();
    /// assert_eq!(1_799_999_998_394_368, first.as_u64());
    /// assert_eq!(Some(first.as_u64() + 1), FencingToken::next(Some(first), now).map(FencingToken::as_u64));
    /// assert_eq!(None, FencingToken::next(Some(FencingToken::MAX), now));
    /// ```
    pub fn next(counter: Option<Self>, node_time: Duration) -> Option<Self> {
        let micros = u64::try_from(node_time.as_micros()).ok()?;
        let one_more = counter.map_or(0, Self::as_u64) + 1;
        Self::new(one_more.max(coarse(micros)))
    }

    /// Returns whether a node may store this number: whether a counter that is kept for `retention` from now on will have
    /// been passed by the node's clock when it is forgotten.
    ///
    /// For backends. `node_time` is the node's own time since 1970. A number that is not plausible, stored or about to be
    /// written, is an error, and the node changes nothing: it comes from a damaged counter, or from a clock that is wrong by
    /// more than `retention`. Stored, it would end the use of the resource, or let tokens go back once it is forgotten.
    ///
    /// The number may be ahead by up to `retention`, less the part of a step of 2<sup>22</sup> us that
    /// [`next`](FencingToken::next) rounds down.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlock_core::FencingToken;
    ///
    /// let (now, day) = (Duration::from_secs(1_800_000_000), Duration::from_secs(86_400));
    /// let current = FencingToken::next(None, now).unwrap();
    /// assert!(current.is_plausible(now, day));
    /// assert!(!FencingToken::MAX.is_plausible(now, day));
    /// ```
    pub fn is_plausible(self, node_time: Duration, retention: Duration) -> bool {
        let forgotten = node_time.saturating_add(retention);
        let limit = u64::try_from(forgotten.as_micros()).map_or(u64::MAX, coarse);
        self.as_u64() < limit
    }
}

/// A time in microseconds, in whole steps.
fn coarse(micros: u64) -> u64 {
    micros - micros % GRANULE
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.as_u64()
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::try_from(token.as_u64()).expect("a token is below 2^53")
    }
}

/// Refuses what is no token.
impl TryFrom<u64> for FencingToken {
    type Error = NoFencingToken;

    fn try_from(number: u64) -> Result<Self, NoFencingToken> {
        Self::new(number).ok_or(NoFencingToken(number))
    }
}

/// A number that is no [`FencingToken`]: zero, or greater than [`FencingToken::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFencingToken(u64);

impl fmt::Display for NoFencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no fencing token: they go from 1 to {}", self.0, FencingToken::MAX)
    }
}

impl std::error::Error for NoFencingToken {}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).unwrap()
    }

    #[test]
    fn tokens_are_the_numbers_that_every_language_has() {
        assert_eq!(None, FencingToken::new(0));
        assert_eq!(None, FencingToken::new(1 << 53));
        assert_eq!("9007199254740991", FencingToken::MAX.to_string());
        assert_eq!((1 << 53) - 1, i64::from(FencingToken::MAX));
        assert!(token(9) < token(10));
        let error = FencingToken::try_from(0).unwrap_err().to_string();
        assert_eq!("0 is no fencing token: they go from 1 to 9007199254740991", error);
    }

    #[test]
    fn a_counter_grows_by_one_where_its_clock_stands() {
        assert_eq!(Some(token(1)), FencingToken::next(None, ZERO));
        assert_eq!(Some(token(2)), FencingToken::next(Some(token(1)), ZERO));
        assert_eq!(Some(FencingToken::MAX), FencingToken::next(FencingToken::new((1 << 53) - 2), ZERO));
        assert_eq!(None, FencingToken::next(Some(FencingToken::MAX), ZERO));
    }

    #[test]
    fn a_counter_that_was_lost_goes_on_with_the_time() {
        let micros = |micros| FencingToken::next(None, Duration::from_micros(micros)).unwrap();
        assert_eq!(token(1), micros(GRANULE - 1));
        assert_eq!(token(GRANULE), micros(GRANULE));
        assert_eq!(token(GRANULE), micros(2 * GRANULE - 1));
        assert_eq!(
            Some(token(GRANULE + 1)),
            FencingToken::next(Some(token(GRANULE)), Duration::from_micros(GRANULE))
        );
        assert_eq!(None, FencingToken::next(None, Duration::from_secs(10_000_000_000)));
    }

    #[test]
    fn what_is_plausible_is_below_the_counter_that_follows_when_it_is_forgotten() {
        let (day, micros) = (Duration::from_secs(86_400), Duration::from_micros);
        for now in [ZERO, micros(GRANULE - 1), micros(7 * GRANULE), Duration::from_secs(1_800_000_000)] {
            let following = FencingToken::next(None, now + day).unwrap();
            assert!(!following.is_plausible(now, day), "{now:?}");
            assert!(token(following.as_u64() - 1).is_plausible(now, day), "{now:?}");
            assert!(following.is_plausible(now + micros(GRANULE), day), "it becomes so with time");
            assert!(!FencingToken::MAX.is_plausible(now, day));
        }
        assert!(FencingToken::MAX.is_plausible(ZERO, Duration::MAX));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn it_travels_as_an_integer() {
        assert_eq!("42", serde_json::to_string(&token(42)).unwrap());
        assert_eq!(token(42), serde_json::from_str("42").unwrap());
        assert!(serde_json::from_str::<FencingToken>("0").is_err());
        assert!(serde_json::from_str::<FencingToken>("9007199254740992").is_err());
    }
}
