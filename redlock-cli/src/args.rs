//! The command line.
//!
//! The doc comments of options are their help texts, which are plain text.
#![allow(rustdoc::broken_intra_doc_links)] // doc comments are the help text: brackets mark optional parts
#![allow(clippy::doc_markdown)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::duration;

/// Distributed locks over independent Redis or Valkey servers, for anything that can be started.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, propagate_version = true, max_term_width = 100, after_long_help = HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

const HELP: &str = "\
Durations: 10 and 10s are ten seconds; also 500ms, 1.5, 5m, 2h, 1d.

Environment, if the option is missing:
  REDLOCK_NODES          the servers, separated by commas or blanks
  REDLOCK_PREVIOUS_NODES those that were used before, while the servers are changed
  REDLOCK_CONFIG         the configuration file
  REDLOCK_USER, REDLOCK_PASSWORD, REDLOCK_PASSWORD_FILE
  REDLOCK_CACERT, REDLOCK_CERT, REDLOCK_KEY
  REDLOCK_KEY_PREFIX, REDLOCK_NODE_TIMEOUT, REDLOCK_LONGEST_TTL,
  REDLOCK_CLOCK_DRIFT_FACTOR
  REDLOCK_NODE_LISTS_MUST_AGREE  true or false
  REDLOCK_HANDLE         the handle for `extend` and `unlock`

Files: ~/.config/redlock/config.toml, or else /etc/redlock/config.toml, in TOML:
  nodes = [\"rediss://10.0.0.1\", \"rediss://10.0.0.2\", \"rediss://10.0.0.3\"]
  previous_nodes, user, password, password_file, ca_file, cert_file, key_file,
  key_prefix, node_timeout, longest_ttl, clock_drift_factor,
  node_lists_must_agree";

/// Options of all commands.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Servers and output")]
pub(crate) struct Shared {
    /// A server: redis://HOST[:PORT], rediss:// for TLS, unix:///PATH, the master that sentinels name:
    /// redis+sentinel://HOST,HOST,HOST/SERVICE, or a cluster as the only node: redis+cluster://HOST,HOST. Repeat it for
    /// each server
    #[arg(long = "node", value_name = "URL", global = true)]
    pub(crate) nodes: Vec<String>,
    /// A server that was used before, while the servers are changed: a lock needs a majority of both lists. Repeat it for
    /// each of them, also for those that remain
    #[arg(long = "previous-node", value_name = "URL", global = true)]
    pub(crate) previous_nodes: Vec<String>,
    /// The configuration file, instead of those in the default directories
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// The prefix that turns the name of a resource into its key
    #[arg(long, value_name = "PREFIX", global = true)]
    pub(crate) key_prefix: Option<OsString>,
    /// The user for servers whose URL has none
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,
    /// A file with the password for servers whose URL has none
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) password_file: Option<PathBuf>,
    /// The certificate authorities for rediss:// servers, in PEM, instead of those of the system
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) cacert: Option<PathBuf>,
    /// A client certificate for rediss:// servers, in PEM
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the client certificate, in PEM
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) key: Option<PathBuf>,
    /// The time limit for the reply of one server [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, global = true)]
    pub(crate) node_timeout: Option<Duration>,
    /// The longest TTL of all programs. A server that may have lost locks does not count until they have expired
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, global = true)]
    pub(crate) longest_ttl: Option<Duration>,
    /// The largest difference between clocks, as a part of the TTL: 0.01 is 1 %. Set it in all programs [default: 0.01]
    #[arg(long, value_name = "FACTOR", global = true)]
    pub(crate) clock_drift_factor: Option<f64>,
    /// Servers do not count if another program lists other servers. Set it in all programs
    #[arg(long, global = true)]
    pub(crate) node_lists_must_agree: bool,
    /// Prints no messages and no reports
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Prints each step to stderr; if repeated, prints the log of the library, too
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Lock(Lock),
    Extend(Extend),
    Unlock(Unlock),
    Hold(Hold),
    Wait(Wait),
    Inspect(Inspect),
    Break(Break),
    Health(Health),
    Doctor(Doctor),
    Nodes(Nodes),
    Vouch(Vouch),
    Completions(Completions),
    Man(Man),
}

