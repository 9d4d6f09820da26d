//! The rate of a server's clock, which a health check reports.
//!
//! Without restart admission, nothing else notices that a clock runs fast. The clock is then read in the handshake, and
//! by the [probes](crate::probe) of the connection, in place of a `PING`. With restart admission, the readings of the
//! [keeper](crate::admission::keeper) are sufficient.

use redlock_core::ClockRate;
use redlock_core::node::{ClockMeter, ClockReading, ServerId};

use crate::sync::{Mutex, locked};
use crate::telemetry;

/// The rate of the clock of a node's server. It outlives connections.
#[derive(Debug)]
pub(crate) struct MeasuredClock {
    label: Box<str>,
    /// True if a clock that runs fast is logged. Otherwise the node is in quarantine, which is logged.
    warns: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    meter: ClockMeter,
    server: Option<ServerId>,
    /// The least clock drift factor of the clients.
    drift_factor: Option<f64>,
    /// The judgment at the last reading.
    pace: Pace,
}

/// The rate of a clock, compared with the drift factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pace {
    #[default]
    Right,
    Fast,
    Slow,
}

impl Pace {
    /// Judges a rate by what is certain about it.
    fn of(rate: ClockRate, drift_factor: f64) -> Self {
        #[allow(clippy::cast_precision_loss)] // rates are far below 2^52 ppm
        let most = rate.ppm.saturating_add_unsigned(rate.error_ppm) as f64 / 1e6;
        if rate.exceeds(drift_factor) {
            Self::Fast
        } else if most < -drift_factor {
            Self::Slow
        } else {
            Self::Right
        }
    }
}

impl MeasuredClock {
    pub(crate) fn new(label: &str, warns: bool) -> Self {
        Self { label: label.into(), warns, state: Mutex::default() }
    }

    /// Returns the last rate that was measured.
    pub(crate) fn rate(&self) -> Option<ClockRate> {
        locked(&self.state).meter.rate()
    }

    /// Sets the clock drift factor, unless a smaller one was set before.
    pub(crate) fn set_drift_factor(&self, factor: f64) {
        let mut state = locked(&self.state);
        state.drift_factor = Some(state.drift_factor.map_or(factor, |least| least.min(factor)));
    }

    /// Records the server of a new connection. If it is another one, or unknown, the measurement begins again.
    pub(crate) fn connected(&self, server: Option<ServerId>) {
        let mut state = locked(&self.state);
        if server.is_none() || state.server != server {
            state.meter.restart();
        }
        state.server = server;
    }

    /// Records a reading, and logs if the clock begins or ceases to run fast or slowly.
    pub(crate) fn record(&self, reading: ClockReading) {
        let mut state = locked(&self.state);
        let Some(rate) = state.meter.record(reading) else { return };
        let (Some(drift_factor), before) = (state.drift_factor, state.pace) else { return };
        let pace = Pace::of(rate, drift_factor);
        state.pace = pace;
        drop(state);
        telemetry::clock_measured(&self.label, rate, self.warns.then_some(pace == Pace::Fast));
        if pace != before {
            self.log(rate, drift_factor, before, pace);
        }
    }

    fn log(&self, rate: ClockRate, drift_factor: f64, before: Pace, pace: Pace) {
        let (node, ClockRate { ppm, error_ppm, over, .. }) = (&*self.label, rate);
        match (before, pace) {
            (_, Pace::Fast) if self.warns => tracing::warn!(
                node,
                ppm,
                error_ppm,
                ?over,
                drift_factor,
                "clock of the server runs fast: two clients can hold one lock"
            ),
            (_, Pace::Slow) => tracing::warn!(
                node,
                ppm,
                error_ppm,
                ?over,
                drift_factor,
                "clock of the server runs slowly, or stands still: keys expire late"
            ),
            (Pace::Fast, Pace::Right) if !self.warns => {}
            (_, Pace::Right) => tracing::info!(node, ppm, error_ppm, "clock of the server right again"),
            (_, Pace::Fast) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlock_core::runtime::Instant;

    use super::*;

    /// Records a reading after these milliseconds, without any delay.
    fn read(meter: &MeasuredClock, client: u64, server: u64) -> Option<ClockRate> {
        let now = Instant::ORIGIN + Duration::from_millis(client);
        let server = Duration::from_millis(server);
        meter.record(ClockReading { sent: Some(now), server, received: now });
        meter.rate()
    }

    #[test]
    fn another_server_is_measured_separately() {
        let meter = MeasuredClock::new("a", true);
        let [one, other] = ["one", "other"].map(|id| Some(ServerId::new(id)));
        meter.connected(one);
        read(&meter, 0, 0);
        meter.connected(one);
        assert!(read(&meter, 1_000, 1_000).is_some(), "the same server over another connection");
        meter.connected(other);
        assert_eq!(None, read(&meter, 2_000, 90_000));
        meter.connected(None);
        assert_eq!(None, read(&meter, 3_000, 0));
        meter.connected(None);
        assert_eq!(None, read(&meter, 4_000, 90_000), "it may be another one");
    }

    #[test]
    fn the_smallest_drift_factor_counts() {
        let meter = MeasuredClock::new("a", true);
        for (factor, is_fast) in [(0.1, false), (0.01, true), (0.05, true)] {
            meter.set_drift_factor(factor);
            meter.connected(None);
            read(&meter, 0, 0);
            read(&meter, 1_000, 1_030);
            assert_eq!(is_fast, locked(&meter.state).pace == Pace::Fast, "{factor}");
        }
    }
}
