//! The commands that need a single process.

pub(crate) mod break_lock;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod handle;
pub(crate) mod health;
#[cfg(unix)]
pub(crate) mod hold;
pub(crate) mod inspect;
pub(crate) mod nodes;
pub(crate) mod vouch;
pub(crate) mod wait;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use redlock_redis_rs::node::Token;
use redlock_redis_rs::{Inspection, Redlock, Resource};

use crate::args::{Names, Shared};
use crate::exit::Failure;
use crate::messages::Messages;
use crate::request::{self, Kind};
use crate::settings::{self, Servers};

/// How long a command waits for pending cleanup before it ends.
const CLEANUP_LIMIT: Duration = Duration::from_secs(2);

/// Runs a command with the servers of the options, and waits for its cleanup.
pub(crate) fn with_redlock(
    shared: &Shared,
    work: impl AsyncFnOnce(Redlock, &Servers) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    only_looking(shared, async |redlock, servers| {
        let result = work(redlock.clone(), servers).await;
        // After the limit, the TTL ends the rest.
        let _ = tokio::time::timeout(CLEANUP_LIMIT, redlock.close()).await;
        result
    })
}

/// Runs a command that changes nothing on the servers of the options, in a separate runtime.
///
/// The settings are found once, because a file with a password may be a pipe, which is empty when it is read again.
pub(crate) fn only_looking(
    shared: &Shared,
    work: impl AsyncFnOnce(Redlock, &Servers) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let found = settings::find(shared)?;
    let messages = Messages::new(shared.quiet, shared.verbose);
    found.warnings.iter().for_each(|warning| messages.warn(warning));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal("cannot start", error))?;
    let result = runtime.block_on(async {
        let redlock = found.servers.redlock().map_err(|error| Failure::config(error.to_string()))?;
        work(redlock, &found.servers).await
    });
    messages.flush();
    result
}

/// Returns the failure of a command that stops processes, on systems without the process groups and signals of Unix.
#[cfg(not(unix))]
pub(crate) fn unsupported(command: &str) -> Failure {
    Failure::config(format!("`redlock {command}` is not supported on this system"))
}

/// Checks the names of resources.
pub(crate) fn resources(names: &[OsString]) -> Result<Vec<Resource>, Failure> {
    let names = names.iter().map(|name| Resource::new(settings::bytes(name)));
    names.collect::<Result<_, _>>().map_err(|error| request::failure(&error))
}

/// Checks the names to lock.
pub(crate) fn lockable(names: &Names) -> Result<Vec<Resource>, Failure> {
    match (Kind::new(names.sharing), &*names.resources) {
        (Kind::Plain, resources) | (_, resources @ [_]) => self::resources(resources),
        _ => Err(Failure::usage("--slots, --shared and --writer need a single name")),
    }
}

/// Returns whether readers hold a lock.
pub(crate) fn is_read(found: &Inspection) -> bool {
    found.holder() == Some(&Token::of_readers().fingerprint())
}

/// Writes a line to stdout. A closed pipe is not a failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write_line(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("cannot write", error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stdout.
pub(crate) fn write_line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
