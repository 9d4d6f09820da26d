//! From the command line to a run, and from its outcome to the end of this process.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::environment::{self, HOLDERS};
use super::keep::{Keep, LONGEST, outage_limit};
use super::machine::Settings;
use super::supervisor::{Outcome, Plan, supervise};
use super::timing::{Times, release_limit};
use super::verdict::Exit;
use super::wire::{Task, Wait};
use super::{lookup, signals};
use crate::args::{AtLeastIf, Group, Run, Shared, Unavailable, Waiting};
use crate::exit::{Code, Failure};
use crate::messages::Messages;
use crate::request::Kind;
use crate::settings::{self, bytes};

/// Runs a command under a lock. Returns its exit code.
pub(crate) fn run(args: &Run, shared: &Shared) -> Result<u8, Failure> {
    let messages = Messages::new(shared.quiet, shared.verbose);
    let report = args.report.clone();
    let plan = plan(args, shared, &messages)?;
    let Outcome { verdict, exit, report: content } = supervise(plan, &messages)?;
    let has_failed = matches!(exit, Exit::Code(code) if code != 0);
    if let Some(message) = verdict.message() {
        // With `-E 0`, a conflict is a success, so cron must not mail a message about it.
        if has_failed { messages.warn(&message) } else { messages.note(&message) }
    }
    if let Some(path) = report {
        let text = serde_json::to_string_pretty(&content).unwrap_or_default() + "\n";
        if let Err(error) = fs::write(&path, text) {
            messages.warn(&format!("cannot write {}: {error}", path.display()));
        }
    }
    messages.flush();
    match exit {
        Exit::Code(code) => Ok(code),
        Exit::Signal(signal) => Ok(end_by_signal(signal)),
    }
}

fn plan(args: &Run, shared: &Shared, messages: &Messages) -> Result<Plan, Failure> {
    let times = Times::new(args.ttl, args.grace).map_err(Failure::usage)?;
    let signal = signals::parse(&args.signal);
    let signal = signal.ok_or_else(|| Failure::usage(format!("unknown signal {:?}", args.signal)))?;
    let mut words = args.words.iter().cloned();
    let resource = words.next().unwrap_or_default();
    let mut command: Vec<_> = words.collect();
    if command.first().is_some_and(|word| word == "--") {
        command.remove(0);
    }
    let Some(program) = command.first() else { return Err(Failure::usage("a command is missing")) };
    lookup::check(program)?;
    let found = settings::find(shared)?;
    found.warnings.iter().for_each(|warning| messages.warn(warning));
    let keep = args.once_per.map(Keep::once_per).or(args.at_least.map(|at_least| Keep {
        at_least,
        since_request: false,
        success_only: args.at_least_if == AtLeastIf::Success,
    }));
    if keep.is_some_and(|keep| keep.at_least > LONGEST) {
        return Err(Failure::usage("a lock can be kept for at most 23 days"));
    }
    let holders = env::var(HOLDERS).ok().filter(|holders| !holders.is_empty());
    let (wait, wait_for_servers) = waits(&args.waiting, args.once_per);
    let release_limit = release_limit(found.servers.node_timeout);
    let task = Task {
        supervisor: rustix::process::getpid().as_raw_nonzero().get(),
        servers: found.servers,
        resources: [resource].iter().chain(&args.also).map(bytes).collect(),
        kind: Kind::new(args.sharing),
        ttl: args.ttl,
        wait,
        wait_for_servers,
        fenced: args.fenced,
        owner: settings::owner(args.owner.as_deref()),
        ancestors: holders.iter().flat_map(|holders| holders.split(' ')).map(str::to_owned).collect(),
        read_by_ancestors: environment::read_names(),
        stolen_grace: args.stolen_grace,
        grace: args.grace,
        debug: shared.verbose > 1,
    };
    let settings = Settings {
        times,
        own_group: match args.group {
            Group::Own => true,
            Group::Shared => false,
            Group::Auto => !has_terminal(),
        },
        leads_session: leads_session(),
        signal,
        stolen_grace: args.stolen_grace,
        max_runtime: args.max_runtime,
        kill_after: args.kill_after,
        leftover: args.leftover,
        release_limit,
        shows_waits: io::stderr().is_terminal(),
        keep,
    };
    let pass_credentials = args.pass_credentials;
    Ok(Plan { task, settings, command, holders, pass_credentials, conflict_code: args.conflict_exit_code })
}

