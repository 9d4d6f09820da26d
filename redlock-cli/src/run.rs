//! `redlock run`: a command under a lock.
//!
//! Two processes watch each other. The supervisor is the process that the shell started: it has the command as its
//! child, passes signals on, and never uses the network. The keeper holds the lock and renews it.
//!
//! - If the keeper dies or hangs, the supervisor stops the command before the last validity that it knows ends.
//! - If the supervisor dies, the keeper kills the command and releases the lock.
//! - If the supervisor is stopped, the keeper keeps the lock, and kills the command if the lock is lost meanwhile.

mod board;
mod command;
mod environment;
mod exec;
mod keep;
mod keeper;
mod lookup;
mod machine;
mod procfs;
mod report;
mod signals;
mod supervisor;
mod timing;
mod tree;
mod verdict;
mod watched;
mod wire;

pub(crate) use self::command::{end_by_signal, run};
pub(crate) use self::exec::{EXEC, main as exec};
pub(crate) use self::keeper::{KEEPER, main as keeper};
pub(crate) use self::signals::is_ignored;
pub(crate) use self::timing::Times;
pub(crate) use self::watched::Watched;
