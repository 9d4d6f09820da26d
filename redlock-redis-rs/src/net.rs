//! Sockets and tasks on the runtime of the caller: tokio if there is one, otherwise smol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

use redis::io::tcp::TcpSettings;

use crate::socket::Stream;

#[cfg(feature = "smol")]
mod on_smol;
#[cfg(feature = "tokio")]
mod on_tokio;

/// Returns whether the caller runs on tokio. The client decides in the same way.
#[cfg(all(feature = "tokio", feature = "smol"))]
fn on_tokio() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}

/// Calls the function of this name for the runtime of the caller.
macro_rules! on_the_callers {
    ($call:ident($($argument:expr),*) $($wait:tt)*) => {{
        #[cfg(all(feature = "tokio", feature = "smol"))]
        let outcome = if on_tokio() {
            on_tokio::$call($($argument),*) $($wait)*
        } else {
            on_smol::$call($($argument),*) $($wait)*
        };
        #[cfg(not(feature = "smol"))]
        let outcome = on_tokio::$call($($argument),*) $($wait)*;
        #[cfg(not(feature = "tokio"))]
        let outcome = on_smol::$call($($argument),*) $($wait)*;
        outcome
    }};
}

/// Returns the addresses of a host.
pub(crate) async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    on_the_callers!(resolve(host, port).await)
}

/// Connects over TCP.
pub(crate) async fn tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<Box<dyn Stream>> {
    on_the_callers!(tcp(address, settings).await)
}

/// Connects to a Unix socket.
#[cfg(unix)]
pub(crate) async fn unix(path: &Path) -> io::Result<Box<dyn Stream>> {
    on_the_callers!(unix(path).await)
}

/// A task that ends when it is dropped.
pub(crate) enum Task {
    #[cfg(feature = "tokio")]
    Tokio(tokio::task::AbortHandle),
    #[cfg(feature = "smol")]
    Smol { _task: smol::Task<()> },
}

/// Starts a task.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Task {
    on_the_callers!(spawn(task))
}

impl Drop for Task {
    fn drop(&mut self) {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(task) => task.abort(),
            #[cfg(feature = "smol")]
            Self::Smol { .. } => {}
        }
    }
}