/// Runs a command while holding a lock
///
/// The lock is renewed while the command runs, and released when the command and all its descendants have ended. If the
/// lock cannot be kept, the command is stopped before another client can get the lock.
///
/// Options end at RESOURCE: all words after COMMAND are its arguments. No shell interprets them.
#[derive(Debug, Args)]
#[command(override_usage = "redlock run [OPTIONS] RESOURCE [--] COMMAND [ARGS]...", after_help = RUN_HELP)]
pub(crate) struct Run {
    /// The name of the lock, and the command with its arguments
    #[arg(value_names = ["RESOURCE", "COMMAND"], num_args = 2.., required = true, trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
    /// Another name to lock together with RESOURCE: all or none
    #[arg(long = "also", value_name = "RESOURCE", conflicts_with = "Sharing")]
    pub(crate) also: Vec<OsString>,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// The exit code if another client holds the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
    /// The time for which the servers keep the lock after a crash of this machine
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// The time between the first signal and SIGKILL if the lock is lost [default: a quarter of the TTL]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// The first signal that stops the command
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    pub(crate) signal: String,
    /// The time for which the command may continue after the keys were deleted. Another client may hold the lock then
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    pub(crate) stolen_grace: Duration,
    /// Stops the command after this time, with exit code 124. SIGKILL follows after --kill-after, or else --grace
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_runtime: Option<Duration>,
    /// The time until SIGKILL after a forwarded signal [default: never], or after --max-runtime [default: --grace]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,
    /// Keeps the lock for at least this time after its grant
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "reader")]
    pub(crate) at_least: Option<Duration>,
    /// The outcomes of the command to which --at-least applies
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = AtLeastIf::Always, requires = "at_least")]
    pub(crate) at_least_if: AtLeastIf,
    /// Runs the command once a period: implies -n, and keeps the lock after success until 0.9 of the period has passed
    /// since the start of the run. While too few servers reply, the run waits for a tenth of the period, at most 1m. -w
    /// replaces this limit, and also makes the run wait while another client holds the lock. --unavailable fail does
    /// not wait for servers
    #[arg(long, value_name = "PERIOD", value_parser = duration::parse, conflicts_with_all = ["at_least", "reader"])]
    pub(crate) once_per: Option<Duration>,
    /// Adds a fencing token to the lock, in REDLOCK_FENCING_TOKEN
    #[arg(long, conflicts_with = "reader")]
    pub(crate) fenced: bool,
    /// The treatment of processes that outlive the command
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Leftover::Kill)]
    pub(crate) leftover: Leftover,
    /// The process group of the command
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Group::Auto)]
    pub(crate) group: Group,
    /// Writes the outcome to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The owner label that other clients see [default: HOST:PID]
    #[arg(long, value_name = "LABEL")]
    pub(crate) owner: Option<String>,
    /// Keeps the servers' passwords in the environment of the command, for nested runs
    #[arg(long)]
    pub(crate) pass_credentials: bool,
}

const RUN_HELP: &str = "\
Exit codes: that of the command, or
  64  wrong usage, or nested in a run under the same lock
  69  too few servers replied, or the votes of several clients stayed split
  75  another client holds the lock (see -E)
  78  wrong configuration, or the name is used for something other than a lock
  79  the lock was lost and the command was stopped
  124 --max-runtime
  126, 127  the command is not executable, or was not found

`redlock --help` describes durations, the environment and configuration files.";

/// The names of locks.
#[derive(Clone, Debug, Args)]
pub(crate) struct Names {
    /// The names, which are locked all or none; a single one with --slots, --shared or --writer
    #[arg(value_name = "RESOURCE", required = true)]
    pub(crate) resources: Vec<OsString>,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
}

/// The options of locks that several clients may hold.
#[derive(Clone, Copy, Debug, Default, Args)]
#[group(multiple = false)]
pub(crate) struct Sharing {
    /// Locks one of K slots: RESOURCE:slot:0 and so on. `run` passes the index in REDLOCK_SLOT
    #[arg(long, value_name = "K", value_parser = slot_count())]
    pub(crate) slots: Option<u16>,
    /// Locks for reading: other clients with --shared may hold the lock too, clients without it may not
    #[arg(short = 's', long = "shared")]
    pub(crate) reader: bool,
    /// Locks for writing, alone. While this client waits, no other client gets the lock with --shared
    #[arg(long)]
    pub(crate) writer: bool,
}

/// Parses the number of slots.
fn slot_count() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=256)
}

