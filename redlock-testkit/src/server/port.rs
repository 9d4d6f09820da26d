//! The ports of servers.

use std::collections::BTreeSet;
use std::iter;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};

static RESERVED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The ports to choose from: above those of well-known services, and below those that systems give to connections and to
/// listeners without a port of their own. Thus no connection takes the port of a server that is down.
const RANGE: std::ops::Range<u16> = 10_000..32_768;

/// A port on the loopback interface that no other server of this process gets, also while its server is down.
pub(super) struct Port(u16);

impl Port {
    /// Reserves a port on which no process listens at the moment.
    ///
    /// # Panics
    ///
    /// Panics if none of a thousand random ports is free.
    #[track_caller]
    pub(super) fn reserve() -> Self {
        for port in iter::repeat_with(|| fastrand::u16(RANGE)).take(1000) {
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && reserved().insert(port) {
                return Self(port);
            }
        }
        panic!("none of 1000 ports on 127.0.0.1 is free");
    }

    pub(super) fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        reserved().remove(&self.0);
    }
}

/// A set of numbers is valid after any panic.
fn reserved() -> MutexGuard<'static, BTreeSet<u16>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand random ports of this range repeat some.
    #[test]
    fn no_port_is_reserved_twice() {
        let ports: Vec<_> = (0..1000).map(|_| Port::reserve()).collect();
        let numbers: BTreeSet<_> = ports.iter().map(Port::number).collect();
        assert_eq!(ports.len(), numbers.len());
        drop(ports);
        assert!(reserved().is_disjoint(&numbers), "a dropped server gives its port back");
    }
}
