//! The recorder of a simulation's events.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlock_core::Fingerprint;
use redlock_core::node::Token;
use redlock_core::runtime::Runtime;
use redlock_testkit::sim::Process;

use super::{Event, EventKind, History, TokenNumber};

/// Records events with their true time.
///
/// Clones write to the same history.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    /// A process whose clock is right.
    world: Process,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    history: History,
    numbers: HashMap<Token, TokenNumber>,
    /// The latest token with each fingerprint.
    shown: HashMap<Fingerprint, TokenNumber>,
    /// The tokens whose releases reserve the resource for no waiter.
    open: HashSet<TokenNumber>,
}

/// The share of tokens whose releases reserve the resource for no waiter: those whose last byte is a multiple of it.
const OPEN: u8 = 16;

impl Recorder {
    pub(crate) fn new(world: Process) -> Self {
        Self(Arc::new(Shared { world, state: Mutex::default() }))
    }

    /// Records an event at the current time.
    pub fn record(&self, kind: EventKind) {
        let at = self.0.world.now();
        self.state().history.0.push(Event { at, kind });
    }

    /// Returns the number of a token that is sent, for the first time or again.
    pub fn number(&self, token: &Token) -> TokenNumber {
        let mut state = self.state();
        let next = TokenNumber(u32::try_from(state.numbers.len()).unwrap_or(u32::MAX));
        let number = *state.numbers.entry(token.clone()).or_insert(next);
        state.shown.insert(token.fingerprint(), number);
        if token.as_bytes().last().is_some_and(|byte| byte % OPEN == 0) {
            state.open.insert(number);
        }
        number
    }

    /// Returns the number of the token with the fingerprint of a lease.
    ///
    /// # Panics
    ///
    /// Panics if no such token was ever sent.
    pub fn number_of(&self, fingerprint: &Fingerprint) -> TokenNumber {
        *self.state().shown.get(fingerprint).expect("a lease's token was sent to a quorum")
    }

    /// Returns the first attempt of the request that has this place: both have the same random digits.
    pub fn attempt_of(&self, place: TokenNumber) -> Option<TokenNumber> {
        let state = self.state();
        let (place, _) = state.numbers.iter().find(|(_, number)| **number == place)?;
        let digits = |token: &Token| token.as_bytes().rsplit(|byte| *byte == b'#').next().map(<[u8]>::to_vec);
        let is_attempt = |token: &Token| token != place && digits(token) == digits(place);
        state.numbers.iter().find(|(token, _)| is_attempt(token)).map(|(_, number)| *number)
    }

    /// Returns whether the release of a token reserves the resource for no waiter.
    pub fn is_open(&self, token: TokenNumber) -> bool {
        self.state().open.contains(&token)
    }

    /// Returns the event of a client that starts to release a lock.
    pub fn releasing(&self, client: usize, token: TokenNumber, waits: bool) -> EventKind {
        EventKind::Releasing { client, token, waits, is_open: self.state().open.contains(&token) }
    }

    /// Returns the number of events so far.
    pub fn len(&self) -> usize {
        self.state().history.0.len()
    }

    /// Returns whether there is no event so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the events so far.
    pub fn history(&self) -> History {
        self.state().history.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("events", &self.len()).finish_non_exhaustive()
    }
}
