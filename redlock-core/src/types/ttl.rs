//! The time to live of the keys of a lock.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::types::error::Error;

/// A valid time to live: whole milliseconds from [`Ttl::MIN`] to [`Ttl::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(NonZeroU32);

/// The maximum time by which the expiry of a key is earlier or later than its TTL on a clock without drift.
///
/// Servers expire keys by a clock of whole milliseconds. They read it again after they have reported a remaining time.
pub(crate) const EXPIRY_GRANULE: Duration = Duration::from_millis(2);

impl Ttl {
    /// The minimum: 10 ms.
    ///
    /// A shorter TTL would be too close to the drift allowance (2 ms and more) and a round trip.
    pub const MIN: Self = Self::of(10);

    /// The maximum: 24 days.
    ///
    /// It fits into a signed 32-bit number of milliseconds, the narrowest type of any server or timer in use.
    pub const MAX: Self = Self::of(24 * 24 * 60 * 60 * 1000);

    const fn of(millis: u32) -> Self {
        Self(NonZeroU32::new(millis).expect("at least 1 ms"))
    }

    /// Creates a TTL from a duration.
    ///
    /// Fractions of a millisecond are cut off, because servers count in milliseconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::ErrorKind;
    /// # use redlock_core::node::Ttl;
    /// // A configuration file contains the TTL in seconds.
    /// assert!(Ttl::new(Duration::from_secs(10)).is_ok());
    /// let error = Ttl::new(Duration::from_secs(0)).unwrap_err();
    /// assert_eq!(ErrorKind::InvalidInput, error.kind());
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the duration is below [`Ttl::MIN`] or above [`Ttl::MAX`].
    pub fn new(ttl: Duration) -> Result<Self, Error> {
        if ttl < Self::MIN.as_duration() {
            return Err(Error::invalid(format!("a TTL of {ttl:?} is too short; the minimum is 10 ms")));
        }
        match u32::try_from(ttl.as_millis()) {
            Ok(millis) if ttl <= Self::MAX.as_duration() => Ok(Self::of(millis)),
            _ => Err(Error::invalid(format!("a TTL of {ttl:?} is too long; the maximum is 24 days"))),
        }
    }

    /// Returns the TTL as a duration.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Ttl;
    /// # use redlock_core::runtime::suspend_aware_now;
    /// // A backend in memory determines when a key expires.
    /// let ttl = Ttl::new(Duration::from_secs(10))?;
    /// let expires = suspend_aware_now() + ttl.as_duration();
    /// assert!(expires > suspend_aware_now());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.as_millis())
    }

    /// Returns the TTL in milliseconds, as it is sent.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::Ttl;
    /// let ttl = Ttl::new(Duration::from_micros(1_500_999))?;
    /// let command = format!("SET orders:42 1d0ca7e5 NX PX {}", ttl.as_millis());
    /// assert_eq!("SET orders:42 1d0ca7e5 NX PX 1500", command);
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn as_millis(self) -> u64 {
        u64::from(self.0.get())
    }
}

/// Returns the TTL in milliseconds, for databases, whose integers are signed.
impl From<Ttl> for i64 {
    fn from(ttl: Ttl) -> Self {
        Self::from(ttl.0.get())
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = Error;

    fn try_from(ttl: Duration) -> Result<Self, Error> {
        Self::new(ttl)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_duration().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_inclusive_and_named_in_the_error() {
        for good in [Ttl::MIN.as_duration(), Duration::from_secs(10), Ttl::MAX.as_duration()] {
            let ttl = Ttl::new(good).unwrap();
            assert_eq!(good, ttl.as_duration());
            assert_eq!(i128::from(i64::from(ttl)), i128::try_from(good.as_millis()).unwrap());
        }
        let rejection = |ttl| Ttl::new(ttl).unwrap_err().to_string();
        assert_eq!("a TTL of 0ns is too short; the minimum is 10 ms", rejection(Duration::ZERO));
        assert!(rejection(Duration::from_micros(9_999)).contains("9.999ms is too short"));
        assert!(
            rejection(Ttl::MAX.as_duration() + Duration::from_nanos(1)).contains("the maximum is 24 days")
        );
        assert!(rejection(Duration::MAX).contains("the maximum is 24 days"));
    }

    #[test]
    fn fractions_of_a_millisecond_are_truncated() {
        assert_eq!(10, Ttl::new(Duration::from_micros(10_999)).unwrap().as_millis());
    }
}
