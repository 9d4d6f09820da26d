//! Requests for locks, and their errors, as all commands have them.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::{Error, ErrorKind, Guard, KeepAlive, Redlock, Slots};
use serde::{Deserialize, Serialize};

use crate::exit::{Code, Failure};

/// The options of a request.
pub(crate) struct Options<'a> {
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    pub(crate) owner: Option<&'a str>,
    pub(crate) keep_alive: Option<KeepAlive>,
}

/// The subject of a request: all of these names, or any of the slots of one name.
pub(crate) enum Target<'a> {
    All { redlock: &'a Redlock, resources: &'a [Vec<u8>] },
    Slot(Slots),
}

/// An acquired lock.
pub(crate) struct Acquired {
    pub(crate) guard: Guard,
    pub(crate) slot: Option<Slot>,
}

/// The slot of an acquired lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// From 0.
    pub(crate) index: usize,
    /// The name of its lock.
    pub(crate) resource: Vec<u8>,
}

/// Sets the options of a request for a lock or for a slot, which have methods of the same names.
macro_rules! with_options {
    ($request:expr, $options:expr, $until:expr) => {{
        let mut request = $request;
        request = match $until {
            Some(until) => request.wait_until(until),
            None => request.wait_unbounded(),
        };
        if let Some(owner) = $options.owner {
            request = request.owner(owner);
        }
        if let Some(settings) = $options.keep_alive {
            request = request.keep_alive(settings);
        }
        if $options.fenced {
            request = request.fenced();
        }
        request
    }};
}

impl<'a> Target<'a> {
    /// Creates the subject of a request: with `slots`, one of this many slots of the first name.
    pub(crate) fn new(
        redlock: &'a Redlock,
        resources: &'a [Vec<u8>],
        slots: Option<u16>,
    ) -> Result<Self, Error> {
        match (resources, slots) {
            ([name, ..], Some(count)) => Ok(Self::Slot(redlock.slots(name, usize::from(count))?)),
            _ => Ok(Self::All { redlock, resources }),
        }
    }

    /// Requests the lock, and waits until `until` if another client holds it; without a limit if that is `None`.
    pub(crate) async fn acquire(
        &self,
        options: &Options<'_>,
        until: Option<Instant>,
    ) -> Result<Acquired, Error> {
        match self {
            Self::All { redlock, resources } => {
                let request = redlock.lock(*resources, options.ttl);
                Ok(Acquired { guard: with_options!(request, options, until).await?, slot: None })
            }
            Self::Slot(slots) => {
                let held = with_options!(slots.acquire(options.ttl), options, until).await?;
                let slot = Slot { index: held.index(), resource: held.resource().as_bytes().to_vec() };
                Ok(Acquired { guard: held.into_guard(), slot: Some(slot) })
            }
        }
    }
}

/// A lock that was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    pub(crate) message: String,
}

/// Why a lock was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RefusalKind {
    /// Another client holds it.
    Conflict,
    /// The program itself runs under this lock.
    Nested,
    /// Too few nodes replied.
    Unavailable,
    /// The name is used for something other than a lock, or a setting is wrong.
    Config,
    /// The command line is wrong.
    Usage,
    /// The request was canceled.
    Canceled,
}

/// Returns why a lock was not acquired.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::Contended => RefusalKind::Conflict,
        ErrorKind::WrongType | ErrorKind::DamagedCounter | ErrorKind::Unsupported => RefusalKind::Config,
        ErrorKind::InvalidInput => RefusalKind::Usage,
        _ => RefusalKind::Unavailable,
    };
    Refusal { kind, message: message(error) }
}

/// Returns the error as one line, with the causes per server where they say more.
pub(crate) fn message(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(nodes)
            if matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::WrongType | ErrorKind::TooSlow) =>
        {
            let (error, nodes) = (error.to_string(), nodes.to_string());
            if error.contains(&nodes) { error } else { format!("{error} ({nodes})") }
        }
        _ => error.to_string(),
    }
}

/// Returns the error with its exit code.
pub(crate) fn failure(error: &Error) -> Failure {
    let refusal = refusal(error);
    let code = match (error.kind(), refusal.kind) {
        (ErrorKind::Lost | ErrorKind::Superseded, _) => Code::Lost,
        (_, RefusalKind::Conflict) => Code::Conflict,
        (_, RefusalKind::Config) => Code::Config,
        (_, RefusalKind::Usage) => Code::Usage,
        _ => Code::Unavailable,
    };
    Failure::new(code, refusal.message)
}
