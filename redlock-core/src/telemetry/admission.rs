//! The log messages and metrics about nodes in quarantine.
//!
//! A request that detects a change emits them. A node that is merely not connected emits nothing here.

use std::sync::atomic::{AtomicU64, Ordering};

use super::TARGET;
use crate::node::{Admission, AdmissionId, Quarantine, QuarantineReason};
use crate::sync::{Mutex, locked};

/// The last known admission of one node.
#[derive(Debug, Default)]
pub(crate) struct AdmissionLog {
    /// The mark of the present admission; 0 during a quarantine and before the first reading.
    mark: AtomicU64,
    /// The reason of the quarantine, if it was logged.
    logged: Mutex<Option<QuarantineReason>>,
}

/// Returns the mark of an admission: not zero, and different for admissions that follow each other.
fn mark(AdmissionId(id): AdmissionId) -> u64 {
    id.wrapping_add(1).max(1)
}

impl AdmissionLog {
    /// Reports a change. Usually there is none, which costs one atomic load.
    pub(crate) fn note(&self, node: &str, admission: Admission) {
        match admission {
            Admission::Unchecked => {}
            Admission::Admitted(id) if self.mark.load(Ordering::Relaxed) == mark(id) => {}
            Admission::Admitted(id) => {
                self.mark.store(mark(id), Ordering::Relaxed);
                if locked(&self.logged).take().is_some() {
                    tracing::info!(target: TARGET, node, "node admitted");
                }
                counts(node, true);
            }
            Admission::Quarantined(quarantine) => self.quarantined(node, quarantine),
        }
    }

    fn quarantined(&self, node: &str, Quarantine { reason, remaining }: Quarantine) {
        if self.mark.swap(0, Ordering::Relaxed) != 0 {
            counts(node, false);
        }
        if matches!(reason, QuarantineReason::NotChecked | QuarantineReason::Changed) {
            return;
        }
        if locked(&self.logged).replace(reason) != Some(reason) {
            let remaining = remaining.map(tracing::field::debug);
            tracing::warn!(target: TARGET, node, %reason, remaining, "node quarantined");
            counts(node, false);
            #[cfg(feature = "metrics")]
            metrics::counter!(
                super::name::QUARANTINES, "node" => node.to_owned(), "reason" => label(reason)
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

#[cfg(feature = "metrics")]
fn label(reason: QuarantineReason) -> &'static str {
    match reason {
        QuarantineReason::NotChecked => "not_checked",
        QuarantineReason::Changed => "changed",
        QuarantineReason::Restarted => "restarted",
        QuarantineReason::DataLost => "data_lost",
        QuarantineReason::Promoted => "promoted",
        QuarantineReason::Recent => "recent",
        QuarantineReason::Replica => "replica",
        QuarantineReason::NoPermission => "no_permission",
        QuarantineReason::LaterVersion => "later_version",
    }
}
