//! Sockets and tasks on tokio.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

use redis::io::tcp::{TcpSettings, socket2::SockRef};
use tokio::net::{TcpStream, lookup_host};

use super::Task;
use crate::socket::{Stream, set_up};

pub(super) async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(lookup_host((host, port)).await?.collect())
}

pub(super) async fn tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<Box<dyn Stream>> {
    let socket = TcpStream::connect(address).await?;
    set_up(&SockRef::from(&socket), settings)?;
    Ok(Box::new(socket))
}

#[cfg(unix)]
pub(super) async fn unix(path: &Path) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Task {
    Task::Tokio(tokio::spawn(task).abort_handle())
}
