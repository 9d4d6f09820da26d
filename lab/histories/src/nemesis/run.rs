//! A run: servers and clients, the faults of a plan, and the keys at the end.
#![allow(clippy::print_stdout)] // the place of the history

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Parser;
use redlock_history_checker::{FaultKind, FaultLine, Phase};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::client::{Arguments, Client};
use crate::host::{Host, network};
use crate::plan::{CLIENTS, Fault, Planned, SERVERS, plan};
use crate::server::Server;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The time after which no key of a lock may be left. It is longer than the longest TTL and the differences of clocks.
const EXPIRY: Duration = Duration::from_secs(12);

/// Starts servers and client processes in network namespaces, disturbs them, and records a history.
#[derive(Parser)]
pub(crate) struct Settings {
    /// The duration of the run.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// The adapter of the clients: redis-rs or fred.
    #[arg(long, default_value = "redis-rs", value_parser = ["redis-rs", "fred"])]
    adapter: String,
    /// Clients count the votes of servers that may have lost locks.
    #[arg(long)]
    without_admission: bool,
    /// The seed of the faults and of the actions of clients. The default is random.
    #[arg(long)]
    seed: Option<u64>,
    /// The directory of the history, which must not exist.
    #[arg(long)]
    output: PathBuf,
}

pub(crate) fn run(settings: &Settings) -> Fallible<()> {
    let seed = settings.seed.unwrap_or_else(|| fastrand::u64(..));
    let length = Duration::from_secs(settings.seconds);
    fs::create_dir(&settings.output).map_err(|error| format!("{}: {error}", settings.output.display()))?;
    network()?;
    let admission = if settings.without_admission { "off" } else { "on" };
    println!("seed {seed}, {} s, {}, restart admission {admission}", settings.seconds, settings.adapter);
    let servers: Vec<_> = (0..SERVERS).map(Server::start).collect();
    let about = json!({
        "seed": seed,
        "seconds": settings.seconds,
        "adapter": settings.adapter,
        "restart admission": admission,
        "server": servers[0].command(&["INFO", "server"]).lines().find(|line| line.contains("_version:")),
    });
    fs::write(settings.output.join("run.json"), format!("{about:#}\n"))?;
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    let arguments = Arguments { adapter: settings.adapter.clone(), admission, nodes: nodes.join(","), seed };
    let directory = settings.output.join("clients");
    fs::create_dir(&directory)?;
    let faults = File::create_new(settings.output.join("faults.jsonl"))?;
    let clients: Vec<_> = (0..CLIENTS).map(Client::new).collect();
    let mut run = Run { servers, clients, arguments, directory, faults, clocks: Vec::new() };
    run.disturb(&plan(seed, length), length)?;
    run.end()?;
    let mut keys = File::create_new(settings.output.join("keys.jsonl"))?;
    for key in run.servers.iter().flat_map(Server::keys) {
        writeln!(keys, "{}", serde_json::to_string(&key)?)?;
    }
    Ok(())
}

struct Run {
    servers: Vec<Server>,
    clients: Vec<Client>,
    arguments: Arguments,
    directory: PathBuf,
    faults: File,
    /// The changes of clocks in progress.
    clocks: Vec<JoinHandle<()>>,
}

impl Run {
    /// Starts the clients, and carries out a plan.
    fn disturb(&mut self, plan: &[Planned], length: Duration) -> Fallible<()> {
        let mut steps: Vec<_> = (plan.iter().enumerate())
            .flat_map(|(number, planned)| {
                [(planned.begin, number, Phase::Begin), (planned.end(), number, Phase::End)]
            })
            .collect();
        steps.sort_by_key(|(time, ..)| *time);
        for client in &mut self.clients {
            client.start(&self.arguments, &self.directory)?;
        }
        let start = Instant::now();
        let until = |time: Duration| thread::sleep(time.saturating_sub(start.elapsed()));
        for (time, number, phase) in steps {
            until(time);
            let Planned { lasts, fault, .. } = &plan[number];
            match phase {
                Phase::Begin => {
                    self.record(number, phase, fault)?;
                    self.begin(fault, *lasts)?;
                }
                Phase::End => {
                    self.finish(fault)?;
                    self.record(number, phase, fault)?;
                }
            }
        }
        until(length);
        Ok(())
    }

    /// Ends the clients, and waits until all keys of locks have expired.
    fn end(&mut self) -> Fallible<()> {
        for clock in self.clocks.drain(..) {
            clock.join().map_err(|_| "a clock could not be set")?;
        }
        self.clients.iter_mut().for_each(Client::request_end);
        for client in &mut self.clients {
            client.wait()?;
        }
        thread::sleep(EXPIRY);
        Ok(())
    }

