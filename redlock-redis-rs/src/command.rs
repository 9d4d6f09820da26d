//! Commands in the form of the redis client.

use std::cell::RefCell;
use std::sync::Arc;

use redis::Cmd;
use redlock_wire::{Command, Last};

thread_local! {
    static LAST: RefCell<Last<Arc<Cmd>>> = const { RefCell::new(Last::none()) };
}

/// Packs a command. It reserves the space first: growing piece by piece allocates three times as often.
pub(crate) fn pack(command: Command<'_>) -> Cmd {
    match command {
        Command::SetIfAbsent { key, value, millis, get } => {
            let words = "SETNXPXGET".len() + 20; // the longest number of milliseconds
            let mut packed = Cmd::with_capacity(7, words + key.len() + value.len());
            packed.arg("SET").arg(key).arg(value).arg("NX").arg("PX").arg(millis);
            if get {
                packed.arg("GET");
            }
            packed
        }
        Command::Other { name, args } => {
            let bytes = name.len() + args.iter().map(|arg| arg.len()).sum::<usize>();
            let mut packed = Cmd::with_capacity(args.len() + 1, bytes);
            packed.arg(name);
            for arg in args {
                packed.arg(*arg);
            }
            packed
        }
    }
}

/// Calls `look` with the request that this thread packed last.
pub(crate) fn last<T>(look: impl FnOnce(&mut Last<Arc<Cmd>>) -> T) -> T {
    // Destructors of other thread-local values may still release a lock after this one is destroyed.
    if LAST.try_with(|_| ()).is_err() {
        return look(&mut Last::none());
    }
    LAST.with_borrow_mut(look)
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
