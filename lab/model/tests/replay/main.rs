//! Verifies step by step that the real core does the same as the model.
//!
//! Random walks of the model are carried out with the real core. The walk determines when nodes reply and when the clock
//! of a client moves. After each step, the keys on the nodes, the open calls and the results of the clients must be the
//! same as in the model.

#![allow(clippy::print_stdout, clippy::print_stderr)] // prints statistics and the failed walk

mod compare;
mod node;
mod program;
mod replay;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use redlock_model::{Protocol, RequestKind, Rule, Scope, Step, Transport};

use self::replay::Replay;

/// A scope larger than can be explored.
const SCOPE: Scope = Scope {
    transport: Transport::Streams,
    attempts: [2, 2],
    extensions: [2, 2],
    faults: 3,
    quarantine: true,
};

const WALKS: u64 = 2_000;

/// The number of times that each event occurred in all walks.
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
    uncounted: usize,
}

impl Seen {
    fn note(&mut self, replay: &Replay, step: Step) {
        self.steps += 1;
        match step {
            Step::Extend { .. } => self.extensions += 1,
            Step::Lapse { .. } => self.lapses += 1,
            Step::Break { .. } => self.breaks += 1,
            Step::CarryCopy(_) => self.copies += 1,
            Step::ReplyUncounted(_) => self.uncounted += 1,
            Step::Carry(request) if matches!(request.kind, RequestKind::Refill(_)) => self.refills += 1,
            Step::Carry(request)
                if request.kind == RequestKind::Release && replay.state.is_second_release(request) =>
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
        steps.retain(|step| replay.is_realizable(*step));
        noted.unrealisable += possible - steps.len();
        // Steps that end a lease or attempt early are chosen less often.
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
    use Step::{Break, Cancel, CarryWithoutReply, Expire, Fail, Lapse, Release, ReplyUncounted};
    matches!(
        step,
        Break { .. }
            | Cancel { .. }
            | CarryWithoutReply(_)
            | Expire { .. }
            | Fail(_)
            | Lapse { .. }
            | Release { .. }
            | ReplyUncounted(_)
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
fn the_core_agrees_with_the_model_over_streams() {
    let seen = walks(Transport::Streams);
    assert!(
        seen.refills > 10 && seen.second_releases > 10 && seen.breaks > 10 && seen.lapses > 10,
        "{seen:?}"
    );
    assert!(seen.uncounted > 10, "{seen:?}");
}

#[test]
fn the_core_agrees_with_the_model_over_datagrams() {
    let seen = walks(Transport::Datagrams);
    assert!(
        seen.refills > 10 && seen.second_releases > 10 && seen.copies > 10 && seen.lapses > 10,
        "{seen:?}"
    );
    assert!(seen.uncounted > 10, "{seen:?}");
}
