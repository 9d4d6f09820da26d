//! Requests for locks, and their errors, as all commands have them.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::{Error, ErrorKind, Guard, KeepAlive, Redlock, SlotGuard, Slots};

use crate::exit::{Code, Failure};
use crate::run::{Refusal, RefusalKind};

/// The options of a request.
pub(crate) struct Options<'a> {
    pub(crate) resources: &'a [Vec<u8>],
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    pub(crate) owner: Option<&'a str>,
    pub(crate) keep_alive: Option<KeepAlive>,
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

/// Requests a lock, and waits until `until` if another client holds it; without a limit if that is `None`.
pub(crate) async fn lock(
    redlock: &Redlock,
    options: &Options<'_>,
    until: Option<Instant>,
) -> Result<Guard, Error> {
    with_options!(redlock.lock(options.resources, options.ttl), options, until).await
}

/// Requests any of these slots, and waits in the same way as [`lock`]. The resources of `options` are not used.
pub(crate) async fn slot(
    slots: &Slots,
    options: &Options<'_>,
    until: Option<Instant>,
) -> Result<SlotGuard, Error> {
    with_options!(slots.acquire(options.ttl), options, until).await
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
