//! The dedicated tokio runtime of the library, on a thread that lives as long as the process.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};

/// Returns a handle to the runtime, and starts the runtime on the first call.
///
/// # Panics
///
/// Panics if the runtime or its thread cannot be started.
pub(super) fn handle() -> Handle {
    static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
    let mut handle = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    handle.get_or_insert_with(start).clone()
}

fn start() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().expect("cannot start a tokio runtime");
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(pending::<()>());
    thread::Builder::new().name("redlock".into()).spawn(run).expect("cannot start a thread for tokio");
    handle
}
