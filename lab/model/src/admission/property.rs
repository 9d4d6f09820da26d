//! The invariants of every state.

named! {
    /// A property of the admission rule.
    pub enum Property {
        /// I1: at most one client has a valid lease.
        Exclusion = "I1 exclusion",
        /// Every node is admitted for a new client after one wait without losses.
        NoneStuck = "no node is stuck",
    }
}