/// Returns how long to wait according to the options, and whether that includes the wait for servers.
///
/// A job that runs once a period waits for servers by default, and for another client only with `-w`.
fn waits(waiting: &Waiting, once_per: Option<Duration>) -> (Wait, bool) {
    let default = if once_per.is_some() { Unavailable::Wait } else { Unavailable::Fail };
    let wait_for_servers = waiting.unavailable.unwrap_or(default) == Unavailable::Wait;
    let wait = match (waiting.wait, once_per) {
        (Some(limit), _) if limit.is_zero() => Wait::No,
        (Some(limit), _) => Wait::For(limit),
        (None, Some(period)) if wait_for_servers => Wait::WhileUndecided(outage_limit(period)),
        (None, Some(_)) => Wait::No,
        (None, None) if waiting.no_wait => Wait::No,
        (None, None) => Wait::Forever,
    };
    (wait, wait_for_servers)
}

/// Returns whether this process has a controlling terminal.
fn has_terminal() -> bool {
    fs::File::options().read(true).write(true).open("/dev/tty").is_ok()
}

/// Returns whether this process leads its session.
fn leads_session() -> bool {
    // This cannot use rustix, which requires a number: a leader outside of the process namespace has none.
    nix::unistd::getsid(None) == Ok(nix::unistd::getpid())
}

/// Ends this process by a signal, so that a shell sees it. Returns only if that fails.
pub(crate) fn end_by_signal(signal: i32) -> u8 {
    let code = u8::try_from(128 + signal).unwrap_or(Code::Internal as u8);
    if std::process::id() == 1 {
        // A signal does not end the first process of a container.
        return code;
    }
    // If a command has ended by this signal, it has written its core dump. This process must not write another one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: Duration = Duration::from_secs(900);

    fn waiting(no_wait: bool, wait: Option<u64>, unavailable: Option<Unavailable>) -> Waiting {
        Waiting { no_wait, wait: wait.map(Duration::from_secs), unavailable }
    }

    #[test]
    fn a_run_waits_for_the_holder_and_fails_without_servers() {
        let cases = [
            (waiting(false, None, None), (Wait::Forever, false)),
            (waiting(true, None, None), (Wait::No, false)),
            (waiting(false, Some(5), None), (Wait::For(Duration::from_secs(5)), false)),
            (waiting(false, Some(0), Some(Unavailable::Wait)), (Wait::No, true)),
            (waiting(false, None, Some(Unavailable::Wait)), (Wait::Forever, true)),
        ];
        for (options, expected) in cases {
            assert_eq!(expected, waits(&options, None), "{options:?}");
        }
    }

    #[test]
    fn a_job_once_a_period_waits_for_servers_and_not_for_the_holder() {
        let by_default = (Wait::WhileUndecided(Duration::from_secs(60)), true);
        let five = Wait::For(Duration::from_secs(5));
        let cases = [
            (waiting(false, None, None), by_default),
            (waiting(true, None, None), by_default),
            (waiting(false, None, Some(Unavailable::Wait)), by_default),
            (waiting(false, None, Some(Unavailable::Fail)), (Wait::No, false)),
            (waiting(true, None, Some(Unavailable::Fail)), (Wait::No, false)),
            (waiting(false, Some(5), None), (five, true)),
            (waiting(false, Some(5), Some(Unavailable::Fail)), (five, false)),
            (waiting(false, Some(0), None), (Wait::No, true)),
        ];
        for (options, expected) in cases {
            assert_eq!(expected, waits(&options, Some(QUARTER)), "{options:?}");
        }
    }
}
