//! The log messages and metrics about nodes in quarantine.
//!
//! A reply that shows a change emits them. A node that is merely not connected emits nothing here.

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
    /// The reason of the quarantine, if it was logged.
    logged: Mutex<Option<QuarantineReason>>,
}

impl QuarantineLog {
    /// Reports a change. Usually there is none, which costs one atomic load.
    pub(crate) fn note(&self, node: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Quarantined { quarantine, .. } => self.quarantined(node, *quarantine),
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => {}
            _ if self.counts.load(Ordering::Relaxed) => {}
            _ => {
                self.counts.store(true, Ordering::Relaxed);
                if locked(&self.logged).take().is_some() {
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
        if locked(&self.logged).replace(reason) != Some(reason) {
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
