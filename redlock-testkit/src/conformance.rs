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
//! struct MyBackend(MemoryNode);
//!
//! impl Backend for MyBackend {
//!     async fn node(&self) -> Arc<dyn LockNode> {
//!         self.0.clone().into()
//!     }
//! }
//!
//! // In a file under `tests`: a `#[test]` for each case.
//! redlock_testkit::conformance!(
//!     MyBackend(MemoryNode::new("a")),
//!     without: [admission, non_lock_values]
//! );
//!
//! // With a custom test harness.
//! # fn main() {
//! for case in conformance::cases() {
//!     let outcome = conformance::run(&MyBackend(MemoryNode::new("a")), case);
//!     println!("{case}: {outcome:?}");
//! }
//! # }
//! ```
//!
//! # Optional capabilities
//!
//! Some cases need a capability that is optional. List the capabilities that the backend lacks as `without`. Their
//! cases are then ignored tests, with the capability as the reason. Without this list, they fail. A listed capability
//! that the backend supports fails as well. The function [`run`] needs no list: it skips the cases of a capability that
//! the backend lacks.
//!
//! | Capability | Required by the cases |
//! |---|---|
//! | `inspect`, `watch`, `keep`, `places`, `fencing`, `shared` | The field of the same name in [`LockNode::profile`]. |
//! | `admission` | [`Profile::longest_ttl`](redlock_core::node::Profile::longest_ttl), and [`Backend::loss`]. |
//! | `clock` | [`Backend::clock`]; all of these cases also need `admission`. |
//! | `non_lock_values` | [`Backend::no_lock`]. |
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
mod clock;
mod expiry;
mod extend;
mod fencing;
mod inspect;
mod keep;
mod many;
mod names;
mod needs;
mod places;
mod release;
mod shared;
mod stage;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::Resource;
use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;

use self::needs::Need;
use self::stage::Stage;
use crate::threads::ThreadRuntime;

