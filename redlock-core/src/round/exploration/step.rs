//! The possible steps, and the path of steps that is a state.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::round::exploration::digest::Mix;

/// The maximum number of steps to the farthest state.
const LONGEST: usize = 80;

/// An event. A request is identified by its node and its position among the requests of that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// A client starts an attempt with a new token.
    Attempt { client: u8 },
    /// A client drops its attempt before the outcome is known. A fault.
    Cancel { client: u8 },
    /// A client starts to extend its lease.
    Extend { client: u8 },
    /// A client releases its lease.
    Release { client: u8 },
    /// The validity of the earliest remaining round ends by the clock of the client. Its open calls end, with their
    /// reply if one has arrived.
    Lapse { client: u8 },
    /// The runtime of a client ends. A fault.
    Interrupt { client: u8 },
    /// A node carries a request out.
    Carry { node: u8, request: u8 },
    /// A node carries a request out, and a reply that would arrive at once is lost. A fault.
    CarryWithoutReply { node: u8, request: u8 },
    /// A node carries a request out, and a copy of it is in flight. A fault.
    CarryTwice { node: u8, request: u8 },
    /// A node denies a reader, because a writer has locked the gate.
    Deny { node: u8, request: u8 },
    /// The same, and a copy of the request is in flight. A fault.
    DenyTwice { node: u8, request: u8 },
    /// A node grants an acquire, and replies with a counter far above all others. The first time is a fault.
    FalseReply { node: u8, request: u8 },
    /// An acquire of a third client raises the counter of a node without a key. Its attempt fails, and its key vanishes. A
    /// fault.
    Raise { node: u8 },
    /// A reply arrives.
    Reply { node: u8, request: u8 },
    /// A reply arrives, and does not count. A fault.
    ReplyUncounted { node: u8, request: u8 },
    /// A call ends without its reply. The request may be carried out later. A fault.
    Fail { node: u8, request: u8 },
    /// A call ends, and its request will never be carried out. A fault.
    Refuse { node: u8, request: u8 },
    /// A connection breaks, and its client notices. A fault.
    Break { client: u8, node: u8 },
    /// A key expires. It is identified by its position among the keys of the node.
    Expire { node: u8, key: u8 },
}

/// Formats the numbers of a request only. [`Rounds::describe`](redlock_model::Rule::describe) states what they mean.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The steps from the first state on.
///
/// Rounds cannot be packed, so a state is the path that leads to it. States are compared by a
/// [digest](super::digest) of the world at the end of the path.
#[derive(Clone, Copy)]
pub(super) struct Path {
    steps: [Step; LONGEST],
    length: u8,
    /// A hash of all steps.
    id: u64,
}

impl Path {
    pub(super) const FIRST: Self = Self { steps: [Step::Attempt { client: 0 }; LONGEST], length: 0, id: 0 };

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..usize::from(self.length)]
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn then(mut self, step: Step) -> Self {
        let mut hasher = Mix::from(self.id);
        step.hash(&mut hasher);
        self.id = hasher.finish();
        self.steps[usize::from(self.length)] = step;
        self.length += 1;
        self
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps()).finish()
    }
}
