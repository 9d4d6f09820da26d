//! The subject of a page, and its address.
//!
//! An address contains everything that determines the run, in readable form:
//!
//! ```
//! use redlock_playground::subject::Subject;
//!
//! let address = "nodes=3&ttl=3000&client=500:2000:checks&at=1000:hang:n0:1500";
//! let subject = Subject::parse(address)?;
//! assert_eq!(subject, Subject::parse(&subject.address())?);
//! # Ok::<(), String>(())
//! ```
//!
//! | Field | Meaning |
//! |---|---|
//! | `story=NAME` | a story |
//! | `faults=KIND` | a random run of `scripts/simulate`, with `nodes`, `clients`, `locks`, `admission` and `seed` |
//! | `admission=on` | restart admission is on; `off` for off |
//! | `client=STARTS:WORKS:..` | a client; then `w5000` if it waits, `r500` if it requests again, and its properties |
//! | `at=TIME:KIND:PLACE:MS` | an incident; the place is `n0`, `c0` or `c0-n0` |
//!
//! Every other field is a number of the [`Setup`], and has a default.

use std::fmt::Write;
use std::str::FromStr;
use std::time::{Duration, Instant};

use redlock_simulation::experiment::{Experiment, Report};
use redlock_simulation::invariant::{Assumption, Invariant, Violation};
use redlock_simulation::plan::Faults;
use serde::Serialize;
use url::form_urlencoded;

use crate::setup::{self, Client, Incident, Kind, Setup, within};
use crate::stories::{self, Story};

/// The subject of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A story.
    Story(Story),
    /// A custom experiment.
    Own(Setup),
    /// A run of `scripts/simulate`.
    Random(Random),
}

/// A run of `scripts/simulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// The kinds of faults.
    pub faults: Faults,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of clients.
    pub clients: usize,
    /// The use of fencing tokens by clients; `None` if this depends on the faults.
    pub fenced: Option<bool>,
    /// The use of restart admission by clients; `None` if this depends on the faults.
    pub admission: Option<bool>,
    /// The seed.
    pub seed: u64,
}

/// A random run for the page.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    faults: String,
    nodes: usize,
    clients: usize,
    seed: u64,
}

/// The maximum number of events of a run. Stories have a few hundred, and random runs a few thousand.
const MOST_EVENTS: usize = 40_000;

/// The longest time of a run, without the checks of its events.
const LONGEST_RUN: Duration = Duration::from_secs(10);

/// The longest address that is read.
const LONGEST: usize = 8_192;

impl Subject {
    /// Reads the query of an address.
    ///
    /// # Errors
    ///
    /// A sentence about the first field that is unknown, not readable or out of bounds.
    pub fn parse(query: &str) -> Result<Self, String> {
        let query = query.strip_prefix('?').unwrap_or(query);
        within("the length of the address", query.len(), &(0..=LONGEST))?;
        let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let find = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        if let Some(id) = find("story") {
            let story = stories::named(id).ok_or_else(|| format!("there is no story \"{id}\""))?;
            return Ok(Self::Story(story));
        }
        if find("faults").is_some() {
            return Random::parse(&fields).map(Self::Random);
        }
        if fields.is_empty() {
            return Ok(Self::Story(stories::first()));
        }
        parse_setup(&fields).map(Self::Own)
    }

    /// Returns the query of its address.
    pub fn address(&self) -> String {
        match self {
            Self::Story(story) => format!("story={}", story.id),
            Self::Own(setup) => query(setup),
            Self::Random(random) => random.address(),
        }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    ///
    /// A sentence about the bound that the run exceeds.
    pub fn run(&self) -> Result<Report, String> {
        run(&self.experiment())
    }

    /// Returns the experiment.
    pub fn experiment(&self) -> Experiment {
        match self {
            Self::Story(story) => story.setup.experiment(),
            Self::Own(setup) => setup.experiment(),
            Self::Random(random) => random.experiment(),
        }
    }
}

impl Random {
    /// Checks all bounds.
    ///
    /// # Errors
    ///
    /// A sentence about the first number that is out of bounds.
    pub fn check(&self) -> Result<(), String> {
        within("the number of nodes", self.nodes, &setup::NODES)?;
        within("the number of clients", self.clients, &setup::CLIENTS)
    }

