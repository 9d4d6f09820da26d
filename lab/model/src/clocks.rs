//! The model of [restart admission](crate::admission) with clocks of servers that step or run fast.
//!
//! A server stores the end of a TTL as a time of its wall clock. If the clock steps forward, keys expire early, and the
//! server grants locks that other clients still hold. Clients watch the clocks, and a jump counts as a loss of data. The
//! model is that of restart admission, with a clock for each node and the guard of each client.
//!
//! ```
//! use redlock_model::admission::Admission;
//! use redlock_model::clocks::SMALL;
//! use redlock_model::{Rule, explore};
//!
//! let exploration = explore(Admission::new(SMALL));
//! assert!(exploration.violation.is_none());
//! assert_eq!(14_128, exploration.states); // the first row of the table of explored scopes
//! ```
//!
//! # The rule
//!
//! - *Reading*: a client reads the clock of a node with each look and behind each vote. Between them, it reads the clock
//!   and compares the stamp. It keeps the readings of the last wait, even if the connection breaks.
//! - *Jump*: the clock is ahead of an earlier reading by more than the tolerance. The vote before that reading does not
//!   count. The client waits by its own clock, and its later readings are compared with this one only.
//! - *Renewal*: the next look of the client renews the stamp. In the library it does not if the stamp is younger than the
//!   reading that has shown the jump. New processes wait by the age of the stamp, which the server measures.
//! - *Vouching*: an operator who knows that no lock was lost ends every wait. A look that finds such a stamp ends the wait
//!   of the client, too.
//!
//! A client keeps the age of the stamp by its own clock from one look to the next. It learns of a renewal by another
//! client only by its next look, and it may look at any time.
//!
//! # Why it holds
//!
//! Let two leases X and Y be valid at time t. Some node n is in both quorums, and granted X before Y. When it granted Y,
//! the key of X had expired early, so the clock of n had jumped at a time L between the two grants. The client of Y has
//! watched the clock since before L, or it depends on the stamp. In the first case, its reading behind the vote shows the
//! jump, or an earlier reading has shown it, and the vote counts only after the wait. The rest is the argument of [restart
//! admission](crate::admission#why-it-holds).
//!
//! In the second case, it is a new process. Another client must have noticed the jump and renewed the stamp before. The
//! scopes assume the first ([`FirstLook::StepsAreNoticed`]). [`HOLES`] contains the scopes that violate exclusion: without
//! this assumption, and in two other cases.
//!
//! *Strict* processes need no assumption: they wait from their first look on, by their own clocks, as if the clock had
//! just jumped. Then the first case applies to them.
//!
//! # Time
//!
//! The clocks of clients run evenly. A step moves the clock of a server by one tick or more, at any moment within a tick.
//! A clock that runs fast advances by two ticks in each tick. A smaller rate is the same as steps of one tick, at some
//! moments. The tolerance, and the part of the TTL that no holder relies on, are zero unless stated.
//!
//! A late reply may hide a jump that is not longer than its delay. The vote counts from the receipt on, when the keys that
//! the jump has ended would have expired. Some scopes contain late replies to votes.
//!
//! # Omissions
//!
//! - Late requests. In the library, they make a reading too high by the delay, until the next lower reading. The tolerance
//!   represents that.
//! - Late replies to looks, and to readings between votes.
//! - A stamp of the full age becomes no younger by a step back, since it may be older than any step.
//! - Servers that do not permit `TIME`.

use crate::admission::{
    Admission, Clocks, FirstLook, Loss, Property, SMALL as STEADY, Scope, Start, Variant,
};
use crate::catalog::{Broken, Explored, Harmless};

/// One step of up to two ticks on any node, at any moment.
const ONE_STEP: Clocks = Clocks {
    steps: 1,
    nodes: STEADY.nodes,
    size: 2,
    back: 0,
    fast: false,
    tolerance: 0,
    slack: 0,
    late_replies: false,
    reconnects: 0,
    vouches: 0,
    replacements: 0,
    first_look: FirstLook::StepsAreNoticed,
    strict: false,
};

/// Two steps on any nodes.
const TWO_STEPS: Clocks = Clocks { steps: 2, ..ONE_STEP };

/// Three steps of one tick each, which a tolerance of one tick hides one by one.
const CREEP: Clocks = Clocks { steps: 3, size: 1, tolerance: 1, slack: 2, ..ONE_STEP };

const fn with(clocks: Clocks, scope: Scope) -> Scope {
    Scope { clocks: Some(clocks), ..scope }
}

const fn ttl(ttl: u8, scope: Scope) -> Scope {
    Scope { ttl: [ttl, ttl], ..scope }
}

/// The smallest scope without losses of data, and with one step.
pub const SMALL: Scope = with(ONE_STEP, Scope { losses: 0, ..STEADY });

const REPLACED: Scope = with(Clocks { replacements: 1, ..ONE_STEP }, SMALL);

const NEW_CLIENT: Scope = Scope { start: Start::NewClient, ..SMALL };

/// New clients look at any moment, and wait whatever the age of the stamp is.
const STRICT: Clocks = Clocks { first_look: FirstLook::AnyTime, strict: true, ..ONE_STEP };

const RECONNECTING: Scope = with(Clocks { reconnects: 1, ..ONE_STEP }, SMALL);