/// A server without any keys, for one case, and the means to run its clients.
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
    /// The default is `None`: the backend lacks the [capability](self#optional-capabilities) `non_lock_values`.
    ///
    /// # Cancel safety
    ///
    /// Same as [`node`](Backend::node).
    fn no_lock(&self) -> impl Future<Output = Option<Resource>> {
        async { None }
    }

    /// Returns a function that deletes all data of the server, for a backend with
    /// [restart admission](redlock_core::node#restart-admission).
    ///
    /// The default is `None`: the backend lacks the [capability](self#optional-capabilities) `admission`.
    fn loss(&self) -> Option<Box<dyn Fn()>> {
        None
    }

    /// Returns a function that sets the clock of the server forward, for a backend that watches it with a
    /// [`ServerClock`](redlock_core::node::ServerClock).
    ///
    /// The steps are 4 ms to 10 s. The default is `None`: the backend lacks the
    /// [capability](self#optional-capabilities) `clock`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use redlock_core::node::LockNode;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_testkit::conformance::{self, Backend, Outcome};
    /// struct MyBackend(MemoryNode);
    ///
    /// impl Backend for MyBackend {
    ///     async fn node(&self) -> Arc<dyn LockNode> {
    ///         self.0.clone().into()
    ///     }
    ///
    ///     fn loss(&self) -> Option<Box<dyn Fn()>> {
    ///         let node = self.0.clone();
    ///         Some(Box::new(move || node.flush()))
    ///     }
    ///
    ///     fn clock(&self) -> Option<Box<dyn Fn(Duration)>> {
    ///         let node = self.0.clone();
    ///         Some(Box::new(move |forward| node.step_clock(forward)))
    ///     }
    /// }
    ///
    /// # let node = MemoryNode::new("a");
    /// node.set_longest_ttl(Duration::from_secs(10));
    /// let case = "a_reply_after_a_jump_of_the_clock_has_no_vote";
    /// assert_eq!(Outcome::Passed, conformance::run(&MyBackend(node), case));
    /// ```
    fn clock(&self) -> Option<Box<dyn Fn(Duration)>> {
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
///
/// ```
/// # use std::sync::Arc;
/// # use redlock_core::node::LockNode;
/// # use redlock_testkit::MemoryNode;
/// # use redlock_testkit::conformance::{self, Backend};
/// # struct MyBackend(MemoryNode);
/// # impl Backend for MyBackend {
/// #     async fn node(&self) -> Arc<dyn LockNode> { self.0.clone().into() }
/// # }
/// # let backend = || MyBackend(MemoryNode::new("a"));
/// for case in conformance::cases().filter(|case| case.starts_with("release_")) {
///     conformance::run(&backend(), case); // a new server for each case
/// }
/// ```
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// The end of a case that found no violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node keeps its contract.
    Passed,
    /// Nothing was checked: the backend lacks this capability.
    Skipped(&'static str),
}

/// Runs one case, or skips it if the backend lacks a capability that it needs.
///
/// ```
/// # use std::sync::Arc;
/// # use redlock_core::node::LockNode;
/// # use redlock_testkit::MemoryNode;
/// # use redlock_testkit::conformance::{self, Backend, Outcome};
/// # struct MyBackend(MemoryNode);
/// # impl Backend for MyBackend {
/// #     async fn node(&self) -> Arc<dyn LockNode> { self.0.clone().into() }
/// # }
/// # let backend = || MyBackend(MemoryNode::new("a"));
/// let outcome = conformance::run(&backend(), "acquire_grants_a_free_resource");
/// assert_eq!(Outcome::Passed, outcome);
/// let outcome = conformance::run(&backend(), "two_clients_learn_of_a_loss");
/// let expected = Outcome::Skipped("admission");
/// assert_eq!(expected, outcome, "`Backend::loss` is missing");
/// ```
///
/// # Panics
///
/// Panics if the node violates its contract; the message contains the violated sentence. It also panics if there is no
/// such case.
pub fn run(backend: &impl Backend, case: &str) -> Outcome {
    let Some(case) = CASES.iter().find(|known| known.name == case) else {
        panic!("the conformance suite has no case {case:?}");
    };
    on_stage(backend, async |stage| {
        if let Some(lack) = case.needs.iter().find(|need| !is_met(need, stage)) {
            return Outcome::Skipped(lack);
        }
        (case.play)(stage).await;
        Outcome::Passed
    })
}

/// Runs one case that must not be skipped.
#[doc(hidden)]
pub fn check(backend: &impl Backend, case: &str) {
    if let Outcome::Skipped(lack) = run(backend, case) {
        panic!("the backend lacks `{lack}`; declare it: `conformance!(..., without: [{lack}])`");
    }
}

/// Checks that the backend lacks these capabilities, whose cases are ignored.
#[doc(hidden)]
pub fn check_lacks(backend: &impl Backend, declared: &[&str]) {
    on_stage(backend, async |stage| {
        for need in declared {
            assert!(!is_met(need, stage), "the backend supports `{need}`; remove it from `without`");
        }
    });
}

fn is_met(need: &str, stage: &Stage) -> bool {
    let known = Need::find(need);
    known.unwrap_or_else(|| panic!("the conformance suite knows no capability `{need}`")).is_met(stage)
}

/// Runs steps on a new stage.
fn on_stage<T>(backend: &impl Backend, steps: impl AsyncFnOnce(&Stage) -> T) -> T {
    let mut output = None;
    backend.block_on(async {
        let (node, other_node) = (backend.node().await, backend.node().await);
        let (runtime, no_lock) = (backend.runtime(), backend.no_lock().await);
        let (lose, forward) = (backend.loss(), backend.clock());
        output = Some(steps(&Stage { node, other_node, runtime, no_lock, lose, forward }).await);
    });
    output.expect("the backend runs the case to completion")
}

struct Case {
    name: &'static str,
    /// The names of the capabilities without which the case is skipped.
    needs: &'static [&'static str],
    play: for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Generates a `#[test]` for each case of the conformance suite.
///
/// The expression creates the backend. `without` lists the capabilities that it lacks: see [the
/// suite](mod@crate::conformance#optional-capabilities).
#[macro_export]
macro_rules! conformance {
    ($backend:expr) => {
        $crate::__conformance_cases! { $crate::__conformance_tests, [] $backend }
    };
    ($backend:expr, without: [$($lack:ident),+ $(,)?]) => {
        $crate::__conformance_cases! { $crate::__conformance_tests, [$($lack)+] $backend }

        #[test]
        fn the_backend_lacks_what_is_declared() {
            $crate::conformance::check_lacks(&$backend, &[$(stringify!($lack)),+]);
        }
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
            keep::keep_for_shortens [keep]
            keep::keep_for_lengthens [keep]
            keep::keep_for_requires_every_resource [keep]
            places::a_release_reserves_for_the_longest_wait [places]
            places::a_failed_attempt_can_keep_its_place [places]
            places::a_request_is_preceded_by_a_longer_wait [places]
            places::a_place_can_be_left [places]
            places::some_releases_reserve_nothing [places]
            places::a_fenced_request_has_a_place [places fencing]
            places::a_request_for_two_resources_has_its_turn_on_each [places]
            places::the_number_of_waiters_and_the_position_are_correct [places inspect]
            places::a_reader_has_its_turn_on_the_resource_or_the_gate [shared places]
            places::readers_use_the_reservation_of_a_reader [shared places]
            release::release_frees_resources
            release::release_does_not_delete_a_resource_of_another_holder
            release::release_of_a_free_resource_returns_false
            release::release_deletes_the_remaining_ones_of_several_resources
            release::release_leaves_other_resources_of_the_token
            release::release_after_expiry_returns_false
            release::a_non_lock_value_is_an_error_for_acquire_and_kept_by_release [non_lock_values]
            inspect::inspect_returns_the_holder_and_the_remaining_time [inspect]
            inspect::inspect_of_a_free_resource_returns_nothing [inspect]
            inspect::inspect_changes_nothing [inspect]
            inspect::inspect_of_a_non_lock_value_is_an_error [inspect non_lock_values]
            inspect::the_profile_reports_support_for_inspect
            watch::watch_reports_the_state_of_a_resource [watch]
            watch::watch_of_an_expired_resource_reports_it_as_free [watch]
            watch::watch_changes_nothing [watch]
            watch::a_release_over_the_same_client_completes_a_watch [watch]
            watch::a_release_by_another_client_completes_a_watch [watch]
            watch::no_release_is_missed_while_a_watch_begins [watch]
            watch::a_change_completes_all_watches_of_a_resource [watch]
            watch::the_profile_reports_support_for_watch
            fencing::a_fenced_acquire_grants_a_free_resource [fencing]
            fencing::a_counter_grows_by_one_or_goes_to_the_time [fencing]
            fencing::a_denied_fenced_acquire_changes_nothing [fencing]
            fencing::a_fenced_acquire_with_the_same_token_counts_once [fencing]
            fencing::a_fenced_acquire_again_does_not_change_the_time [fencing]
            fencing::a_fenced_acquire_sets_absent_resources_and_counts [fencing]
            fencing::several_resources_count_above_the_greatest_counter [fencing]
            fencing::every_resource_has_its_own_counter [fencing]
            fencing::a_counter_outlives_its_lock [fencing]
            fencing::plain_locks_do_not_change_counters [fencing]
            fencing::plain_and_fenced_locks_exclude_each_other [fencing]
            fencing::confirm_raises_the_counters [fencing]
            fencing::confirm_prolongs_and_never_shortens [fencing]
            fencing::confirm_denies_missing_and_foreign_resources [fencing]
            fencing::a_superseded_confirm_changes_nothing [fencing]
            fencing::refill_sets_absent_resources_and_raises_the_counters [fencing]
            fencing::refill_denies_a_resource_of_another_holder [fencing]
            fencing::a_superseded_refill_changes_nothing [fencing]
            fencing::a_token_far_ahead_of_the_clock_is_an_error [fencing]
            fencing::one_of_many_fenced_claims_at_once_counts [fencing]
            fencing::two_clients_count_on_one_server [fencing]
            fencing::a_non_lock_value_is_an_error_for_fenced_operations [fencing non_lock_values]
            fencing::the_profile_reports_support_for_fencing
            shared::many_readers_share_a_resource [shared]
            shared::readers_and_locks_exclude_each_other [shared]
            shared::a_reader_is_denied_while_the_gate_is_locked [shared]
            shared::a_shared_acquire_adds_the_reader_to_all_resources_or_none [shared]
            shared::a_reader_expires_beside_another [shared]
            shared::a_reader_with_a_short_time_shortens_no_other [shared]
            shared::extend_prolongs_one_reader [shared]
            shared::extend_of_an_expired_reader_is_denied [shared]
            shared::release_removes_one_reader_and_the_last_one_frees [shared]
            shared::the_token_of_a_reader_is_no_lock [shared]
            shared::inspect_returns_the_readers [shared inspect]
            shared::a_shared_watch_reports_readers_as_free [shared watch]
            shared::a_release_of_a_lock_completes_a_shared_watch [shared watch]
            shared::a_non_lock_value_is_an_error_for_readers [shared non_lock_values]
            shared::the_profile_reports_support_for_readers
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
            admission::the_votes_of_a_node_count_while_nothing_is_lost [admission]
            admission::a_reply_after_a_loss_has_no_vote [admission]
            admission::a_request_that_began_before_a_loss_has_no_vote [admission]
            admission::two_clients_learn_of_a_loss [admission]
            clock::a_pause_is_no_jump_of_the_clock [admission clock]
            clock::a_reply_after_a_jump_of_the_clock_has_no_vote [admission clock]
            clock::a_request_that_began_before_a_jump_of_the_clock_has_no_vote [admission clock]
            clock::small_steps_of_the_clock_are_noticed [admission clock]
            clock::two_clients_notice_a_jump_of_the_clock [admission clock]
            clock::every_jump_of_the_clock_is_noticed [admission clock]
            calls::a_dropped_acquire_is_atomic
            calls::a_dropped_release_is_atomic
            calls::a_dropped_extend_is_atomic
            calls::dropped_calls_leave_the_node_usable
            calls::an_unsupported_request_is_an_error
            calls::a_request_dropped_before_its_first_poll_is_not_sent
            calls::a_connection_keeps_its_identity
            calls::the_status_states_the_connection_of_requests
            calls::a_connection_keeps_the_order
            calls::the_label_is_readable_and_stable
        ] $($with)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$($module:ident::$case:ident $([$($need:ident)*])?)*] $lacks:tt $backend:expr) => {
        $($crate::__conformance_test! { $case [$($($need)*)?] $lacks $lacks $backend })*
    };
}