    fn begin(&mut self, fault: &Fault, lasts: Duration) -> Fallible<()> {
        match fault.kind {
            FaultKind::Unplug => self.targets(fault).iter().for_each(|host| host.set_link(false)),
            FaultKind::Split | FaultKind::LoseRequests | FaultKind::LoseReplies => {
                for (from, to) in self.lossy(fault) {
                    from.lose(&to);
                }
            }
            FaultKind::PauseServer => fault.servers.iter().for_each(|server| self.servers[*server].pause()),
            FaultKind::RestartServer | FaultKind::RestartEmpty => {
                fault.servers.iter().for_each(|server| self.servers[*server].kill());
            }
            FaultKind::Flush => {
                for server in &fault.servers {
                    self.servers[*server].command(&["FLUSHALL"]);
                }
            }
            FaultKind::FlushScripts => {
                for server in &fault.servers {
                    self.servers[*server].command(&["SCRIPT", "FLUSH"]);
                }
            }
            FaultKind::StepClock | FaultKind::SlewClock => {
                for (server, offset) in fault.servers.iter().zip(&fault.offsets) {
                    self.clocks.push(self.servers[*server].set_clock(*offset, lasts));
                }
            }
            FaultKind::PauseClient => {
                for client in &fault.clients {
                    self.clients[*client].pause()?;
                }
            }
            FaultKind::KillClient => {
                for client in &fault.clients {
                    self.clients[*client].kill()?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, fault: &Fault) -> Fallible<()> {
        match fault.kind {
            FaultKind::Unplug => self.targets(fault).iter().for_each(|host| host.set_link(true)),
            FaultKind::Split | FaultKind::LoseRequests | FaultKind::LoseReplies => {
                for (from, to) in self.lossy(fault) {
                    from.deliver(&to);
                }
            }
            FaultKind::PauseServer => fault.servers.iter().for_each(|server| self.servers[*server].resume()),
            FaultKind::RestartServer => {
                fault.servers.iter().for_each(|server| self.servers[*server].restart());
            }
            FaultKind::RestartEmpty => {
                fault.servers.iter().for_each(|server| self.servers[*server].restart_empty());
            }
            FaultKind::Flush | FaultKind::FlushScripts | FaultKind::StepClock | FaultKind::SlewClock => {}
            FaultKind::PauseClient => {
                for client in &fault.clients {
                    self.clients[*client].resume()?;
                }
            }
            FaultKind::KillClient => {
                for client in &fault.clients {
                    self.clients[*client].start(&self.arguments, &self.directory)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the hosts that a fault affects.
    fn targets(&self, fault: &Fault) -> Vec<&Host> {
        let servers = fault.servers.iter().map(|server| &self.servers[*server].host);
        servers.chain(fault.clients.iter().map(|client| &self.clients[*client].host)).collect()
    }

    /// Returns the hosts whose packets are lost, each with the hosts that they are sent to.
    fn lossy(&self, fault: &Fault) -> Vec<(&Host, Vec<&Host>)> {
        let to_all = |from: Vec<_>, to: &[_]| from.into_iter().map(|from| (from, to.to_vec())).collect();
        let targets = self.targets(fault);
        let (servers, clients) = targets.split_at(fault.servers.len());
        match fault.kind {
            FaultKind::LoseRequests => to_all(clients.to_vec(), servers),
            FaultKind::LoseReplies => to_all(servers.to_vec(), clients),
            _ => {
                let all = self.servers.iter().map(|server| &server.host);
                let all = all.chain(self.clients.iter().map(|client| &client.host));
                let is_target = |host: &&Host| targets.iter().any(|target| target.name == host.name);
                let others: Vec<_> = all.filter(|host| !is_target(host)).collect();
                let mut both: Vec<_> = to_all(targets.clone(), &others);
                both.extend(to_all(others.clone(), &targets));
                both
            }
        }
    }

    fn record(&mut self, number: usize, phase: Phase, fault: &Fault) -> Fallible<()> {
        let names = |hosts: Vec<&Host>| hosts.into_iter().map(|host| host.name.clone()).collect();
        let targets = match fault.kind {
            FaultKind::KillClient => {
                fault.clients.iter().map(|client| self.clients[*client].process_name()).collect()
            }
            _ => names(self.targets(fault)),
        };
        let time = Duration::try_from(clock_gettime(ClockId::Monotonic))?;
        let line = FaultLine { time: time.as_nanos().try_into()?, number, kind: fault.kind, phase, targets };
        Ok(writeln!(self.faults, "{}", serde_json::to_string(&line)?)?)
    }
}
