//! A tokio runtime of the library's own, on a thread that ends with the process.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};

/// The runtime, which is started when this is first called.
///
/// # Panics
///
/// If the runtime or its thread cannot be started.
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
