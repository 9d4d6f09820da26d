//! The clock of leases.
//!
//! A lease must not look valid after the machine was suspended, because the servers' clocks continued. Thus time is read
//! from a clock that counts suspension:
//!
//! - Linux and Android: `CLOCK_MONOTONIC_RAW`, and the time of suspension: `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`. A time
//!   service slews the last two, so a lease that they measure may look valid for too long.
//! - Other Unix systems: `CLOCK_MONOTONIC`. It counts suspension on Apple systems, but not on some BSDs.
//! - Other systems: [`std::time::Instant`]. It counts suspension on Windows.
//!
//! A hypervisor that pauses a virtual machine may stop all of them. See [`suspend_aware_now`].

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time on the clock of a [`Runtime`](crate::runtime::Runtime).
///
/// It counts nanoseconds since an origin that the clock chooses. Instants of different clocks must not be compared.
/// Arithmetic saturates and never panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);

    /// Returns the point that lies `elapsed` after the origin.
    ///
    /// The maximum is about 584 years.
    ///
    /// ```
    /// # use std::cell::Cell;
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Instant;
    /// // A test moves this clock by hand.
    /// let seconds = Cell::new(0);
    /// let now = || Instant::since_origin(Duration::from_secs(seconds.get()));
    /// seconds.set(90);
    /// assert_eq!(Instant::ORIGIN + Duration::from_secs(90), now());
    /// ```
    pub fn since_origin(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time since the origin.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Instant;
    /// // The clock of a simulated run starts at zero.
    /// let now = Instant::ORIGIN + Duration::from_millis(1250);
    /// let line = format!("{:?}: lock acquired", now.elapsed_since_origin());
    /// assert_eq!("1.25s: lock acquired", line);
    /// ```
    pub fn elapsed_since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time from `earlier` to this point, or zero if `earlier` is later.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Instant;
    /// let started = Instant::ORIGIN;
    /// let deadline = started + Duration::from_secs(2);
    /// // The next step may take this time.
    /// let left = |now| deadline.saturating_duration_since(now);
    /// assert_eq!(Duration::from_secs(2), left(started));
    /// assert_eq!(Duration::ZERO, left(started + Duration::from_secs(3)));
    /// ```
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

/// Reads the machine's clock that counts suspension.
///
/// A [`Runtime`](crate::runtime::Runtime) on real time returns this time.
///
/// - Linux and Android: `CLOCK_MONOTONIC_RAW`, and the time of suspension. No time service changes its rate.
/// - Other Unix systems: `CLOCK_MONOTONIC`. It counts suspension on Apple systems, but not on some BSDs. A time service may
///   change its rate.
/// - Other systems: [`std::time::Instant`]. It counts suspension on Windows.
///
/// A hypervisor that pauses a virtual machine (live migration, restoring a snapshot) may stop all clocks of the
/// machine. After such a pause [`Lease::is_held`](crate::Lease::is_held) may return `true` although the keys on the
/// nodes have expired. If that can happen, let the resource check [fencing tokens](crate::LockRequest::fenced).
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::runtime::suspend_aware_now;
/// let cached = suspend_aware_now();
/// // The time in which a laptop is suspended counts for the age, too.
/// let age = || suspend_aware_now().saturating_duration_since(cached);
/// assert!(age() < Duration::from_secs(3600), "the cache is fresh");
/// ```
#[cfg(unix)]
pub fn suspend_aware_now() -> Instant {
    machine_now().0
}

/// Returns the time of the clock of leases, and that of `CLOCK_MONOTONIC`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn machine_now() -> (Instant, Duration) {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The time in nanoseconds for which the machine was suspended.
    static SUSPENDED: AtomicU64 = AtomicU64::new(0);
    let (measured, mut monotonic) = time_of_suspension();
    let mut suspended = SUSPENDED.load(Ordering::Relaxed);
    if measured > suspended + MIN_SUSPENSION {
        // This thread may have been interrupted between the two readings, so the greatest of several counts.
        let mut longest = measured;
        for _ in 0..8 {
            let (again, later) = time_of_suspension();
            (longest, monotonic) = (longest.max(again), later);
        }
        suspended = SUSPENDED.fetch_max(longest, Ordering::Relaxed).max(longest);
    }
    let raw = read(rustix::time::ClockId::MonotonicRaw);
    (Instant::since_origin(raw) + Duration::from_nanos(suspended), monotonic)
}