/// The options of the wait for a lock.
#[derive(Clone, Debug, Args)]
pub(crate) struct Waiting {
    /// Fails at once if another client holds the lock
    #[arg(short = 'n', long = "try", visible_aliases = ["nb", "nonblock"], conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// The longest wait if another client holds the lock [default: without a limit]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// The behavior while too few servers reply [default: fail; with --once-per: wait]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) unavailable: Option<Unavailable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unavailable {
    /// Fail with exit code 69
    Fail,
    /// Retry until the wait ends
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtLeastIf {
    /// After success and failure
    Always,
    /// After success, so that another machine can repeat a failed command
    Success,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Leftover {
    /// Stop them, then release the lock
    Kill,
    /// Keep the lock until they end
    Wait,
    /// Release the lock and let them run
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// A new group without a terminal, this process's group with one
    Auto,
    /// A new group
    Own,
    /// This process's group
    Shared,
}

/// Acquires a lock and prints a handle, as JSON on stdout
///
/// The lock is not renewed: it ends with its TTL unless `redlock extend` or `redlock unlock` receives the handle. The
/// handle is a secret. With --slots, it contains the name of the slot, such as RESOURCE:slot:3.
#[derive(Debug, Args)]
#[command(mut_arg("reader", |arg| arg.hide(true)))] // for its own error: see `handle::lock`
pub(crate) struct Lock {
    #[command(flatten)]
    pub(crate) names: Names,
    /// The time to live of the lock
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Adds a fencing token to the lock
    #[arg(long)]
    pub(crate) fenced: bool,
    /// The owner label that other clients see [default: HOST:PID]
    #[arg(long, value_name = "LABEL")]
    pub(crate) owner: Option<String>,
}

/// The source of a handle.
#[derive(Clone, Debug, Args)]
pub(crate) struct Handle {
    /// The file with the handle [default: REDLOCK_HANDLE, or else stdin]
    #[arg(long, value_name = "FILE")]
    pub(crate) handle_file: Option<PathBuf>,
}

/// Extends a lock whose handle is on stdin, and prints its validity
#[derive(Debug, Args)]
pub(crate) struct Extend {
    #[command(flatten)]
    pub(crate) handle: Handle,
    /// The new time to live [default: as before]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

/// Releases a lock whose handle is on stdin
#[derive(Debug, Args)]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) handle: Handle,
}

/// Holds a lock until stdin ends, a signal arrives, or a process ends
///
/// Prints one line of JSON on stdout when the lock is held. With --slots, the line contains the index of the slot.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Holds the lock until this process ends, and stops the process if the lock is lost
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<i32>,
    /// The time for which the servers keep the lock after a crash of this machine
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// The time between SIGTERM and SIGKILL for the process of --pid [default: a quarter of the TTL]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Adds a fencing token to the lock
    #[arg(long, conflicts_with = "reader")]
    pub(crate) fenced: bool,
    /// The owner label that other clients see [default: HOST:PID]
    #[arg(long, value_name = "LABEL")]
    pub(crate) owner: Option<String>,
}

/// Waits until all names are free, without locking them
///
/// With --slots, waits until one of the slots is free. With --shared, waits until no writer holds the name or waits for
/// it.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Gives up after this time, with exit code 75 [default: without a limit]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
}

/// Shows the holders of locks
///
/// Exit codes: 0 if all are free, 75 if one is held, 69 if too few servers replied.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The names
    #[arg(value_name = "RESOURCE", required = true)]
    pub(crate) resources: Vec<OsString>,
    /// Inspects the K slots of each name, as with `redlock run --slots K`
    #[arg(long, value_name = "K", value_parser = slot_count())]
    pub(crate) slots: Option<u16>,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Deletes the lock of a holder that an inspection has shown
///
/// Only the keys of that holder are deleted. If it is a run of this program, its command is killed at its next renewal.
#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The name
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: OsString,
    /// The holder as `redlock inspect` shows it: LABEL#FINGERPRINT, or only the fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) holder: String,
}

/// Checks whether enough servers could grant a lock
///
/// A server in quarantine does not count: see --longest-ttl. Exit codes: 0 if a lock could be granted, otherwise 69.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Exits with 69 unless all servers are healthy, for example between two steps of a rolling restart
    #[arg(long)]
    pub(crate) all: bool,
    /// Stays connected for this time first, so that the rates of the clocks are known, for example 6s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0s")]
    pub(crate) observe: Duration,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks the servers' configuration, clocks, rights and latency
