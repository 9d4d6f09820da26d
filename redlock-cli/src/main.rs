//! The command `redlock`: a lock for anything that can be started.

// Code that only `run` uses is unused on systems without `run`.
#![cfg_attr(not(unix), allow(dead_code))]

mod args;
mod commands;
mod duration;
mod exit;
mod messages;
mod request;
#[cfg(unix)]
mod run;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::exit::{Code, Failure};
use crate::messages::Messages;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = hidden() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to stdout and are not errors.
            let code = if error.use_stderr() { Code::Usage } else { Code::Ok };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    let quiet = arguments.shared.quiet;
    ended(dispatch(arguments), quiet)
}

/// The two processes that `run` starts. They have no options, and skip the parser.
#[cfg(unix)]
fn hidden() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next()?;
    if first == run::KEEPER {
        return Some(ended(run::keeper().map(|()| 0), false));
    }
    if first == run::EXEC {
        let Err(failure) = run::exec(args);
        return Some(ended(Err(failure), false));
    }
    None
}

fn dispatch(arguments: Arguments) -> Result<u8, Failure> {
    let shared = &arguments.shared;
    match arguments.command {
        #[cfg(unix)]
        Command::Run(args) => run::run(&args, shared),
        #[cfg(not(unix))]
        Command::Run(_) => Err(commands::unsupported("run")),
        Command::Lock(args) => commands::handle::lock(&args, shared),
        Command::Extend(args) => commands::handle::extend(&args, shared),
        Command::Unlock(args) => commands::handle::unlock(&args, shared),
        #[cfg(unix)]
        Command::Hold(args) => commands::hold::hold(&args, shared),
        #[cfg(not(unix))]
        Command::Hold(_) => Err(commands::unsupported("hold")),
        Command::Wait(args) => commands::wait::wait(&args, shared),
        Command::Inspect(args) => commands::inspect::inspect(&args, shared),
        Command::Break(args) => commands::break_lock::break_lock(&args, shared),
        Command::Health(args) => commands::health::health(&args, shared),
        Command::Doctor(args) => commands::doctor::doctor(&args, shared),
        Command::Nodes(args) => commands::nodes::nodes(&args, shared),
        Command::Vouch(args) => commands::vouch::vouch(&args, shared),
        Command::Completions(args) => commands::generate::completions(&args),
        Command::Man(args) => commands::generate::man(&args),
    }
}

fn ended(result: Result<u8, Failure>, quiet: bool) -> ExitCode {
    let code = result.unwrap_or_else(|Failure { code, message }| {
        let messages = Messages::new(quiet, 0);
        messages.warn(&message);
        messages.flush();
        code as u8
    });
    ExitCode::from(code)
}
