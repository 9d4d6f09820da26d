//! The conformance suite for any [`LockNode`]: one test for each sentence of its contract.
//!
//! Implement [`Backend`], which creates a client of your server, and call [`conformance!`](crate::conformance!) in a
//! test file. Each case becomes a `#[test]` with its own name. The expression creates the backend of one case, over a
//! server without any keys. A failed case reports the violated sentence of the contract.
//!
//! ```
//! use std::sync::Arc;
//!
//! use redlock_core::node::LockNode;
//! use redlock_testkit::MemoryNode;
//! use redlock_testkit::conformance::{self, Backend};
//!
//! struct Mine(MemoryNode);
//!
//! impl Backend for Mine {
//!     async fn node(&self) -> Arc<dyn LockNode> {
//!         self.0.clone().into()
//!     }
//! }
//!
//! // In a file under `tests`: a `#[test]` for each case.
//! redlock_testkit::conformance!(Mine(MemoryNode::new("mine")));
//!
//! // With a test harness of your own.
//! # fn main() {
//! for case in conformance::cases() {
//!     conformance::run(&Mine(MemoryNode::new("mine")), case);
//! }
//! # }
//! ```
//!
//! A backend on tokio overrides two more methods:
//!
//! ```
//! # use std::sync::Arc;
//! # use redlock_core::node::LockNode;
//! # use redlock_core::runtime::Runtime;
//! # use redlock_core::TokioRuntime;
//! # use redlock_testkit::{MemoryNode, conformance::Backend};
//! struct OnTokio {
//!     node: MemoryNode,
//!     tokio: tokio::runtime::Runtime,
//! }
//!
//! impl Backend for OnTokio {
//!     async fn node(&self) -> Arc<dyn LockNode> {
//!         self.node.clone().into()
//!     }
//!
//!     fn block_on(&self, case: impl Future<Output = ()>) {
//!         self.tokio.block_on(case);
//!     }
//!
//!     fn runtime(&self) -> Arc<dyn Runtime> {
//!         Arc::new(TokioRuntime::new())
//!     }
//! }
//! ```

mod acquire;
mod admission;
mod calls;
mod expiry;
mod extend;
mod fencing;
mod inspect;
mod keep;
mod many;
mod names;
mod release;
mod renew;
mod shared;
mod stage;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use redlock_core::Resource;
use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;

use self::stage::Stage;
use crate::threads::ThreadRuntime;

/// One server without any keys, for one case, and the means to run its clients.
///
/// It is dropped when the case is over.
pub trait Backend {
    /// Creates a client of the server.
    ///
    /// Each call creates another one: some cases use two, which must exclude each other.
    ///
    /// # Cancel safety
    ///
    /// Not required: this future is always driven to completion.
    fn node(&self) -> impl Future<Output = Arc<dyn LockNode>>;

    /// Sets a non-lock value under a key of the server, and returns the key.
    ///
    /// The default is `None`: the backend has no such values.
    ///
    /// # Cancel safety
    ///
    /// Same as [`node`](Backend::node).
    fn no_lock(&self) -> impl Future<Output = Option<Resource>> {
        async { None }
    }

    /// Returns a function that deletes all data of the server, for a backend with
    /// [restart admission](LockNode::admission).
    ///
    /// The default is `None`: such cases pass without a check.
    fn loss(&self) -> Option<Box<dyn Fn()>> {
        None
    }

    /// Runs a case to completion.
    ///
    /// The default runs it on the thread of the test, which suits nodes that need no runtime.
    fn block_on(&self, case: impl Future<Output = ()>) {
        crate::block_on(case);
    }

    /// Returns the runtime of [`block_on`](Backend::block_on).
    ///
    /// Keys expire by its time, and tasks that call nodes run on it. The default is the clock of the machine and
    /// threads, which suits nodes that need no runtime.
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(ThreadRuntime)
    }
}

/// Returns the names of all cases.
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs one case.
///
/// # Panics
///
/// Panics if the node violates its contract; the message contains the violated sentence. It also panics if there is no
/// such case.
pub fn run(backend: &impl Backend, case: &str) {
    let Some(case) = CASES.iter().find(|known| known.name == case) else {
        panic!("the conformance suite has no case {case:?}");
    };
    backend.block_on(async {
        let (node, twin) = (backend.node().await, backend.node().await);
        let (runtime, no_lock, lose) = (backend.runtime(), backend.no_lock().await, backend.loss());
        let stage = Stage { node, twin, runtime, no_lock, lose };
        (case.play)(&stage).await;
    });
}