/// An operator vouches for a node before its clock steps.
const VOUCHED: Scope = with(Clocks { vouches: 1, nodes: 1, ..ONE_STEP }, SMALL);

/// One clock steps twice, and a process is replaced.
const STEPPING_TWICE: Scope = with(Clocks { replacements: 1, nodes: 1, ..TWO_STEPS }, SMALL);

/// One step of up to three ticks with a TTL of three ticks.
const LONGER: Scope = ttl(3, with(Clocks { size: 3, ..ONE_STEP }, SMALL));

/// Replies may be late.
const LATE: Clocks = Clocks { late_replies: true, ..ONE_STEP };

const FAST: Clocks = Clocks { fast: true, ..ONE_STEP };

/// The scopes in which nothing is violated.
pub const SCOPES: &[Scope] = &[
    SMALL,
    with(FAST, SMALL),
    with(Clocks { steps: 0, back: 2, ..ONE_STEP }, SMALL),
    LONGER,
    Scope { attempts: [2, 1], ..SMALL },
    Scope { extensions: [1, 1], ..SMALL },
    Scope { extensions: [1, 1], ..with(FAST, SMALL) },
    with(LATE, SMALL),
    Scope { extensions: [1, 0], ..with(LATE, SMALL) },
    with(Clocks { size: 3, ..LATE }, LONGER),
    RECONNECTING,
    REPLACED,
    NEW_CLIENT,
    with(FAST, NEW_CLIENT),
    Scope { start: Start::NewClients, ..SMALL },
    Scope { losses: 1, kinds: &[Loss::RestartEmpty], ..SMALL },
    Scope { losses: 1, kinds: Loss::WITHOUT_COPIES, ..SMALL },
    with(TWO_STEPS, SMALL),
    with(Clocks { nodes: 1, ..TWO_STEPS }, NEW_CLIENT),
    with(STRICT, NEW_CLIENT),
    with(Clocks { fast: true, ..STRICT }, NEW_CLIENT),
    with(Clocks { replacements: 1, ..STRICT }, SMALL),
    ttl(4, with(CREEP, SMALL)),
    VOUCHED,
    STEPPING_TWICE,
];

const fn broken(variant: Variant, does: &'static str, scope: Scope) -> Broken<Admission> {
    Broken::new(variant, does, Property::Exclusion, scope)
}

/// Every broken variant of the guard. Each violates exclusion.
pub const CATALOG: &[Broken<Admission>] = {
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(ClocksAreNotRead, "clients do not watch the clocks", SMALL),
        broken(NoReadingBehindVotes, "no reading follows a vote", SMALL),
        broken(WaitTooShort, "the wait is one tick shorter than the longest TTL", LONGER),
        broken(ExtensionsCountAll, "extensions count every node", Scope { extensions: [1, 0], ..SMALL }),
        broken(ReconnectBeginsAnew, "a client forgets the readings when its connection breaks", RECONNECTING),
        broken(
            LastReadingAlone,
            "each reading is compared with the last one only",
            ttl(4, with(CREEP, SMALL)),
        ),
        broken(NewProcessesIgnoreStamps, "a node counts for a new process at once", NEW_CLIENT),
        broken(StampIsNotRenewed, "a jump does not renew the stamp", NEW_CLIENT),
        broken(
            OneClientRenews,
            "a client renews only the stamp that it knew before the jump, and an operator has vouched since",
            VOUCHED,
        ),
        broken(
            OneClientRenews,
            "the same: another client has renewed the stamp between two steps",
            STEPPING_TWICE,
        ),
    ]
};

/// Variants of the guard that hold in the given scope, each with the reason.
pub const HARMLESS: &[Harmless<Admission>] = &[
    Harmless::new(
        Variant::OwnWaitByTheServer,
        "the clock of the server measures the wait of a client: each further jump begins it again",
        with(Clocks { nodes: 1, ..TWO_STEPS }, SMALL),
    ),
    Harmless::new(
        Variant::NoOwnWait,
        "the age of the stamp alone is the wait of a client: each client that notices a jump renews the stamp",
        with(Clocks { nodes: 1, ..TWO_STEPS }, SMALL),
    ),
    Harmless::new(
        Variant::StampIsNotRenewed,
        "a jump does not renew the stamp: processes that watch the clocks do not need it",
        SMALL,
    ),
];

/// Scopes in which the rule itself violates exclusion.
pub const HOLES: &[Broken<Admission>] = &[
    broken(
        Variant::Sound,
        "a new process looks at a node after a step that no client has noticed",
        with(Clocks { first_look: FirstLook::AnyTime, ..ONE_STEP }, NEW_CLIENT),
    ),
    broken(
        Variant::Sound,
        "a clock steps forward and back between two readings",
        with(Clocks { back: 1, nodes: 1, ..ONE_STEP }, SMALL),
    ),
    broken(
        Variant::Sound,
        "the tolerance is greater than the part of the TTL that no holder relies on",
        with(Clocks { tolerance: 1, ..ONE_STEP }, SMALL),
    ),
];

/// The explorations of this model.
pub const EXPLORED: Explored<Admission> = Explored {
    title: "Clocks that step or run fast",
    scopes: SCOPES,
    broken: CATALOG,
    holes: HOLES,
    harmless: HARMLESS,
};
