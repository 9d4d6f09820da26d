//! `--report`: the outcome for scripts that must not guess.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlock_redis_rs::runtime::{Instant, suspend_aware_now};
use serde::Serialize;

use super::machine::Record;
use super::verdict::{Ended, Exit, Verdict};

/// The fields of the file. The times `*_at` and `valid_until` are seconds on the boot clock, which all processes of a
/// machine share and which cannot be set. On Linux it is that of `/proc/uptime`, whose rate a time service may change, so
/// the times are converted from the clock of the leases when the file is written.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    outcome: &'static str,
    message: Option<String>,
    /// The exit code of the command, if it exited.
    command_code: Option<u8>,
    /// The signal that ended the command, if one did.
    command_signal: Option<i32>,
    /// The exit code of this program; `None` if it ends by a signal.
    code: Option<u8>,
    holder: Option<String>,
    fencing_token: Option<u64>,
    /// The index of the slot, with `--slots`.
    slot: Option<usize>,
    loss: Option<String>,
    waited_seconds: Option<f64>,
    kept_seconds: Option<f64>,
    /// The zero of the boot clock in seconds since 1970.
    ///
    /// Add it to the times below to compare them with those of other machines.
    boot_time: Option<f64>,
    granted_at: Option<f64>,
    started_at: Option<f64>,
    term_sent_at: Option<f64>,
    kill_sent_at: Option<f64>,
    ended_at: Option<f64>,
    tree_ended_at: Option<f64>,
    /// The last known end of the validity.
    valid_until: Option<f64>,
}

impl Report {
    pub(crate) fn new(
        verdict: &Verdict,
        exit: Exit,
        command: Option<Ended>,
        record: &Record,
        deadline: Option<Instant>,
    ) -> Self {
        let held = record.held.as_ref();
        let ahead = boot_clock_ahead();
        let seconds =
            |time: Option<Instant>| time.map(|time| time.elapsed_since_origin().as_secs_f64() + ahead);
        Self {
            outcome: verdict.name(),
            message: verdict.message(),
            command_code: command
                .and_then(|ended| if let Ended::Exited(code) = ended { Some(code) } else { None }),
            command_signal: command
                .and_then(|ended| if let Ended::Killed(signal) = ended { Some(signal) } else { None }),
            code: if let Exit::Code(code) = exit { Some(code) } else { None },
            holder: held.map(|held| held.holder.clone()),
            fencing_token: held.and_then(|held| held.fencing_token),
            slot: held.and_then(|held| held.slot.as_ref()).map(|slot| slot.index),
            loss: verdict.loss().map(str::to_owned).or_else(|| record.loss.clone()),
            waited_seconds: held.map(|held| held.waited.as_secs_f64()),
            kept_seconds: record.kept.as_ref().map(Duration::as_secs_f64),
            boot_time: boot_time(ahead),
            granted_at: seconds(held.map(|held| held.granted.into())),
            started_at: seconds(record.started),
            term_sent_at: seconds(record.term),
            kill_sent_at: seconds(record.kill),
            ended_at: seconds(record.ended),
            tree_ended_at: seconds(record.empty),
            valid_until: seconds(deadline.filter(|_| held.is_some())),
        }
    }
}

/// Returns how far the boot clock is ahead of the clock of the leases, in seconds.
#[cfg(target_os = "linux")]
fn boot_clock_ahead() -> f64 {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Boottime);
    let boot = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0));
    boot.as_secs_f64() - suspend_aware_now().elapsed_since_origin().as_secs_f64()
}

#[cfg(not(target_os = "linux"))]
fn boot_clock_ahead() -> f64 {
    0.0
}

fn boot_time(ahead: f64) -> Option<f64> {
    let since_boot = suspend_aware_now().elapsed_since_origin().as_secs_f64() + ahead;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.as_secs_f64() - since_boot)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn times_in_the_file_are_those_of_proc_uptime() {
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").expect("Linux has this file");
            text.split(' ').next().and_then(|first| first.parse().ok()).expect("it begins with a number")
        };
        let before = uptime();
        let now = suspend_aware_now().elapsed_since_origin().as_secs_f64() + boot_clock_ahead();
        // The file has hundredths of a second.
        assert!(before <= now + 0.01 && now <= uptime() + 0.02, "{before} {now}");
    }
}
