//! The readings of a server's wall clock.
//!
//! `TIME` follows a vote over the same connection: the clock that expired a key was not later than the one that is read
//! behind the vote. One reading may be behind many votes.

use std::time::Duration;

use redlock_core::node::ClockReading;
use redlock_core::runtime::{Instant, Runtime};

use crate::message::{Command, Reply};

/// The command that reads the clock.
pub(crate) const TIME: Command<'static> = Command::Other { name: "TIME", args: &[] };

/// Returns the reading of a reply to `TIME` that was received just now; `None` if it is an error.
pub(crate) fn reading(sent: Instant, reply: &Reply, runtime: &dyn Runtime) -> Option<ClockReading> {
    Some(ClockReading { sent: Some(sent), server: time(reply)?, received: runtime.now() })
}

/// Reads the time since the Unix epoch from the reply to `TIME`.
pub(crate) fn time(reply: &Reply) -> Option<Duration> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Bytes(seconds), Reply::Bytes(micros)] = &**parts else { return None };
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
    let micros = number(micros).filter(|micros| *micros < 1_000_000)?;
    Duration::from_secs(number(seconds)?).checked_add(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pair_of_numbers_is_a_time() {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let pair = |seconds, micros| time(&Reply::Array(vec![bytes(seconds), bytes(micros)]));
        assert_eq!(Some(Duration::from_micros(1_700_000_000_000_250)), pair("1700000000", "250"));
        for (seconds, micros) in
            [("", "0"), ("-1", "0"), ("1", "x"), ("1", "1000000"), ("18446744073709551616", "0")]
        {
            assert_eq!(None, pair(seconds, micros), "{seconds} {micros}");
        }
        assert_eq!(None, time(&Reply::Array(vec![bytes("1")])));
        assert_eq!(None, time(&Reply::Error("NOPERM".into())));
    }
}
