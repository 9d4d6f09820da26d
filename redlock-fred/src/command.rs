//! Commands in the form of fred.

use std::cell::RefCell;

use fred::interfaces::KeysInterface;
use fred::types::{CustomCommand, Expiration, Key, SetOptions, Value};
use redlock_wire::{Command, Failure, Last, Reply};

use crate::reply;

/// A command in the form of fred. Clones share its parts.
#[derive(Clone)]
pub enum Packed {
    /// `SET`. It is not a custom command, which fred would flush by itself; this way many acquires share one write.
    Set {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
        /// The time to live.
        expiry: Expiration,
        /// `true` to request the old value.
        get: bool,
    },
    /// Any other command.
    Custom {
        /// The name.
        command: CustomCommand,
        /// The arguments.
        args: Vec<Value>,
    },
}

thread_local! {
    static LAST: RefCell<Last<Packed>> = const { RefCell::new(Last::none()) };
}

pub(crate) fn pack(command: Command<'_>) -> Packed {
    match command {
        Command::SetIfAbsent { key, value, millis, get } => {
            // A TTL is a few weeks at most, so the limit is never reached; the server would reject such a number.
            let expiry = Expiration::PX(i64::try_from(millis).unwrap_or(i64::MAX));
            Packed::Set { key: key.into(), value: value.into(), expiry, get }
        }
        Command::Other { name, args } => Packed::Custom {
            command: CustomCommand::new_static(name, None::<u16>, false),
            args: args.iter().map(|&arg| Value::from(arg)).collect(),
        },
    }
}

/// Calls `look` with the request that this thread packed last.
pub(crate) fn last<T>(look: impl FnOnce(&mut Last<Packed>) -> T) -> T {
    // Destructors of other thread-local values may still release a lock after this one is destroyed.
    if LAST.try_with(|_| ()).is_err() {
        return look(&mut Last::none());
    }
    LAST.with_borrow_mut(look)
}

/// Sends a command over a client and waits for its reply.
pub(crate) async fn send(client: &impl KeysInterface, command: Packed) -> Result<Reply, Failure> {
    match command {
        Packed::Set { key, value, expiry, get } => {
            reply::of_value(client.set(key, value, Some(expiry), Some(SetOptions::NX), get).await)
        }
        Packed::Custom { command, args } => {
            let reply = client.custom_raw(command, args).await;
            reply.map(reply::of_frame).map_err(|error| reply::failure(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    /// Calls `last` when its thread ends.
    struct Late(Sender<()>);

    impl Drop for Late {
        fn drop(&mut self) {
            last(|_| self.0.send(()).unwrap());
        }
    }

    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_thread_that_ends_may_still_ask() {
        let (sender, asked) = channel();
        let thread = thread::spawn(|| {
            // The value that is created first is destroyed last.
            LATE.set(Some(Late(sender)));
            last(|_| ());
        });
        thread.join().unwrap();
        asked.recv().unwrap();
    }
}
