//! Starts the playground and prints its address.
#![allow(clippy::print_stdout)] // a command prints its results

use std::error::Error;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use clap::Parser;
use redlock_playground::server;
use redlock_simulation::experiment::PLAYGROUND_PORT;
use tokio::net::TcpListener;

/// A page that runs the real lock in a simulated world with faults.
#[derive(Parser)]
struct Options {
    /// Opens the page in the browser
    #[arg(long)]
    open: bool,
    /// Port on 127.0.0.1; 0 for any free one [default: 7331, or any free one if it is in use]
    #[arg(long)]
    port: Option<u16>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let listener = listen(options.port).await?;
    let address = format!("http://{}/", listener.local_addr()?);
    println!("{address}");
    if options.open {
        open(&address)?;
    }
    Ok(server::serve(listener).await?)
}

/// Listens on the requested port. Without one, it prefers the default port, and uses any free port if that is in use.
async fn listen(port: Option<u16>) -> std::io::Result<TcpListener> {
    let on = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match (port, on(port.unwrap_or(PLAYGROUND_PORT)).await) {
        (None, Err(error)) if error.kind() == ErrorKind::AddrInUse => on(0).await,
        (_, listener) => listener,
    }
}

/// Opens an address with the default program of the system.
fn open(address: &str) -> std::io::Result<()> {
    let (program, arguments): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/c", "start"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}
