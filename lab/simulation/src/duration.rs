//! Times as text, in the form in which plans and commands print them.

use std::time::Duration;

/// The units, with their length in nanoseconds.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Reads a time such as `1.5s`, exactly as the `Debug` format of [`Duration`] writes it.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let (number, unit) = text.split_at(unit);
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut sum = whole.parse::<u64>().ok()?.checked_mul(*nanos)?;
    let mut place = *nanos;
    for digit in fraction.chars() {
        // A digit below a nanosecond.
        if place < 10 {
            return None;
        }
        place /= 10;
        sum = sum.checked_add(u64::from(digit.to_digit(10)?) * place)?;
    }
    Some(Duration::from_nanos(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_read_again() {
        for nanos in [0, 1, 999, 1_000, 1_500, 123_456, 20_000_000, 1_234_567_890, 3_600_000_000_000] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(Some(time), duration(&format!("{time:?}")), "{time:?}");
        }
    }

    #[test]
    fn no_other_text_is_a_time() {
        for wrong in ["", "s", "1", "1 s", "1.5ns", "1.2.3s", "-1s", "99999999999s", "1m", ".s"] {
            assert_eq!(None, duration(wrong), "{wrong}");
        }
    }
}
