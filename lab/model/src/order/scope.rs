//! The bounds of an exploration.

use std::fmt;

/// The number of nodes.
pub(crate) const NODES: usize = 3;

/// The number of nodes that must agree.
pub(crate) const QUORUM: usize = NODES / 2 + 1;

/// The maximum number of clients.
pub(crate) const CLIENTS: usize = 3;

/// The maximum number of requests of a client.
pub(crate) const REQUESTS: usize = 3;

/// The maximum number of attempts of a client.
pub(crate) const ATTEMPTS: u8 = 7;

/// The greatest penalty of a request.
pub(crate) const MOST_PENALTY: u8 = 2;

/// The penalty of a request whose time many attempts have moved: it is more than the time between two epochs.
pub(crate) const PENALTY_OF_MANY: u8 = 7;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent bounds
pub struct Scope {
    /// The roles of the clients.
    pub roles: [Role; CLIENTS],
    /// The maximum number of requests of each client, up to three.
    pub requests: [u8; CLIENTS],
    /// The maximum number of attempts of one request.
    pub attempts: u8,
    /// The number of times that requests that began later may overtake a waiter.
    pub overtaken: u8,
    /// The maximum number of faults.
    pub faults: u8,
    /// The faults that may occur.
    pub kinds: &'static [Fault],
    /// The maximum number of open turns.
    pub open_turns: u8,
    /// The greatest delay of a message. Delays change the order of requests that began together.
    pub delays: u8,
    /// The number of nodes on which the last client holds the lock in the first state, by its first request.
    pub held: usize,
    /// True if clients may give up.
    pub leaves: bool,
    /// True if requests that wait may enter their places again.
    pub enters: bool,
    /// True if requests may begin with a plain attempt, as the first one does.
    pub plain: bool,
    /// True if a release may enter the next request of its process.
    pub next: bool,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// There is no such client.
    Absent,
    /// A client whose requests have places.
    Waiter,
    /// A client that knows nothing of places: it sets the key if it is absent, and deletes it.
    Foreign,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection of a request breaks: the request is carried out at any later moment, or never. Its reply is lost.
    Late,
    /// A request is carried out, and a copy of it is in flight.
    Repeat,
    /// A request is carried out, and its reply is lost.
    NoReply,
    /// A client ends without any further message.
    Death,
    /// A reservation expires before its client uses it, or the key of an attempt before its release arrives.
    Pause,
    /// A node loses its data.
    Loss,
    /// A node loses the waiters, but not the key.
    LossOfWaiters,
    /// The clock of a node steps back, so its later scores are smaller.
    ClockStep,
}

impl Fault {
    /// All faults of messages.
    pub const MESSAGES: &'static [Self] = &[Self::Late, Self::Repeat, Self::NoReply];
    /// All faults of nodes.
    pub const NODES: &'static [Self] = &[Self::Loss, Self::LossOfWaiters, Self::ClockStep];
    /// All faults of clients.
    pub const CLIENTS: &'static [Self] = &[Self::Death, Self::Pause];
    /// All faults.
    pub const ALL: &'static [Self] = &[
        Self::Late,
        Self::Repeat,
        Self::NoReply,
        Self::Death,
        Self::Pause,
        Self::Loss,
        Self::LossOfWaiters,
        Self::ClockStep,
    ];
}

/// Two clients with one request each, without faults.
pub const SMALL: Scope = Scope {
    roles: [Role::Waiter, Role::Waiter, Role::Absent],
    requests: [1, 1, 0],
    attempts: 2,
    overtaken: 0,
    faults: 0,
    kinds: Fault::ALL,
    open_turns: 0,
    delays: 1,
    held: 0,
    leaves: false,
    enters: false,
    plain: false,
    next: false,
};

/// Two waiters, while a third client holds the lock.
pub(crate) const HELD: Scope = Scope {
    roles: [Role::Waiter; CLIENTS],
    requests: [1; CLIENTS],
    attempts: 1,
    overtaken: 1,
    held: NODES,
    ..SMALL
};

/// A process whose tasks follow one another, and a waiter of another process.
pub(crate) const TASKS: Scope = Scope {
    roles: [Role::Waiter, Role::Waiter, Role::Absent],
    requests: [1, 3, 0],
    next: true,
    delays: 0,
    ..HELD
};

/// The largest scopes that take at most a minute.
pub const SCOPES: &[Scope] = &[
    SMALL,
    Scope { requests: [1, 2, 0], attempts: 1, overtaken: 1, open_turns: 1, next: true, ..SMALL },
    Scope { open_turns: 1, delays: 0, leaves: true, plain: true, ..SMALL },
    Scope { faults: 1, kinds: Fault::CLIENTS, delays: 0, ..SMALL },
    Scope { faults: 1, kinds: Fault::CLIENTS, delays: 0, enters: true, ..SMALL },
    Scope { attempts: 1, overtaken: 1, faults: 1, ..SMALL },
    HELD,
    Scope { delays: 0, plain: true, ..HELD },
    Scope { attempts: 2, delays: 0, ..HELD },
    Scope { attempts: 2, delays: 0, held: QUORUM, enters: true, ..HELD },
    Scope { faults: 1, delays: 0, ..HELD },
    TASKS,
    Scope { open_turns: 2, ..TASKS },
    Scope {
        roles: [Role::Waiter, Role::Foreign, Role::Waiter],
        leaves: true,
        open_turns: 1,
        delays: 0,
        ..HELD
    },
];

/// Formats the scope like `requests 1+2 (foreign)+0, attempts 2, faults 1 (Death), open turns 1, leaving`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests ")?;
        for (number, role) in self.roles.iter().enumerate().filter(|(_, role)| **role != Role::Absent) {
            let foreign = if *role == Role::Foreign { " (foreign)" } else { "" };
            let plus = if number > 0 { "+" } else { "" };
            write!(f, "{plus}{}{foreign}", self.requests[number])?;
        }
        write!(f, ", attempts {}, faults {}", self.attempts, self.faults)?;
        write!(f, ", overtaken {}", self.overtaken)?;
        match self.kinds {
            _ if self.faults == 0 => {}
            kinds if kinds == Fault::ALL => f.write_str(" (any)")?,
            kinds => write!(f, " ({kinds:?})")?,
        }
        if self.open_turns > 0 {
            write!(f, ", open turns {}", self.open_turns)?;
        }
        match self.held {
            0 => {}
            NODES => f.write_str(", the last one holds")?,
            nodes => write!(f, ", the last one holds on {nodes} nodes")?,
        }
        let flags = [
            (self.delays == 0, "no delays"),
            (self.leaves, "leaving"),
            (self.enters, "entering again"),
            (self.plain, "plain attempts"),
            (self.next, "next tasks"),
        ];
        flags.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}
