//! The faults of a run, as a function of its seed.
//!
//! Faults come in groups with separate targets. A time without faults follows each group. No group violates a condition
//! of `docs/guarantees.md`:
//!
//! - A server whose clock changes has no other fault, and had none for longer than a quarantine. At least two clients
//!   are connected to it.
//! - Clocks differ by less than 1.8 s, which fencing requires of servers that lose their data.
//! - A clock is set at most once in a group.

use std::time::Duration;

use fastrand::Rng;
use redlock_history_checker::FaultKind;

/// The number of servers.
pub(crate) const SERVERS: usize = 5;

/// The number of client processes.
pub(crate) const CLIENTS: usize = 6;

/// The number of clients without a fault in each group.
const UNDISTURBED: usize = 2;

/// The longest time from the beginning of a group to the beginning of a fault.
const STAGGER: Duration = Duration::from_secs(2);

/// The duration of faults.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(8);

/// The time before a group with clocks. It is longer than a quarantine and the time to connect again.
const SETTLED: Duration = Duration::from_secs(12);

/// The greatest difference of the clock of a server from the right time, in seconds.
const MAX_OFFSET: f64 = 0.85;

/// A fault, and its time from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) begin: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: Fault,
}

impl Planned {
    pub(crate) fn end(&self) -> Duration {
        self.begin + self.lasts
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The affected servers and clients, by their numbers.
    pub(crate) servers: Vec<usize>,
    pub(crate) clients: Vec<usize>,
    /// The new difference of the clock of each server from the right time, in seconds, if the clocks change.
    pub(crate) offsets: Vec<f64>,
}

/// Returns the faults of a run of this length, by the time at which they begin.
pub(crate) fn plan(seed: u64, length: Duration) -> Vec<Planned> {
    groups(seed, length).concat()
}

/// Returns the groups of faults that end within this length.
fn groups(seed: u64, length: Duration) -> Vec<Vec<Planned>> {
    let mut random = Rng::with_seed(seed);
    let mut groups = Vec::new();
    let mut offsets = [0.0; SERVERS];
    // Until then the new servers do not vote.
    let mut time = SETTLED;
    loop {
        let with_clocks = random.u8(..3) == 0;
        time += if with_clocks {
            SETTLED
        } else {
            between(&mut random, Duration::from_secs(1), Duration::from_secs(6))
        };
        let mut group = group(&mut random, time, with_clocks, &mut offsets);
        group.sort_by_key(|planned| planned.begin);
        time = group.iter().map(Planned::end).max().unwrap_or(time);
        if time > length {
            return groups;
        }
        groups.push(group);
    }
}

fn group(random: &mut Rng, start: Duration, with_clocks: bool, offsets: &mut [f64; SERVERS]) -> Vec<Planned> {
    use FaultKind::{
        Flush, FlushScripts, KillClient, LoseReplies, LoseRequests, PauseClient, PauseServer, RestartEmpty,
        RestartServer, SlewClock, Split, StepClock, Unplug,
    };
    // One partition at most: two would separate the same hosts, and end at different times.
    let mut kinds = vec![
        Unplug,
        Split,
        LoseRequests,
        LoseReplies,
        PauseServer,
        RestartServer,
        RestartEmpty,
        RestartEmpty,
        Flush,
        FlushScripts,
        PauseClient,
        KillClient,
    ];
    random.shuffle(&mut kinds);
    kinds.truncate(random.usize(1..=4));
    if with_clocks {
        kinds.insert(0, if random.bool() { StepClock } else { SlewClock });
    }
    let mut servers: Vec<_> = (0..SERVERS).collect();
    let mut clients: Vec<_> = (0..CLIENTS).collect();
    random.shuffle(&mut servers);
    random.shuffle(&mut clients);
    clients.truncate(CLIENTS - UNDISTURBED);
    let mut group = Vec::new();
    for kind in kinds {
        let (most_servers, most_clients) = match kind {
            Unplug if random.bool() => (0, 2),
            Unplug => (2, 0),
            Split => (3, 2),
            LoseRequests | LoseReplies => (4, 2),
            PauseServer | RestartServer | StepClock | SlewClock => (3, 0),
            RestartEmpty | Flush => (4, 0),
            FlushScripts => (5, 0),
            PauseClient | KillClient => (0, 2),
        };
        let servers = take(random, &mut servers, most_servers);
        let clients = take(random, &mut clients, most_clients);
        if (most_servers > 0 && servers.is_empty()) || (most_clients > 0 && clients.is_empty()) {
            continue;
        }
        let lasts = match kind {
            Flush | FlushScripts | StepClock => Duration::ZERO,
            SlewClock => between(random, Duration::from_secs(5), Duration::from_secs(15)),
            _ => SHORTEST.mul_f64(LONGEST.div_duration_f64(SHORTEST).powf(random.f64())),
        };
        let offsets = match kind {
            StepClock | SlewClock => {
                (servers.iter()).map(|&server| changed(random, &mut offsets[server], lasts)).collect()
            }
            _ => Vec::new(),
        };
        let begin = start + STAGGER.mul_f64(random.f64());
        group.push(Planned { begin, lasts, fault: Fault { kind, servers, clients, offsets } });
    }
    group
}

/// Takes at least one element, if there is one and `most` is not zero.
fn take(random: &mut Rng, from: &mut Vec<usize>, most: usize) -> Vec<usize> {
    let most = most.min(from.len());
    let count = if most == 0 { 0 } else { random.usize(1..=most) };
    let mut taken = from.split_off(from.len() - count);
    taken.sort_unstable();
    taken
}

/// Changes the difference of a clock from the right time: by at least 0.2 s at once, or by 2 % to 8.3 % of a time.
fn changed(random: &mut Rng, offset: &mut f64, over: Duration) -> f64 {
    let before = *offset;
    loop {
        let by = match over {
            Duration::ZERO => 0.2 + 1.5 * random.f64(),
            over => over.as_secs_f64() * (0.02 + 0.063 * random.f64()),
        };
        *offset = if random.bool() { before + by } else { before - by };
        if offset.abs() <= MAX_OFFSET {
            return *offset;
        }
    }
}

fn between(random: &mut Rng, least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least).mul_f64(random.f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_seed_determines_the_plan_and_a_longer_run_continues_it() {
        let long = plan(7, HOUR);
        assert_eq!(long, plan(7, HOUR));
        assert_ne!(long, plan(8, HOUR));
        let short = plan(7, HOUR / 6);
        assert_eq!(short[..], long[..short.len()]);
        assert!(short.iter().all(|planned| planned.end() <= HOUR / 6));
    }

    #[test]
    fn an_hour_has_all_faults() {
        let kinds: BTreeSet<_> = plan(1, HOUR).iter().map(|planned| planned.fault.kind).collect();
        assert_eq!(13, kinds.len(), "{kinds:?}");
    }

    #[test]
    fn targets_are_separate_and_two_clients_are_never_disturbed() {
        for seed in 0..20 {
            for group in groups(seed, HOUR) {
                let mut servers = BTreeSet::new();
                let mut clients = BTreeSet::new();
                for planned in &group {
                    assert!(planned.fault.servers.iter().all(|server| servers.insert(*server)), "{group:?}");
                    assert!(planned.fault.clients.iter().all(|client| clients.insert(*client)), "{group:?}");
                }
                assert!(clients.len() <= CLIENTS - UNDISTURBED, "{group:?}");
            }
        }
    }

    #[test]
    fn clocks_change_on_settled_servers_and_differ_by_less_than_fencing_allows() {
        let is_clock = |planned: &Planned| !planned.fault.offsets.is_empty();
        for seed in 0..20 {
            let groups = groups(seed, HOUR);
            assert!(groups.iter().flatten().any(is_clock));
            for pair in groups.windows(2).filter(|pair| pair[1].iter().any(is_clock)) {
                let before = pair[0].iter().map(Planned::end).max().unwrap();
                assert!(pair[1][0].begin >= before + SETTLED, "{pair:?}");
            }
            let mut offsets = groups.iter().flatten().flat_map(|planned| &planned.fault.offsets);
            assert!(offsets.all(|offset| offset.abs() * 2.0 < 1.8), "{groups:?}");
        }
    }
}