/// Generates the test of one case.
///
/// The test is ignored if one of its needs is among the capabilities that the backend lacks.
///
/// The second list of capabilities is the part that is not yet compared with the first need.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ($case:ident [] $all:tt $left:tt $backend:expr) => {
        #[test]
        fn $case() {
            $crate::conformance::check(&$backend, stringify!($case));
        }
    };
    ($case:ident [inspect $($needs:ident)*] $all:tt [inspect $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `inspect`"]
        fn $case() {}
    };
    ($case:ident [watch $($needs:ident)*] $all:tt [watch $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `watch`"]
        fn $case() {}
    };
    ($case:ident [keep $($needs:ident)*] $all:tt [keep $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `keep`"]
        fn $case() {}
    };
    ($case:ident [places $($needs:ident)*] $all:tt [places $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `places`"]
        fn $case() {}
    };
    ($case:ident [fencing $($needs:ident)*] $all:tt [fencing $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `fencing`"]
        fn $case() {}
    };
    ($case:ident [shared $($needs:ident)*] $all:tt [shared $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `shared`"]
        fn $case() {}
    };
    ($case:ident [admission $($needs:ident)*] $all:tt [admission $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `admission`"]
        fn $case() {}
    };
    ($case:ident [clock $($needs:ident)*] $all:tt [clock $($left:ident)*] $backend:expr) => {
        #[test]
        #[ignore = "the backend lacks `clock`"]
        fn $case() {}
    };
    (
        $case:ident [non_lock_values $($needs:ident)*] $all:tt [non_lock_values $($left:ident)*] $backend:expr
    ) => {
        #[test]
        #[ignore = "the backend lacks `non_lock_values`"]
        fn $case() {}
    };
    ($case:ident [$met:ident $($needs:ident)*] $all:tt [] $backend:expr) => {
        $crate::__conformance_test! { $case [$($needs)*] $all $all $backend }
    };
    ($case:ident $needs:tt $all:tt [$other:ident $($left:ident)*] $backend:expr) => {
        $crate::__conformance_test! { $case $needs $all [$($left)*] $backend }
    };
}

macro_rules! table {
    ([$($module:ident::$case:ident $([$($need:ident)*])?)*]) => {
        static CASES: &[Case] = &[$(Case {
            name: stringify!($case),
            needs: &[$($(stringify!($need)),*)?],
            play: |stage| Box::pin($module::$case(stage)),
        }),*];
    };
}
__conformance_cases! { table, }
