//! Time as a lock sees it.
//!
//! A lease must not look valid after the machine was suspended, since the servers' clocks went on. So time is read from
//! a clock that counts suspension: `CLOCK_BOOTTIME` on Linux and Android; `CLOCK_MONOTONIC` on other Unix systems, which
//! counts it on Apple's and does not on some BSDs; elsewhere [`std::time::Instant`], which counts it on Windows.
//!
//! None of them counts the time for which a hypervisor pauses a virtual machine. See [`boot_time`].

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time on a [`Runtime`](crate::Runtime)'s clock, in nanoseconds since an origin of that clock's choice.
///
/// Instants of different clocks must not be compared. Arithmetic saturates: nothing here panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// The point that lies `elapsed` after the origin; some 584 years at most.
    pub fn since_origin(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time since the origin.
    pub fn elapsed_since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The time from `earlier` to this point, or zero when `earlier` is the later one.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(Self::since_origin(duration).0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(Self::since_origin(duration).0))
    }
}

/// Reads the machine's clock that counts suspension; what a [`Runtime`](crate::Runtime) on real time answers.
///
/// That is `CLOCK_BOOTTIME` on Linux and Android; `CLOCK_MONOTONIC` on other Unix systems, which counts suspension on Apple's
/// and does not on some BSDs; elsewhere [`std::time::Instant`], which counts it on Windows.
///
/// A hypervisor that pauses a virtual machine (live migration, restoring a snapshot) may stop all clocks of the machine.
/// After such a pause [`Lease::is_held`](crate::Lease::is_held) may be true although the keys on the nodes have expired.
/// Where that can happen, let the resource check [fencing tokens](crate::LockRequest::fenced).
#[cfg(unix)]
pub fn boot_time() -> Instant {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    // Neither clock is ever negative. Zero would be the wrong way round: leases would look valid for longer.
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Instant::since_origin(Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)))
}

/// Reads the machine's clock that counts suspension; what a [`Runtime`](crate::Runtime) on real time answers.
///
/// That is `CLOCK_BOOTTIME` on Linux and Android; `CLOCK_MONOTONIC` on other Unix systems, which counts suspension on Apple's
/// and does not on some BSDs; elsewhere [`std::time::Instant`], which counts it on Windows.
///
/// A hypervisor that pauses a virtual machine (live migration, restoring a snapshot) may stop all clocks of the machine.
/// After such a pause [`Lease::is_held`](crate::Lease::is_held) may be true although the keys on the nodes have expired.
/// Where that can happen, let the resource check [fencing tokens](crate::LockRequest::fenced).
#[cfg(not(unix))]
pub fn boot_time() -> Instant {
    use std::sync::OnceLock;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods)] // the one place that reads this clock
    let now = std::time::Instant::now();
    Instant::since_origin(now.saturating_duration_since(*ORIGIN.get_or_init(|| now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let late = Instant::since_origin(Duration::MAX);
        assert_eq!(late, late + Duration::from_secs(1));
        assert_eq!(Instant::ORIGIN, Instant::ORIGIN - Duration::from_secs(1));
        assert_eq!(Duration::ZERO, Instant::ORIGIN.saturating_duration_since(late));
    }

    #[test]
    fn the_boot_clock_never_goes_back() {
        let mut last = boot_time();
        for _ in 0..1000 {
            let now = boot_time();
            assert!(now >= last);
            last = now;
        }
    }
}