struct Case {
    name: &'static str,
    play: for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Generates a `#[test]` for each case of the conformance suite.
///
/// The expression creates the backend. See [the suite](mod@crate::conformance).
#[macro_export]
macro_rules! conformance {
    ($backend:expr) => {
        $crate::__conformance_cases! { $crate::__conformance_tests, $backend }
    };
}

/// Passes all cases, by module, to another macro. This is the only list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($then:path, $($with:tt)*) => {
        $then! { [
            acquire::acquire_grants_a_free_resource
            acquire::acquire_denies_a_resource_of_another_holder
            acquire::a_denied_acquire_does_not_change_the_holders_time
            acquire::a_denial_reports_the_true_holder_and_remaining_time
            acquire::acquire_again_with_the_same_token_is_granted
            acquire::acquire_again_does_not_change_the_time
            acquire::acquire_sets_all_resources_or_none
            acquire::acquire_sets_absent_resources
            acquire::acquire_of_own_and_foreign_resources_changes_nothing
            extend::extend_prolongs_the_time_to_live
            extend::an_extended_resource_expires
            extend::extend_never_shortens_the_time_to_live
            extend::extend_handles_each_resource_separately
            extend::extend_creates_nothing
            extend::extend_revives_no_resource
            extend::extend_denies_a_resource_of_another_holder
            extend::extend_requires_every_resource
            renew::renew_prolongs_the_time_to_live
            renew::renew_creates_and_revives_nothing
            renew::renew_requires_every_resource
            keep::keep_for_shortens
            keep::keep_for_lengthens
            keep::keep_for_requires_every_resource
            release::release_frees_resources
            release::release_does_not_delete_a_resource_of_another_holder
            release::release_of_a_free_resource_returns_false
            release::release_deletes_the_remaining_ones_of_several_resources
            release::release_leaves_other_resources_of_the_token
            release::release_after_expiry_returns_false
            release::a_non_lock_value_is_an_error_for_acquire_and_kept_by_release
            inspect::inspect_returns_the_holder_and_the_remaining_time
            inspect::inspect_of_a_free_resource_returns_nothing
            inspect::inspect_changes_nothing
            inspect::inspect_of_a_non_lock_value_is_an_error
            inspect::capabilities_report_support_for_inspect
            watch::watch_reports_the_state_of_a_resource
            watch::watch_of_an_expired_resource_reports_it_as_free
            watch::watch_changes_nothing
            watch::a_release_over_the_same_client_completes_a_watch
            watch::a_release_by_another_client_completes_a_watch
            watch::no_release_is_missed_while_a_watch_begins
            watch::a_change_completes_all_watches_of_a_resource
            watch::capabilities_report_support_for_watch
            fencing::a_fenced_acquire_grants_a_free_resource
            fencing::a_counter_grows_by_one_or_goes_to_the_time
            fencing::a_denied_fenced_acquire_changes_nothing
            fencing::a_fenced_acquire_with_the_same_token_counts_once
            fencing::a_fenced_acquire_again_does_not_change_the_time
            fencing::a_fenced_acquire_sets_absent_resources_and_counts
            fencing::several_resources_count_above_the_greatest_counter
            fencing::every_resource_has_its_own_counter
            fencing::a_counter_outlives_its_lock
            fencing::plain_locks_do_not_change_counters
            fencing::plain_and_fenced_locks_exclude_each_other
            fencing::confirm_raises_the_counters
            fencing::confirm_prolongs_and_never_shortens
            fencing::confirm_denies_missing_and_foreign_resources
            fencing::a_superseded_confirm_changes_nothing
            fencing::refill_sets_absent_resources_and_raises_the_counters
            fencing::refill_denies_a_resource_of_another_holder
            fencing::a_superseded_refill_changes_nothing
            fencing::a_token_far_ahead_of_the_clock_is_an_error
            fencing::one_of_many_fenced_claims_at_once_counts
            fencing::two_clients_count_on_one_server
            fencing::a_non_lock_value_is_an_error_for_fenced_operations
            fencing::capabilities_report_support_for_fencing
            shared::many_readers_share_a_resource
            shared::readers_and_locks_exclude_each_other
            shared::a_reader_is_denied_while_the_gate_is_locked
            shared::a_shared_acquire_adds_the_reader_to_all_resources_or_none
            shared::a_reader_expires_beside_another
            shared::a_reader_with_a_short_time_shortens_no_other
            shared::extend_prolongs_one_reader
            shared::extend_of_an_expired_reader_is_denied
            shared::release_removes_one_reader_and_the_last_one_frees
            shared::the_token_of_a_reader_is_no_lock
            shared::inspect_returns_the_readers
            shared::a_shared_watch_reports_readers_as_free
            shared::a_release_of_a_lock_completes_a_shared_watch
            shared::a_non_lock_value_is_an_error_for_readers
            shared::capabilities_report_support_for_readers
            names::resource_names_are_binary_safe
            names::resources_are_not_joined
            names::the_longest_names_work
            names::tokens_are_binary_safe
            expiry::a_resource_expires_after_its_ttl
            expiry::every_resource_of_a_claim_expires
            expiry::an_expired_resource_is_free_for_others
            expiry::the_longest_ttl_is_not_truncated
            many::one_of_many_at_once_is_granted
            many::many_claims_at_once_get_replies
            many::two_clients_exclude_each_other
            many::two_clients_know_one_server
            admission::an_admission_lasts_while_nothing_is_lost
            admission::a_loss_ends_the_admission_before_the_next_reply
            admission::two_clients_learn_of_a_loss
            calls::a_dropped_acquire_is_atomic
            calls::a_dropped_release_is_atomic
            calls::a_dropped_extend_is_atomic
            calls::dropped_calls_leave_the_node_usable
            calls::a_connection_keeps_its_identity
            calls::a_connection_keeps_the_order
            calls::the_label_is_readable_and_stable
        ] $($with)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$($module:ident::$case:ident)*] $backend:expr) => {$(
        #[test]
        fn $case() {
            $crate::conformance::run(&$backend, stringify!($case));
        }
    )*};
}

macro_rules! table {
    ([$($module:ident::$case:ident)*]) => {
        static CASES: &[Case] =
            &[$(Case { name: stringify!($case), play: |stage| Box::pin($module::$case(stage)) }),*];
    };
}
__conformance_cases! { table, }
