//! The loop over the seeds of a test.

use std::env;
use std::thread;

/// The environment variable with the only seed to run.
const VARIABLE: &str = "REDLOCK_SEED";

/// Runs a test with each seed from 0 to `count - 1`, and reports the seed of a failure.
///
/// If the test panics, a line on the standard error names the seed, and the panic continues. With the environment
/// variable `REDLOCK_SEED`, only that seed runs:
///
/// ```text
/// seed 17 failed; REDLOCK_SEED=17 runs it alone
/// ```
///
/// ```
/// use std::time::Duration;
///
/// use redlock_testkit::sim::{Simulation, for_each_seed};
/// use redlock_testkit::{Fault, fake_redlock_on};
///
/// for_each_seed(100, |seed| {
///     let simulation = Simulation::new(seed);
///     let service = simulation.process("service");
///     let (redlock, nodes) = fake_redlock_on(3, service.runtime());
///     nodes[0].inject(Fault::lose_reply());
///
///     let guard = simulation.block_on(&service, redlock.lock("orders:42", Duration::from_secs(10)));
///     drop(guard.expect("two nodes are sufficient"));
///     simulation.run_for(Duration::from_secs(20));
///     assert!(nodes.iter().all(|node| node.inner().is_empty()), "no key is left behind");
/// });
/// ```
///
/// # Panics
///
/// Panics if the test panics, and if `REDLOCK_SEED` is not a number.
pub fn for_each_seed(count: u64, mut run: impl FnMut(u64)) {
    let seeds = match env::var(VARIABLE) {
        Ok(text) => {
            let seed =
                text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is {text:?}, which is not a number"));
            seed..=seed
        }
        Err(_) if count == 0 => return,
        Err(_) => 0..=count - 1,
    };
    for seed in seeds {
        let _reporter = ReportsFailure(seed);
        run(seed);
    }
}

/// Names the seed when it is dropped during a panic. Nothing is caught, so a debugger stops at the failure itself.
struct ReportsFailure(u64);

impl Drop for ReportsFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            let seed = self.0;
            #[allow(clippy::print_stderr)] // the output of a failed test
            {
                eprintln!("seed {seed} failed; {VARIABLE}={seed} runs it alone");
            }
        }
    }
}
