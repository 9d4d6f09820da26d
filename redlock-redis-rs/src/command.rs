//! Commands in the form of the redis client.

use redis::Cmd;
use redlock_wire::Command;

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
