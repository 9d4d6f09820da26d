//! The measured rate of a server's clock.

use std::fmt;
use std::time::Duration;

/// The measured rate of a server's clock, relative to the clock of this process.
///
/// Returned by [`NodeHealth::clock_rate`](crate::NodeHealth::clock_rate). A step of the clock within the time of the
/// measurement looks like a fast or slow rate.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::ClockRate;
/// // chrony corrects the clock of the server as fast as its default setting permits.
/// let rate = ClockRate::new(83_000, 20, Duration::from_secs(10));
/// assert_eq!("clock 83000 ppm fast (± 20 ppm, over 10s)", rate.to_string());
/// assert!(rate.exceeds(0.01) && !rate.exceeds(0.1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockRate {
    /// The rate above that of a clock that is right, in parts per million. It is negative for a slow clock, and
    /// -1,000,000 for a clock that stands still.
    pub ppm: i64,
    /// The largest error of `ppm`, in parts per million. It follows from the round trips of the measurement.
    pub error_ppm: u64,
    /// The time between the two readings of the measurement.
    pub over: Duration,
}

impl ClockRate {
    /// Creates a rate.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::ClockRate;
    /// let rate = ClockRate::new(-120, 15, Duration::from_secs(60));
    /// assert_eq!("clock 120 ppm slow (± 15 ppm, over 60s)", rate.to_string());
    /// ```
    #[must_use]
    pub fn new(ppm: i64, error_ppm: u64, over: Duration) -> Self {
        Self { ppm, error_ppm, over }
    }

    /// Returns the least rate that the measurement permits, in parts per million.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::ClockRate;
    /// let rate = ClockRate::new(12_000, 3_000, Duration::from_secs(10));
    /// assert_eq!(9_000, rate.least_ppm());
    /// assert!(!rate.exceeds(0.01), "it may be the error of the measurement");
    /// ```
    #[must_use]
    pub fn least_ppm(self) -> i64 {
        self.ppm.saturating_sub_unsigned(self.error_ppm)
    }

    /// Returns whether keys certainly expire before the validity of their lease ends.
    ///
    /// This is the case for each TTL, up to 2 ms. `drift_factor` is that of
    /// [`clock_drift_factor`](crate::Builder::clock_drift_factor). A clock that is fast by a share *a* lets a key expire
    /// after TTL / (1 + *a*), and a lease is valid for TTL · (1 - factor).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::ClockRate;
    /// let rate = |ppm| ClockRate::new(ppm, 0, Duration::from_secs(10));
    /// assert!(rate(10_102).exceeds(0.01) && !rate(10_101).exceeds(0.01));
    /// ```
    #[must_use]
    pub fn exceeds(self, drift_factor: f64) -> bool {
        #[allow(clippy::cast_precision_loss)] // rates are far below 2^52 ppm
        let share = self.least_ppm() as f64 / 1e6;
        share * (1.0 - drift_factor) > drift_factor
    }
}

/// Formats as `clock 83000 ppm fast (± 20 ppm, over 10s)`.
impl fmt::Display for ClockRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ppm, error_ppm, over } = self;
        let direction = if *ppm < 0 { "slow" } else { "fast" };
        write!(f, "clock {} ppm {direction} (± {error_ppm} ppm, over {over:.0?})", ppm.unsigned_abs())
    }
}