    fn parse(fields: &[(String, String)]) -> Result<Self, String> {
        let mut random =
            Self { faults: Faults::Bounded, nodes: 5, clients: 3, fenced: None, admission: None, seed: 0 };
        for (name, value) in fields {
            match name.as_str() {
                "faults" => {
                    random.faults =
                        Faults::named(value).ok_or_else(|| format!("there are no faults \"{value}\""))?;
                }
                "nodes" => random.nodes = number(name, value)?,
                "clients" => random.clients = number(name, value)?,
                "seed" => random.seed = number(name, value)?,
                "locks" => {
                    random.fenced = match value.as_str() {
                        "plain" => Some(false),
                        "mixed" => Some(true),
                        _ => return Err(format!("there are no locks \"{value}\"")),
                    };
                }
                "admission" => random.admission = Some(is_on(name, value)?),
                _ => return Err(unknown(name)),
            }
        }
        random.check()?;
        Ok(random)
    }

    fn address(&self) -> String {
        let Self { faults, nodes, clients, fenced, admission, seed } = self;
        let locks = match fenced {
            None => "",
            Some(true) => "&locks=mixed",
            Some(false) => "&locks=plain",
        };
        let admission = admission.map_or(String::new(), |is| format!("&admission={}", on_or_off(is)));
        format!("faults={faults}&nodes={nodes}&clients={clients}{locks}{admission}&seed={seed}")
    }

    /// Returns the experiment.
    pub fn experiment(&self) -> Experiment {
        let experiment =
            Experiment::new(self.seed).servers(self.nodes).clients(self.clients).faults(self.faults);
        let experiment = match self.admission {
            None => experiment,
            Some(true) => experiment.with_admission(),
            Some(false) => experiment.without_admission(),
        };
        self.fenced.map_or(experiment.clone(), |fenced| experiment.fenced(fenced))
    }

    /// Returns the violation that a search announces: a defect of the lock, or two holders.
    ///
    /// Lost counters break only fencing tokens.
    pub fn announced<'a>(&self, report: &'a Report) -> Option<&'a Violation> {
        let wanted: &[Invariant] = if self.faults.breaks(Assumption::CountersAreKept) {
            &[Invariant::Unique, Invariant::Order, Invariant::Supersession, Invariant::Resource]
        } else {
            &[Invariant::Exclusion]
        };
        let is_wanted = |one: &&Violation| one.broken.is_none() || wanted.contains(&one.invariant);
        report.violations.iter().find(is_wanted)
    }

    /// Returns the settings for the page.
    pub fn settings(&self) -> Settings {
        let Self { nodes, clients, seed, .. } = *self;
        Settings { faults: self.faults.to_string(), nodes, clients, seed }
    }
}

/// Runs an experiment within the bounds.
///
/// # Errors
///
/// A sentence about the bound that the run exceeds.
pub(crate) fn run(experiment: &Experiment) -> Result<Report, String> {
    let begun = Instant::now();
    let report = experiment.run_while(|events| events <= MOST_EVENTS && begun.elapsed() <= LONGEST_RUN);
    report.ok_or_else(|| {
        format!(
            "the run has more than {MOST_EVENTS} events or takes longer than {} s: choose fewer nodes or clients, \
             longer rests, or a shorter duration",
            LONGEST_RUN.as_secs()
        )
    })
}

