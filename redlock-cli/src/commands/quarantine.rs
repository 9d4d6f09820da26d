//! A quarantine, in JSON.

use redlock_redis_rs::node::Quarantine;
use serde::Serialize;

/// The fields of a server whose votes do not count.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Json {
    reason: String,
    /// The time until the votes count again, if it is known.
    remaining_ms: Option<u128>,
}

impl From<&Quarantine> for Json {
    fn from(quarantine: &Quarantine) -> Self {
        let remaining_ms = quarantine.remaining.map(|left| left.as_millis());
        Self { reason: quarantine.reason.to_string(), remaining_ms }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlock_redis_rs::node::QuarantineReason;

    use super::*;

    #[test]
    fn the_reason_is_text_and_the_time_may_be_unknown() {
        let replica = Quarantine::new(QuarantineReason::Replica);
        let expected = Json { reason: "server is a replica".into(), remaining_ms: None };
        assert_eq!(expected, Json::from(&replica));
        let timed = Json::from(&replica.ending_in(Duration::from_millis(1500)));
        assert_eq!(Some(1500), timed.remaining_ms);
    }
}
