//! The type of a relay without its feature, and on systems without abstract Unix sockets: there is none.

use std::future::{Ready, ready};
use std::io;

use fred::types::config::Config;
use redlock_wire::{Hub, SocketHandle};

pub(crate) enum Relay {}

impl Relay {
    pub(crate) fn open(_config: Config, _hub: &Hub) -> Ready<io::Result<(Config, Self)>> {
        ready(Err(io::ErrorKind::Unsupported.into()))
    }

    pub(crate) fn socket(&self) -> &SocketHandle {
        match *self {}
    }

    pub(crate) fn speaks_resp3(&self, _resp3: bool) {
        match *self {}
    }
}
