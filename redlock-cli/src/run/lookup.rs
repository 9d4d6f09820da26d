//! Finding the command before the lock is requested.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use rustix::fs::{Access, access};

use crate::exit::{Code, Failure};

/// Checks that a command can be found and may be executed, as `execvp` does it.
pub(crate) fn check(program: &OsStr) -> Result<(), Failure> {
    let name = program.to_string_lossy().into_owned();
    let hint = if name.starts_with('-') { "; options go before RESOURCE" } else { "" };
    let not_found = Failure::new(Code::NotFound, format!("command not found: {name}{hint}"));
    let found = if program.as_encoded_bytes().contains(&b'/') {
        state(Path::new(program))
    } else if program.is_empty() {
        State::Missing
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        env::split_paths(&path).map(|folder| state(&folder.join(program))).max().unwrap_or(State::Missing)
    };
    match found {
        State::Executable => Ok(()),
        State::NotExecutable => {
            Err(Failure::new(Code::NotExecutable, format!("command not executable: {name}")))
        }
        State::Missing => Err(not_found),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Missing,
    NotExecutable,
    Executable,
}

fn state(path: &Path) -> State {
    match fs::metadata(path) {
        Ok(data) if data.is_file() && access(path, Access::EXEC_OK).is_ok() => State::Executable,
        Ok(_) => State::NotExecutable,
        Err(_) => State::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(program: &str) -> Option<Code> {
        check(OsStr::new(program)).err().map(|failure| failure.code)
    }

    #[test]
    fn an_option_behind_the_resource_is_no_command() {
        let message = |program: &str| check(OsStr::new(program)).unwrap_err().message;
        assert_eq!("command not found: --ttl; options go before RESOURCE", message("--ttl"));
        assert_eq!("command not found: no-such-command", message("no-such-command"));
    }

    #[test]
    fn commands_are_found_by_name_and_by_path() {
        assert_eq!(None, code("sh"));
        assert_eq!(None, code("/bin/sh"));
        for missing in ["", "no-such-command-here", "/no/such/file", "./no-such-file"] {
            assert_eq!(Some(Code::NotFound), code(missing), "{missing}");
        }
        for folder in ["/", "/etc", "./"] {
            assert_eq!(Some(Code::NotExecutable), code(folder), "{folder}");
        }
        assert_eq!(Some(Code::NotExecutable), code("/etc/passwd"));
    }
}
