//! Starts servers and client processes in network namespaces, disturbs them, and records a history.
//!
//! `scripts/histories` runs it in separate namespaces, and checks the history. `lab/history-checker` lists its files.

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run::run(&clap::Parser::parse())
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    Err("network namespaces need Linux".into())
}
