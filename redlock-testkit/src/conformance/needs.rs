//! The capabilities that some cases need. A case is skipped if the backend lacks one of them.

use super::stage::Stage;

/// A capability that a backend may lack.
pub(super) struct Need {
    pub(super) name: &'static str,
    is_met: fn(&Stage) -> bool,
}

impl Need {
    pub(super) fn is_met(&self, stage: &Stage) -> bool {
        (self.is_met)(stage)
    }

    /// Returns the capability with this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        NEEDS.iter().find(|need| need.name == name)
    }
}

/// The macro [`conformance!`](crate::conformance!) has an arm for each of them.
static NEEDS: &[Need] = &[
    Need { name: "inspect", is_met: |stage| stage.node.profile().inspect },
    Need { name: "watch", is_met: |stage| stage.node.profile().watch },
    Need { name: "keep", is_met: |stage| stage.node.profile().keep },
    Need { name: "fencing", is_met: |stage| stage.node.profile().fencing },
    Need { name: "places", is_met: |stage| stage.node.profile().places },
    Need { name: "shared", is_met: |stage| stage.node.profile().shared },
    Need {
        name: "admission",
        is_met: |stage| stage.lose.is_some() && stage.node.profile().longest_ttl.is_some(),
    },
    Need { name: "clock", is_met: |stage| stage.forward.is_some() },
    Need { name: "non_lock_values", is_met: |stage| stage.no_lock.is_some() },
];