///
/// Exit codes: 0 without errors, 1 with errors, 69 if too few servers replied.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // four flags
pub(crate) struct Doctor {
    /// Names whose holders are compared between the servers
    #[arg(value_name = "RESOURCE")]
    pub(crate) resources: Vec<OsString>,
    /// The TTL of your programs
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Also checks the clocks and the rights for fenced locks
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Also checks the rights for --shared
    #[arg(short = 's', long = "shared")]
    pub(crate) readers: bool,
    /// The time for which the rates of the clocks are observed, or up to ten times as long if replies are slow
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    pub(crate) observe: Duration,
    /// Exits with 1 for warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows the lists of servers that programs have announced on each server
///
/// Use it while the servers are changed, or if programs list different servers. Programs renew their lists every ten
/// seconds; a list that was renewed longer ago is that of programs that have ended. A list differs if its programs and one
/// with the servers of this command can hold one lock at the same time. A program that has found another list announces its
/// label.
///
/// While the servers are changed, use it with both lists. Programs of step 1 have only the previous servers, those of step 2
/// both lists (A and B), and those of step 3 only the new servers. The last line states whether step 3 may begin.
///
/// Exit codes: 0 if no list differs from another one, and step 3 may begin if there are two lists; otherwise 1; 69 if no
/// server replied.
#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ends the quarantine of servers: you assert that they have lost no lock
///
/// Use it in two cases only. In the first case, the servers are used for the first time, and no client has ever locked
/// anything there. In the second case, all servers were down at once, and have written every change to disk before they
/// replied (appendfsync always). In any other case, two clients may hold the same lock afterwards.
///
/// Exit codes: 0 if none of the servers is in quarantine any more, 64 if one is unknown, 69 if one did not reply, 78
/// without a longest TTL.
#[derive(Debug, Args)]
pub(crate) struct Vouch {
    /// The servers as `redlock health` shows them: HOST:PORT
    #[arg(value_name = "SERVER", required = true)]
    pub(crate) servers: Vec<String>,
}

/// Prints a completion script
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual page, or writes one page for each command
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The directory for all pages. It is created if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run(words: &[&str]) -> Result<Run, clap::Error> {
        let words = ["redlock", "run"].iter().chain(words);
        match Arguments::try_parse_from(words)?.command {
            Command::Run(run) => Ok(*run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_end_at_the_resource() {
        let parsed = run(&["-n", "job", "-v", "--", "x"]).unwrap();
        assert_eq!(["job", "-v", "--", "x"].map(OsString::from).as_slice(), parsed.words);
        assert!(parsed.waiting.no_wait);
        assert_eq!(
            ["job", "--", "ls", "-l"].map(OsString::from).as_slice(),
            run(&["job", "--", "ls", "-l"]).unwrap().words
        );
        assert!(run(&["--bogus", "job", "true"]).is_err());
        assert!(run(&["job"]).is_err());
    }

    #[test]
    fn exit_codes_have_a_range() {
        let code = |code| run(&["-E", code, "job", "true"]).map(|run| run.conflict_exit_code);
        assert_eq!((0, 255), (code("0").unwrap(), code("255").unwrap()));
        for wrong in ["", "x", "-1", "256", "99999999999999999999"] {
            assert!(code(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slots_have_a_range_and_no_other_names() {
        let slots = |count| run(&["--slots", count, "job", "true"]).map(|run| run.sharing.slots);
        assert_eq!((Some(1), Some(256)), (slots("1").unwrap(), slots("256").unwrap()));
        for wrong in ["", "x", "-1", "0", "257"] {
            assert!(slots(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_name_is_shared_in_one_way() {
        let sharing = [&["--slots", "2"][..], &["--shared"], &["--writer"]];
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            assert!(run(&[sharing[one], sharing[other], &["job", "true"]].concat()).is_err());
        }
        for sharing in sharing {
            assert!(run(&[sharing, &["job", "true"]].concat()).is_ok(), "{sharing:?}");
            assert!(run(&[sharing, &["--also", "other", "job", "true"]].concat()).is_err(), "{sharing:?}");
        }
    }

    #[test]
    fn readers_have_no_token_and_are_not_kept() {
        for option in [&["--fenced"][..], &["--once-per", "1h"], &["--at-least", "1h"]] {
            assert!(run(&[&["-s"], option, &["job", "true"]].concat()).is_err(), "{option:?}");
            assert!(run(&[&["--writer"], option, &["job", "true"]].concat()).is_ok(), "{option:?}");
        }
    }

    #[test]
    fn zero_is_a_wait_and_try_is_none() {
        assert_eq!(Some(Duration::ZERO), run(&["-w", "0", "job", "true"]).unwrap().waiting.wait);
        assert!(run(&["-n", "-w", "1", "job", "true"]).is_err());
    }
}