/// The least increase of the time of suspension that counts, in nanoseconds. Two readings are usually closer.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MIN_SUSPENSION: u64 = 100_000;

/// Returns the time of suspension in nanoseconds, less the time between two readings, and the second reading.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn time_of_suspension() -> (u64, Duration) {
    use rustix::time::ClockId;

    let boot = read(ClockId::Boottime);
    // This order never makes the time of suspension too long. It counts forever.
    let monotonic = read(ClockId::Monotonic);
    (Instant::since_origin(boot.saturating_sub(monotonic)).0, monotonic)
}

/// Returns the time of the clock of leases, twice.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn machine_now() -> (Instant, Duration) {
    let monotonic = read(rustix::time::ClockId::Monotonic);
    (Instant::since_origin(monotonic), monotonic)
}

#[cfg(unix)]
fn read(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    // No such clock is ever negative. Zero would be the unsafe direction: leases would look valid for longer.
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Reads the machine's clock that counts suspension.
///
/// A [`Runtime`](crate::runtime::Runtime) on real time returns this time.
///
/// - Linux and Android: `CLOCK_MONOTONIC_RAW`, and the time of suspension. No time service changes its rate.
/// - Other Unix systems: `CLOCK_MONOTONIC`. It counts suspension on Apple systems, but not on some BSDs. A time service may
///   change its rate.
/// - Other systems: [`std::time::Instant`]. It counts suspension on Windows.
///
/// A hypervisor that pauses a virtual machine (live migration, restoring a snapshot) may stop all clocks of the
/// machine. After such a pause [`Lease::is_held`](crate::Lease::is_held) may return `true` although the keys on the
/// nodes have expired. If that can happen, let the resource check [fencing tokens](crate::LockRequest::fenced).
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::runtime::suspend_aware_now;
/// let cached = suspend_aware_now();
/// // The time in which a laptop is suspended counts for the age, too.
/// let age = || suspend_aware_now().saturating_duration_since(cached);
/// assert!(age() < Duration::from_secs(3600), "the cache is fresh");
/// ```
#[cfg(not(unix))]
pub fn suspend_aware_now() -> Instant {
    machine_now().0
}

/// Returns the time of the clock of leases, twice.
#[cfg(not(unix))]
pub(crate) fn machine_now() -> (Instant, Duration) {
    use std::sync::OnceLock;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods)] // the one place that reads this clock
    let now = std::time::Instant::now();
    let since = now.saturating_duration_since(*ORIGIN.get_or_init(|| now));
    (Instant::since_origin(since), since)
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
    fn the_suspend_aware_clock_never_goes_back() {
        let mut last = suspend_aware_now();
        for _ in 0..1000 {
            let now = suspend_aware_now();
            assert!(now >= last);
            last = now;
        }
    }

    /// Only a time service makes the two differ, by a tenth at most.
    #[test]
    fn the_clock_of_leases_runs_as_fast_as_the_monotonic_clock() {
        let bracketed = || (machine_now().1, suspend_aware_now(), machine_now().1);
        let (before, start, after) = bracketed();
        #[allow(clippy::disallowed_methods)] // the clocks of the machine are the subject
        std::thread::sleep(Duration::from_millis(50));
        let (again, end, last) = bracketed();
        let passed = end.saturating_duration_since(start);
        let (shortest, longest) = (again.saturating_sub(after), last.saturating_sub(before));
        assert!(passed >= shortest * 7 / 8 && passed <= longest * 9 / 8, "{passed:?}");
    }
}
