//! Any number of attempts: attempts without any further effect are forgotten, which makes room for others.

use crate::fence::protocol::Fencing;
use crate::fence::state::{Attempt, Phase, State};

impl Fencing {
    /// Forgets attempts that can have no further effect.
    ///
    /// A decided attempt has no further effect once every counter is above its m. It counts on no node and refills none,
    /// and a key that it still sets is like that of a failed attempt. Its keys may also have been removed.
    ///
    /// A grant is remembered for longer, because another attempt could be granted the same token. It is forgotten when
    /// no attempt has that m, and no undecided attempt that started before the grant returned can still get it.
    /// Attempts that started later are subject to I3.
    pub(crate) fn forget(self, state: &mut State) {
        while let Some(attempt) = (0..self.scope.attempts).find(|attempt| self.is_spent(state, *attempt)) {
            let is = state.attempts[attempt];
            if is.phase == Phase::Granted {
                state.forgotten = state.forgotten.max(Some(is.token));
            }
            state.attempts[attempt] = Attempt::default();
            let owner = Some(self.owner(attempt));
            for node in state.nodes.iter_mut().filter(|node| node.key == owner) {
                node.key = None;
            }
        }
        let lowest = self.lowest(state);
        let beyond = |value: &u8| *value >= lowest;
        for attempt in &mut state.attempts {
            // An undecided attempt will receive greater counters than these.
            if attempt.phase == Phase::Acquiring {
                attempt.floor = attempt.floor.filter(beyond);
            }
        }
        let forgotten = state.forgotten;
        let older = |attempt: &Attempt| attempt.is_decided() && Some(attempt.token) <= forgotten;
        if !state.attempts.iter().any(older) {
            state.forgotten = forgotten.filter(beyond);
        }
    }

    fn is_spent(self, state: &State, attempt: usize) -> bool {
        let is = state.attempts[attempt];
        let differs = |other: &Attempt| match other.phase {
            Phase::None | Phase::Granted => true,
            Phase::Acquiring => {
                other.floor >= Some(is.token) || (other.received != 0 && other.token > is.token)
            }
            Phase::Confirming => other.token != is.token,
        };
        let others = || (0..self.scope.attempts).filter(|other| *other != attempt);
        is.is_decided()
            && is.token < self.lowest(state)
            && (is.phase == Phase::Confirming || others().all(|other| differs(&state.attempts[other])))
    }

    fn lowest(self, state: &State) -> u8 {
        state.nodes[..self.scope.nodes].iter().map(|node| node.counter).min().unwrap_or_default()
    }
}
