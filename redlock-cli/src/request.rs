//! Requests for locks, and their errors, for all commands.

use std::ops::Deref;
use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::{
    Error, ErrorKind, Guard, KeepAlive, Lease, LockRequest, Redlock, ReleaseOutcome, RwLock, Slots, kind,
};
use serde::{Deserialize, Serialize};

use crate::args::Sharing;
use crate::exit::{Code, Failure};

/// The options of a request.
pub(crate) struct Options<'a> {
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    pub(crate) owner: Option<&'a str>,
    pub(crate) keep_alive: Option<KeepAlive>,
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A lock on all names.
    Plain,
    /// A slot of a single name that has this many slots.
    Slot(u16),
    /// A read lock on a single name.
    Reader,
    /// A lock on a single name that has precedence over new readers.
    ///
    /// A plain lock excludes readers too, but a steady stream of readers can keep it waiting forever. It does not lock
    /// the gate, which would take a second key and a second queue. Few names have readers.
    Writer,
}

impl Kind {
    /// Returns the kind that the options select.
    pub(crate) fn new(sharing: Sharing) -> Self {
        match sharing {
            Sharing { slots: Some(count), .. } => Self::Slot(count),
            Sharing { reader: true, .. } => Self::Reader,
            Sharing { writer: true, .. } => Self::Writer,
            _ => Self::Plain,
        }
    }
}

/// The subject of a request: all names of a lock, or a single name of another kind.
pub(crate) enum Target<'a> {
    All { redlock: &'a Redlock, resources: &'a [Vec<u8>] },
    Slot(Slots),
    Reader(RwLock),
    Writer(RwLock),
}

/// An acquired lock.
pub(crate) struct Acquired {
    pub(crate) lock: HeldLock,
    pub(crate) slot: Option<Slot>,
}

/// The guard of a lock.
pub(crate) enum HeldLock {
    Exclusive(Guard),
    Reader(Guard<kind::Read>),
}

impl HeldLock {
    /// Releases the lock.
    pub(crate) async fn release(self) -> Result<ReleaseOutcome, Error> {
        match self {
            Self::Exclusive(guard) => guard.release().await,
            Self::Reader(guard) => guard.release().await,
        }
    }
}

impl Deref for HeldLock {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Exclusive(guard) => guard,
            Self::Reader(guard) => guard,
        }
    }
}

/// The slot of an acquired lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// The index of the slot, from 0.
    pub(crate) index: usize,
    /// The name of the slot's lock.
    pub(crate) resource: Vec<u8>,
}

/// Sets the options of a request.
fn with_options<K: kind::Kind>(
    request: LockRequest<K>,
    options: &Options<'_>,
    until: Option<Instant>,
) -> LockRequest<K> {
    let mut request = match until {
        Some(until) => request.wait_until(until),
        None => request.wait_unbounded(),
    };
    if let Some(owner) = options.owner {
        request = request.owner(owner);
    }
    if let Some(settings) = options.keep_alive {
        request = request.keep_alive(settings);
    }
    request
}

/// Acquires a lock that can be fenced.
async fn acquire<K: kind::Fenceable + kind::Owned>(
    request: LockRequest<K>,
    options: &Options<'_>,
    until: Option<Instant>,
) -> Result<Guard, Error> {
    let request = with_options(request, options, until);
    if options.fenced {
        return request.fenced().await.map(Guard::into_any);
    }
    request.await.map(Guard::into_any)
}

impl<'a> Target<'a> {
    /// Creates the subject of a request. Every kind except a plain one uses the first name only.
    pub(crate) fn new(redlock: &'a Redlock, resources: &'a [Vec<u8>], kind: Kind) -> Result<Self, Error> {
        Ok(match (kind, resources) {
            (Kind::Slot(count), [name, ..]) => Self::Slot(redlock.slots(name, usize::from(count))?),
            (Kind::Reader, [name, ..]) => Self::Reader(redlock.rw_lock(name)?),
            (Kind::Writer, [name, ..]) => Self::Writer(redlock.rw_lock(name)?),
            _ => Self::All { redlock, resources },
        })
    }

