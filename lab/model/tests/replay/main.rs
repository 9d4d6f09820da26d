//! The model is faithful: what it does, the real core does, step by step.
//!
//! Random walks of the model are carried out with the real core: nodes answer when the walk says so, and every client's
//! clock stands still but where the walk needs it to move. After each step the keys on the nodes, the calls that are open,
//! and what the clients have been told must be what the model says.

#![allow(clippy::print_stdout, clippy::print_stderr)] // what the walks met, and the one that fails

mod compare;
mod node;
mod program;
mod replay;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use redlock_model::{Asks, Protocol, Scope, Step, Transport};

use self::replay::Replay;

/// More than an exploration could cover.
const SCOPE: Scope = Scope { transport: Transport::Streams, attempts: [2, 2], extensions: [2, 2], faults: 3 };

const WALKS: u64 = 2_000;

/// How often what was seen in all walks.
#[derive(Debug, Default)]
struct Seen {
    steps: usize,
    unrealisable: usize,
    extensions: usize,
    lapses: usize,
    refills: usize,
    second_releases: usize,
    breaks: usize,
    copies: usize,
}

impl Seen {
    fn note(&mut self, replay: &Replay, step: Step) {
        self.steps += 1;
        match step {
            Step::Extend { .. } => self.extensions += 1,
            Step::Lapse { .. } => self.lapses += 1,
            Step::Break { .. } => self.breaks += 1,
            Step::CarryCopy(_) => self.copies += 1,
            Step::Carry(request) if matches!(request.asks, Asks::Refill(_)) => self.refills += 1,
            Step::Carry(request)
                if request.asks == Asks::Release && replay.state.is_second_release(request) =>
            {
                self.second_releases += 1;
            }
            _ => {}
        }
    }
}

fn walk(protocol: Protocol, seed: u64, noted: &mut Seen) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut replay = Replay::new(protocol, seed);
    let (mut trace, mut steps) = (Vec::new(), Vec::new());
    loop {
        steps.clear();
        protocol.steps(&replay.state, &mut steps);
        let possible = steps.len();
        steps.retain(|step| replay.is_realisable(*step));
        noted.unrealisable += possible - steps.len();
        // What ends things early is chosen less often than what goes on.
        let weight = |step: &Step| if ends_early(*step) { 1 } else { 6 };
        let mut lot = chance.usize(..steps.iter().map(weight).sum::<usize>().max(1));
        let chosen = steps.iter().find(|step| {
            let hit = lot < weight(step);
            lot = lot.saturating_sub(weight(step));
            hit
        });
        let Some(step) = chosen.copied() else { return };
        trace.push(step);
        noted.note(&replay, step);
        let late = chance.bool();
        let done = catch_unwind(AssertUnwindSafe(|| replay.perform(step, late)));
        if let Err(panic) = done {
            eprintln!("walk {seed} with {}:", protocol.scope);
            for step in trace {
                eprintln!("    {step}");
            }
            resume_unwind(panic);
        }
    }
}

fn ends_early(step: Step) -> bool {
    use Step::{Break, Cancel, CarryUnanswered, Expire, Fail, Lapse, Release};
    matches!(
        step,
        Break { .. }
            | Cancel { .. }
            | CarryUnanswered(_)
            | Expire { .. }
            | Fail(_)
            | Lapse { .. }
            | Release { .. }
    )
}

fn walks(transport: Transport) -> Seen {
    let protocol = Protocol::new(Scope { transport, ..SCOPE });
    let mut seen = Seen::default();
    (0..WALKS).for_each(|seed| walk(protocol, seed, &mut seen));
    println!("{transport:?}: {seen:?}");
    seen
}

#[test]
fn the_core_does_what_the_model_does_over_streams() {
    let seen = walks(Transport::Streams);
    assert!(
        seen.refills > 10 && seen.second_releases > 10 && seen.breaks > 10 && seen.lapses > 10,
        "{seen:?}"
    );
}

#[test]
fn the_core_does_what_the_model_does_over_datagrams() {
    let seen = walks(Transport::Datagrams);
    assert!(
        seen.refills > 10 && seen.second_releases > 10 && seen.copies > 10 && seen.lapses > 10,
        "{seen:?}"
    );
}
