//! The conformance suite for any [`Runtime`]: one test for each sentence of its contract.
//!
//! Implement [`Driver`], which runs futures on your runtime, and call
//! [`runtime_conformance!`](crate::runtime_conformance!) in a test file. Each case becomes a `#[test]` with its own
//! name. The expression creates the driver of one case.
//!
//! ```
//! use std::sync::Arc;
//!
//! use redlock_core::runtime::{BoxFuture, Runtime};
//! use redlock_core::TokioRuntime;
//! use redlock_testkit::runtime_conformance::Driver;
//!
//! struct OnTokio(tokio::runtime::Runtime);
//!
//! impl Driver for OnTokio {
//!     fn runtime(&self) -> Arc<dyn Runtime> {
//!         Arc::new(TokioRuntime::new())
//!     }
//!
//!     fn block_on(&self, case: BoxFuture<()>) {
//!         self.0.block_on(case);
//!     }
//! }
//!
//! fn tokio() -> OnTokio {
//!     OnTokio(tokio::runtime::Builder::new_current_thread().enable_time().build().expect("tokio starts"))
//! }
//!
//! // In a file under `tests`: a `#[test]` for each case.
//! redlock_testkit::runtime_conformance!(tokio());
//! # fn main() {}
//! ```
//!
//! A failed case reports the violated sentence of the contract. No case depends on the speed of the machine.

mod random;
mod tasks;
mod time;

use std::sync::Arc;

use redlock_core::runtime::{BoxFuture, Runtime};

use crate::threads::ThreadRuntime;

/// A runtime under test, and the means to run a future on it.
///
/// It is dropped when the case is over.
pub trait Driver {
    /// Returns a handle to the runtime. Each call may return another one.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// Runs a case to completion, in the runtime.
    ///
    /// The default runs it on the thread of the test, which suits runtimes that drive themselves.
    fn block_on(&self, case: BoxFuture<()>) {
        crate::block_on(case);
    }
}

impl Driver for ThreadRuntime {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(*self)
    }
}

/// Returns the names of all cases.
///
/// ```
/// # use redlock_testkit::{ThreadRuntime, runtime_conformance};
/// for case in runtime_conformance::cases().filter(|case| case.contains("timer")) {
///     runtime_conformance::run(&ThreadRuntime, case);
/// }
/// ```
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs one case.
///
/// ```
/// # use redlock_testkit::{ThreadRuntime, runtime_conformance};
/// // Panics with the violated sentence of the contract if the case fails.
/// runtime_conformance::run(&ThreadRuntime, "a_timer_is_never_early");
/// ```
///
/// # Panics
///
/// Panics if the runtime violates its contract; the message contains the violated sentence. It also panics if there is
/// no such case.
pub fn run(driver: &impl Driver, case: &str) {
    let Some(case) = CASES.iter().find(|known| known.name == case) else {
        panic!("the conformance suite for runtimes has no case {case:?}");
    };
    driver.block_on((case.play)(driver.runtime()));
}

struct Case {
    name: &'static str,
    play: fn(Arc<dyn Runtime>) -> BoxFuture<()>,
}

/// Generates a `#[test]` for each case of the conformance suite for runtimes.
///
/// The expression creates the [`Driver`](crate::runtime_conformance::Driver). See [the
/// suite](mod@crate::runtime_conformance).
#[macro_export]
macro_rules! runtime_conformance {
    ($driver:expr) => {
        $crate::__runtime_cases! { $crate::__runtime_tests, $driver }
    };
}

/// Passes all cases, by module, to another macro. This is the only list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __runtime_cases {
    ($then:path, $($with:tt)*) => {
        $then! { [
            time::the_clock_never_goes_back
            time::the_clock_advances_while_a_task_sleeps
            time::a_timer_is_never_early
            time::a_timer_without_a_duration_fires
            time::timers_fire_in_the_order_of_their_deadlines
            time::a_dropped_timer_leaves_others_alone
            tasks::a_spawned_task_runs
            tasks::a_spawned_task_runs_without_any_handle
            tasks::a_spawned_task_sleeps_and_spawns
            tasks::spawn_does_not_run_the_task_itself
            tasks::spawn_on_another_thread_runs_or_drops_the_task
            tasks::a_completed_task_is_dropped
            random::random_numbers_differ
            random::every_byte_is_random
        ] $($with)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __runtime_tests {
    ([$($module:ident::$case:ident)*] $driver:expr) => {$(
        #[test]
        fn $case() {
            $crate::runtime_conformance::run(&$driver, stringify!($case));
        }
    )*};
}

macro_rules! table {
    ([$($module:ident::$case:ident)*]) => {
        static CASES: &[Case] =
            &[$(Case { name: stringify!($case), play: |runtime| Box::pin($module::$case(runtime)) }),*];
    };
}
__runtime_cases! { table, }
