//! Any number of attempts: those that can do nothing any more are forgotten, and others take their place.

use crate::fence::protocol::Fencing;
use crate::fence::state::{Attempt, Phase, State};

impl Fencing {
    /// Makes room: forgets attempts that can do nothing any more.
    ///
    /// One that has its m can do nothing once every counter is beyond it: it counts nowhere, refills nothing, and what it
    /// still sets is one more attempt that comes to nothing; its keys may as well have gone. A grant is remembered for
    /// longer, as what another could be granted once more: until nobody is left who has that m, or has none yet, has
    /// heard of no more and began before the grant had returned. Who began after it is held to I3.
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
            // Whoever is still to hear from a node hears more than that.
            if attempt.phase == Phase::Asking {
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
            Phase::Asking => other.floor >= Some(is.token) || (other.heard != 0 && other.token > is.token),
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
