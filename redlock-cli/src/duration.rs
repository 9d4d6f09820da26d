//! Durations on the command line: `90s`, `5m`, `500ms`, or a number of seconds.

use std::time::Duration;

/// The units in milliseconds. `ms` precedes `s`, because it ends in `s`.
const UNITS: [(&str, f64); 5] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("ms", 1.0), ("m", 60_000.0), ("s", 1000.0)];

/// The longest duration that is accepted: about 31 years.
const LONGEST_MILLIS: f64 = 1e12;

/// Parses a duration. A number without a unit is seconds, as for `flock` and `timeout`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let unit = UNITS.iter().find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, *millis)));
    let (number, millis) = unit.unwrap_or((text, 1000.0));
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number.parse::<f64>().ok().filter(|_| plain);
    let millis =
        number.map(|number| number * millis).ok_or("expected a duration such as 90s, 5m, 500ms or 1.5")?;
    if millis > LONGEST_MILLIS {
        return Err("the duration is too long; the maximum is about 31 years".into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
    Ok(Duration::from_micros((millis * 1000.0).round() as u64))
}

/// Formats a duration in short form: `12.3s`, `4m10s`, `250ms`.
pub(crate) fn shown(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis % 1000 < 50 => format!("{seconds}s"),
        1..60 => format!("{}.{}s", seconds, millis % 1000 / 100),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ if (seconds / 60).is_multiple_of(60) => format!("{}h", seconds / 3600),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_bare_seconds() {
        let millis = |text| parse(text).unwrap().as_millis();
        for (text, expected) in [
            ("0", 0),
            ("10", 10_000),
            ("1.5", 1500),
            (".5", 500),
            ("90s", 90_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0.5m", 30_000),
        ] {
            assert_eq!(expected, millis(text), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in ["", "s", "-1", "+1", "1e3", "inf", "nan", "5 s", "5x", "1.2.3", "99999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_short_to_read() {
        for (millis, expected) in [
            (0, "0ms"),
            (250, "250ms"),
            (10_000, "10s"),
            (12_340, "12.3s"),
            (250_000, "4m10s"),
            (300_000, "5m"),
            (7_200_000, "2h"),
            (7_260_000, "2h1m"),
        ] {
            assert_eq!(expected, shown(Duration::from_millis(millis)));
        }
    }
}
