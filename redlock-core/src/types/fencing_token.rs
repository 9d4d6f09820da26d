//! Fencing tokens: numbers by which a resource rejects writes of stale holders.
//!
//! A lease cannot stop a holder that was paused past its validity. The protected resource can, if every write carries a
//! number and the resource rejects numbers smaller than the greatest one it has seen. [Why fencing holds] describes how
//! independent nodes agree on such numbers.
//!
//! [Why fencing holds]: https://github.com/redlock-rs/redlock/blob/main/docs/internals/why-fencing-holds.md

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// A number that is greater than that of every earlier grant of the same resource.
///
/// See [`LockRequest::fenced`]. The maximum is 2<sup>53</sup> - 1. Thus a token is exact as a JSON number, in Lua and in
/// JavaScript, and it fits the signed integers of databases: use `i64::from`. With the feature `serde` it is serialized
/// as an integer.
///
/// [`LockRequest::fenced`]: crate::LockRequest::fenced
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u64", try_from = "u64"))]
pub struct FencingToken(NonZeroU64);

/// The step of the time with which a counter begins, in microseconds: about 4.2 s.
const TIME_STEP: u64 = 1 << 22;

impl FencingToken {
    /// The maximum: 2<sup>53</sup> - 1.
    pub const MAX: Self = Self(NonZeroU64::new((1 << 53) - 1).unwrap());

    /// Creates a token from a number.
    ///
    /// Returns `None` for zero and for numbers above [`MAX`](FencingToken::MAX).
    ///
    /// ```
    /// # use redlock_core::FencingToken;
    /// // The resource receives the token as text with each write.
    /// let parse = |text: &str| text.parse().ok().and_then(FencingToken::new);
    /// assert!(parse("1799999998394368") < parse("1799999998394369"));
    /// assert_eq!(None, parse("0"));
    /// ```
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self).filter(|token| *token <= Self::MAX)
    }

    /// Returns the number.
    ///
    /// ```
    /// # use redlock_core::FencingToken;
    /// # let token = FencingToken::new(1_799_999_998_394_368).unwrap();
    /// // A binary protocol has eight bytes for the token.
    /// let bytes = token.as_u64().to_be_bytes();
    /// let received = FencingToken::new(u64::from_be_bytes(bytes));
    /// assert_eq!(Some(token), received);
    /// ```
    pub fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// Returns the new value of a node's counter when the node grants.
    ///
    /// For backends. The value is one more than the counter, and at least the node's own time. That time is in
    /// microseconds since 1970, rounded down to a multiple of 2<sup>22</sup>. Returns `None` at the end of all numbers.
    ///
    /// The time is for counters that were lost. They continue above their old value, if the node was away for longer
    /// than one step of the time plus the differences of the clocks. While no counter is lost, clocks have no
    /// influence.
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

    /// Returns whether a node may store this number.
    ///
    /// For backends. `node_time` is the node's own time since 1970, and counters are kept for `retention` from now on.
    /// A number is plausible if the node's clock will have passed it when the counter is forgotten. Thus the number may
    /// be ahead by up to `retention`, less the part of a step of 2<sup>22</sup> us that [`next`](FencingToken::next)
    /// rounds down.
    ///
    /// If a number that is stored or about to be written is not plausible, the node returns an error and changes
    /// nothing. Such a number comes from a damaged counter, or from a clock that is wrong by more than `retention`. A
    /// node that stored it would end the use of the resource, or let tokens decrease once the counter is forgotten.
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

/// Rounds a time in microseconds down to whole steps.
fn coarse(micros: u64) -> u64 {
    micros - micros % TIME_STEP
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

/// Rejects numbers that are not tokens.
impl TryFrom<u64> for FencingToken {
    type Error = InvalidFencingToken;

    fn try_from(number: u64) -> Result<Self, InvalidFencingToken> {
        Self::new(number).ok_or(InvalidFencingToken(number))
    }
}

/// The error for a number that is not a [`FencingToken`].
///
/// It is zero, or greater than [`FencingToken::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidFencingToken(u64);

impl fmt::Display for InvalidFencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid fencing token {}: the range is 1 to {}", self.0, FencingToken::MAX)
    }
}

impl std::error::Error for InvalidFencingToken {}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).unwrap()
    }

    #[test]
    fn tokens_are_integers_that_every_language_represents_exactly() {
        assert_eq!(None, FencingToken::new(0));
        assert_eq!(None, FencingToken::new(1 << 53));
        assert_eq!("9007199254740991", FencingToken::MAX.to_string());
        assert_eq!((1 << 53) - 1, i64::from(FencingToken::MAX));
        assert!(token(9) < token(10));
        let error = FencingToken::try_from(0).unwrap_err().to_string();
        assert_eq!("invalid fencing token 0: the range is 1 to 9007199254740991", error);
    }

    #[test]
    fn a_counter_increases_by_one_if_its_clock_stands_still() {
        assert_eq!(Some(token(1)), FencingToken::next(None, ZERO));
        assert_eq!(Some(token(2)), FencingToken::next(Some(token(1)), ZERO));
        assert_eq!(Some(FencingToken::MAX), FencingToken::next(FencingToken::new((1 << 53) - 2), ZERO));
        assert_eq!(None, FencingToken::next(Some(FencingToken::MAX), ZERO));
    }

    #[test]
    fn a_lost_counter_continues_from_the_clock() {
        let micros = |micros| FencingToken::next(None, Duration::from_micros(micros)).unwrap();
        assert_eq!(token(1), micros(TIME_STEP - 1));
        assert_eq!(token(TIME_STEP), micros(TIME_STEP));
        assert_eq!(token(TIME_STEP), micros(2 * TIME_STEP - 1));
        assert_eq!(
            Some(token(TIME_STEP + 1)),
            FencingToken::next(Some(token(TIME_STEP)), Duration::from_micros(TIME_STEP))
        );
        assert_eq!(None, FencingToken::next(None, Duration::from_secs(10_000_000_000)));
    }

    #[test]
    fn plausible_counters_are_below_the_one_that_follows_their_loss() {
        let (day, micros) = (Duration::from_secs(86_400), Duration::from_micros);
        for now in [ZERO, micros(TIME_STEP - 1), micros(7 * TIME_STEP), Duration::from_secs(1_800_000_000)] {
            let following = FencingToken::next(None, now + day).unwrap();
            assert!(!following.is_plausible(now, day), "{now:?}");
            assert!(token(following.as_u64() - 1).is_plausible(now, day), "{now:?}");
            assert!(following.is_plausible(now + micros(TIME_STEP), day), "it becomes plausible later");
            assert!(!FencingToken::MAX.is_plausible(now, day));
        }
        assert!(FencingToken::MAX.is_plausible(ZERO, Duration::MAX));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_serialized_as_an_integer() {
        assert_eq!("42", serde_json::to_string(&token(42)).unwrap());
        assert_eq!(token(42), serde_json::from_str("42").unwrap());
        assert!(serde_json::from_str::<FencingToken>("0").is_err());
        assert!(serde_json::from_str::<FencingToken>("9007199254740992").is_err());
    }
}
