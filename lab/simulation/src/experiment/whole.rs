//! The servers of the whole stack: releases, missing rights, and short disturbances, all drawn from the seed.

use redlock_server::{Release, Settings};
use redlock_testkit::sim::Clock;

use super::Experiment;
use crate::network::Network;
use crate::plan::Faults;
use crate::server::Server;

/// The releases of servers, if they differ.
const RELEASES: [Release; 6] =
    [Release::Redis7, Release::Redis6, Release::Valkey9, Release::Redis8, Release::Redis80, Release::Valkey8];

/// The commands without which a server is used, and all checks of it work.
const OPTIONAL: [&str; 2] = ["client", "script"];

/// The commands without which one server is used, if clients do not check whether it may have lost locks.
const OPTIONAL_WITHOUT_CHECKS: [&str; 3] = ["client", "info", "time"];

impl Experiment {
    /// Adds a server. A separate generator keeps the draws of the fast layer as they are.
    pub(super) fn whole_server(&self, number: usize, clock: Clock, network: &Network) -> Server {
        let mut run = fastrand::Rng::with_seed(self.seed ^ 0x7768_6f6c_6521_7374);
        let (are_alike, lack_rights, are_disturbed) = (run.bool(), run.u32(..3) == 0, run.bool());
        let mut chance = fastrand::Rng::with_seed(run.u64(..) ^ number as u64);
        let mut settings = Settings::default();
        if !are_alike {
            settings.release = RELEASES[chance.usize(..RELEASES.len())];
        }
        // The rights of one server may be such that it denies fenced locks, or all scripts.
        let is_first = number == 0;
        if lack_rights && self.faults != Faults::None && !self.is_about_waiting() {
            let has_native = matches!(settings.release, Release::Valkey9 | Release::Redis8);
            match chance.u32(..3) {
                0 if is_first && has_native && !self.has_admission() => {
                    settings.denied.extend(["eval", "evalsha"]);
                }
                1 if is_first && !self.has_admission() => {
                    settings.denied.extend([OPTIONAL_WITHOUT_CHECKS[chance.usize(..3)]]);
                }
                _ => settings.denied.extend([OPTIONAL[chance.usize(..2)]]),
            }
        }
        let server = network.server_of_commands(clock, settings);
        if are_disturbed && self.faults != Faults::None {
            server.disturb(chance.u64(..));
        }
        server
    }
}
