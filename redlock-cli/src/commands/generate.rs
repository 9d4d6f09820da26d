//! `redlock completions` and `redlock man`: files for packages.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;

use super::print;
use crate::args::{Arguments, Completions, Man};
use crate::exit::Failure;

/// Prints a completion script.
pub(crate) fn completions(args: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "redlock", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// Prints the manual page, or writes all pages to a directory.
pub(crate) fn man(args: &Man) -> Result<u8, Failure> {
    let fail = |error: io::Error| Failure::internal("cannot write the manual page", error);
    let command = Arguments::command();
    let Some(folder) = &args.dir else {
        print(page(command).map_err(fail)?.trim_end())?;
        return Ok(0);
    };
    let fail = |error: io::Error| Failure::internal(&format!("cannot write to {}", folder.display()), error);
    fs::create_dir_all(folder).map_err(fail)?;
    write(folder, "redlock", command.clone()).map_err(fail)?;
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = format!("redlock-{}", subcommand.get_name());
        // The file name is the one that `man` searches for.
        let named = subcommand.clone().name(name.clone()).display_name(name.clone());
        write(folder, &name, named).map_err(fail)?;
    }
    Ok(0)
}

fn write(folder: &Path, name: &str, command: Command) -> io::Result<()> {
    fs::write(folder.join(format!("{name}.1")), page(command)?)
}

fn page(command: Command) -> io::Result<String> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