    /// Requests the lock, and waits for it until `until`.
    ///
    /// If `until` is `None`, the wait has no limit.
    pub(crate) async fn acquire(
        &self,
        options: &Options<'_>,
        until: Option<Instant>,
    ) -> Result<Acquired, Error> {
        let ttl = options.ttl;
        let lock = match self {
            Self::All { redlock, resources } => {
                HeldLock::Exclusive(acquire(redlock.lock(*resources, ttl), options, until).await?)
            }
            Self::Writer(lock) => HeldLock::Exclusive(acquire(lock.write(ttl), options, until).await?),
            Self::Reader(lock) => HeldLock::Reader(with_options(lock.read(ttl), options, until).await?),
            Self::Slot(slots) => {
                let guard = acquire(slots.acquire(ttl), options, until).await?;
                let resource = &guard.resources()[0];
                let index = slots.resources().iter().position(|lock| lock == resource).unwrap_or_default();
                let slot = Slot { index, resource: resource.as_bytes().to_vec() };
                return Ok(Acquired { lock: HeldLock::Exclusive(guard), slot: Some(slot) });
            }
        };
        Ok(Acquired { lock, slot: None })
    }
}

/// Returns the delay before the next request while too few servers reply, in a wait that ends at `until`.
pub(crate) fn retry_delay(now: Instant, until: Option<Instant>) -> Duration {
    const LONGEST: Duration = Duration::from_millis(500);

    until.map_or(LONGEST, |until| until.saturating_duration_since(now).min(LONGEST))
}

/// A lock that was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotAcquired {
    pub(crate) kind: NotAcquiredKind,
    pub(crate) message: String,
}

/// The reason why a lock was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NotAcquiredKind {
    /// Another client holds it.
    Conflict,
    /// The program itself runs under this lock.
    Nested,
    /// Too few nodes replied, or the votes of several clients were split.
    Unavailable,
    /// The name is used for something other than a lock, or a setting is wrong.
    Config,
    /// The command line is wrong.
    Usage,
    /// The request was canceled.
    Canceled,
}

/// Returns why a lock was not acquired.
pub(crate) fn not_acquired(error: &Error) -> NotAcquired {
    let kind = match error.kind() {
        ErrorKind::Contended => NotAcquiredKind::Conflict,
        ErrorKind::WrongType | ErrorKind::DamagedCounter | ErrorKind::Unsupported => NotAcquiredKind::Config,
        ErrorKind::InvalidInput => NotAcquiredKind::Usage,
        // Also `Undecided`: with split votes, no client is known to hold the lock, so this is not a conflict.
        _ => NotAcquiredKind::Unavailable,
    };
    NotAcquired { kind, message: message(error) }
}

/// Returns whether only readers hold a lock that was not acquired.
pub(crate) fn is_held_by_readers(error: &Error) -> bool {
    error.holder().is_some_and(|holder| holder.to_string() == "readers")
}

/// Returns the error as one line.
pub(crate) fn message(error: &Error) -> String {
    let text = error.to_string();
    if text.contains("NOAUTH ") { format!("{text}; {NO_PASSWORD}") } else { text }
}

/// The advice for servers that require a password. The file reaches nested runs, and an option does not.
const NO_PASSWORD: &str = "set REDLOCK_PASSWORD_FILE, which nested runs get too, or --password-file";

/// Returns the error with its exit code.
pub(crate) fn failure(error: &Error) -> Failure {
    let not_acquired = not_acquired(error);
    let code = match (error.kind(), not_acquired.kind) {
        (ErrorKind::Lost | ErrorKind::Superseded, _) => Code::Lost,
        (_, NotAcquiredKind::Conflict) => Code::Conflict,
        (_, NotAcquiredKind::Config) => Code::Config,
        (_, NotAcquiredKind::Usage) => Code::Usage,
        _ => Code::Unavailable,
    };
    Failure::new(code, not_acquired.message)
}