fn parse_setup(fields: &[(String, String)]) -> Result<Setup, String> {
    let mut setup = Setup { clients: Vec::new(), ..Setup::default() };
    for (name, value) in fields {
        match name.as_str() {
            "nodes" => setup.nodes = number(name, value)?,
            "ttl" => setup.ttl = number(name, value)?,
            "delay" => {
                let (least, most) = value.split_once('-').ok_or_else(|| unreadable(name, value))?;
                (setup.least_delay, setup.most_delay) = (number(name, least)?, number(name, most)?);
            }
            "drift" => setup.drift = number(name, value)?,
            "allowed" => setup.allowed_drift = number(name, value)?,
            "seed" => setup.seed = number(name, value)?,
            "lasts" => setup.lasts = number(name, value)?,
            "notifies" => setup.notifies = number(name, value)?,
            "admission" => setup.restart_admission = is_on(name, value)?,
            "client" => setup.clients.push(client(value).ok_or_else(|| unreadable(name, value))?),
            "at" => setup.incidents.push(incident(value).ok_or_else(|| unreadable(name, value))?),
            _ => return Err(unknown(name)),
        }
    }
    if setup.clients.is_empty() {
        setup.clients = Setup::default().clients;
    }
    setup.check()?;
    Ok(setup)
}

fn query(setup: &Setup) -> String {
    let Setup { nodes, ttl, least_delay, most_delay, drift, allowed_drift, seed, lasts, notifies, .. } =
        setup;
    let admission = on_or_off(setup.restart_admission);
    let mut query = format!(
        "nodes={nodes}&ttl={ttl}&delay={least_delay}-{most_delay}&drift={drift}&allowed={allowed_drift}\
         &seed={seed}&lasts={lasts}&notifies={notifies}&admission={admission}"
    );
    let clients = setup.clients.iter().map(|client| format!("&client={}", client_text(client)));
    let incidents = setup.incidents.iter().map(|incident| format!("&at={}", incident_text(incident)));
    query.extend(clients.chain(incidents));
    query
}

fn client(text: &str) -> Option<Client> {
    let mut parts = text.split(':');
    let (starts, works) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let mut client = Client { starts, works, ..Client::default() };
    for part in parts {
        match part {
            "renews" => client.renews = true,
            "fenced" => client.fenced = true,
            "checks" => client.checks = true,
            _ => match part.split_at_checked(1)? {
                ("w", waits) => client.waits = Some(waits.parse().ok()?),
                ("r", rests) => client.rests = Some(rests.parse().ok()?),
                _ => return None,
            },
        }
    }
    Some(client)
}

fn client_text(client: &Client) -> String {
    let Client { starts, works, waits, rests, renews, fenced, checks } = client;
    let mut text = format!("{starts}:{works}");
    for (letter, time) in [('w', waits), ('r', rests)] {
        if let Some(time) = time {
            write!(text, ":{letter}{time}").expect("writing to a string does not fail");
        }
    }
    for (name, is) in [("renews", renews), ("fenced", fenced), ("checks", checks)] {
        if *is {
            write!(text, ":{name}").expect("writing to a string does not fail");
        }
    }
    text
}

fn incident(text: &str) -> Option<Incident> {
    let mut parts = text.split(':');
    let (at, kind) = (parts.next()?.parse().ok()?, Kind::named(parts.next()?)?);
    let (place, ms) = (parts.next()?, parts.next()?.parse().ok()?);
    let (client, node) = match place.split_once('-') {
        Some((client, node)) => (Some(numbered('c', client)?), Some(numbered('n', node)?)),
        None if place.starts_with('c') => (Some(numbered('c', place)?), None),
        None => (None, Some(numbered('n', place)?)),
    };
    parts.next().is_none().then_some(Incident { at, kind, node, client, ms })
}

fn incident_text(incident: &Incident) -> String {
    let Incident { at, kind, node, client, ms } = incident;
    let name = |letter: char, number: &Option<usize>| number.map(|number| format!("{letter}{number}"));
    let place: Vec<_> = [name('c', client), name('n', node)].into_iter().flatten().collect();
    format!("{at}:{}:{}:{ms}", kind.name(), place.join("-"))
}

fn numbered(letter: char, name: &str) -> Option<usize> {
    name.strip_prefix(letter)?.parse().ok()
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| unreadable(name, value))
}

fn is_on(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(unreadable(name, value)),
    }
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn unreadable(name: &str, value: &str) -> String {
    format!("the address has {name}={value}, which is not readable")
}

fn unknown(name: &str) -> String {
    format!("the address has an unknown field \"{name}\"")
}
