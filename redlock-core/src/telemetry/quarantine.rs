//! The log messages and metrics about nodes in quarantine.
//!
//! A reply that shows a change emits them. A node that is merely not connected emits nothing here. Replies of several
//! shards alternate while one of them is in quarantine. This is one quarantine of the node, which ends with the last one.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use super::TARGET;
use crate::sync::{Mutex, locked};
use crate::types::quarantine::{Quarantine, QuarantineReason};
use crate::types::report::Outcome;

/// What is known about the quarantine of one node.
#[derive(Debug, Default)]
pub(crate) struct QuarantineLog {
    /// True since a vote counted, until one does not.
    counts: AtomicBool,
    /// The reasons of the present quarantine that were logged.
    logged: Mutex<Vec<QuarantineReason>>,
}

impl QuarantineLog {
    /// Reports a change. Usually there is none, which costs one atomic load.
    ///
    /// `is_partly_quarantined`: returns whether other votes of the node do not count.
    pub(crate) fn note(&self, node: &str, outcome: &Outcome, is_partly_quarantined: impl FnOnce() -> bool) {
        match outcome {
            Outcome::Quarantined { quarantine, .. } => self.quarantined(node, *quarantine),
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => {}
            _ if self.counts.load(Ordering::Relaxed) || is_partly_quarantined() => {}
            _ => {
                self.counts.store(true, Ordering::Relaxed);
                if !mem::take(&mut *locked(&self.logged)).is_empty() {
                    tracing::info!(target: TARGET, node, "node admitted");
                }
                counts(node, true);
            }
        }
    }

    fn quarantined(&self, node: &str, Quarantine { reason, remaining }: Quarantine) {
        if self.counts.swap(false, Ordering::Relaxed) {
            counts(node, false);
        }
        if matches!(
            reason,
            QuarantineReason::NotChecked | QuarantineReason::Changed | QuarantineReason::NodeListNotCompared
        ) {
            return;
        }
        let is_new = {
            let mut logged = locked(&self.logged);
            let is_new = !logged.contains(&reason);
            if is_new {
                logged.push(reason);
            }
            is_new
        };
        if is_new {
            let remaining = remaining.map(tracing::field::debug);
            tracing::warn!(target: TARGET, node, %reason, remaining, "node quarantined");
            counts(node, false);
            #[cfg(feature = "metrics")]
            metrics::counter!(
                super::name::QUARANTINES, "node" => node.to_owned(), "reason" => reason.name()
            )
            .increment(1);
        }
    }
}

fn counts(node: &str, admitted: bool) {
    let _ = (node, admitted);
    #[cfg(feature = "metrics")]
    metrics::gauge!(super::name::NODE_ADMITTED, "node" => node.to_owned()).set(f64::from(u8::from(admitted)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quarantine_of_one_shard_is_one_although_replies_of_others_count() {
        let log = QuarantineLog::default();
        let uncounted = |reason| Outcome::Quarantined { granted: true, quarantine: Quarantine::new(reason) };
        let [lost, promoted] = [QuarantineReason::DataLost, QuarantineReason::Promoted];
        let state = || (log.counts.load(Ordering::Relaxed), locked(&log.logged).clone());
        for (outcome, is_partly_quarantined, expected) in [
            (Outcome::Granted, false, (true, vec![])),
            (uncounted(lost), true, (false, vec![lost])),
            (Outcome::Granted, true, (false, vec![lost])),
            (uncounted(promoted), true, (false, vec![lost, promoted])),
            (uncounted(lost), true, (false, vec![lost, promoted])),
            (Outcome::Granted, true, (false, vec![lost, promoted])),
            (Outcome::Granted, false, (true, vec![])),
        ] {
            log.note("node", &outcome, || is_partly_quarantined);
            assert_eq!(expected, state());
        }
    }
}
