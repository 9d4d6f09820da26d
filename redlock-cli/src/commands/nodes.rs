//! `redlock nodes`: the lists of servers that programs have announced on each server.

mod readiness;

use std::collections::HashMap;
use std::time::Duration;

use readiness::Readiness;
use redlock_redis_rs::node::ServerId;
use redlock_redis_rs::{AnnouncedList, AnnouncedLists};

use super::{only_looking, print};
use crate::args::{Nodes, Shared};
use crate::exit::{Code, Failure};

/// The time to live of an announcement.
const LIFE: Duration = Duration::from_secs(30);

/// Shows the announced lists. Returns the exit code.
pub(crate) fn nodes(args: &Nodes, shared: &Shared) -> Result<u8, Failure> {
    let quiet = shared.quiet;
    only_looking(shared, async |redlock, servers| {
        let nodes = redlock.announced_lists().await;
        let readiness = servers.are_changed().then(|| Readiness::of(&nodes));
        if !quiet {
            print(&if args.json { json(&nodes, readiness) } else { table(&nodes, readiness) })?;
        }
        Ok(code(&nodes, readiness) as u8)
    })
}

fn code(nodes: &[AnnouncedLists], readiness: Option<Readiness>) -> Code {
    let replied = nodes.iter().filter(|node| node.error().is_none());
    if replied.clone().count() == 0 {
        return Code::Unavailable;
    }
    let differs =
        replied.flat_map(AnnouncedLists::lists).any(|list| list.differs() || list.found_difference());
    if differs || readiness.is_some_and(|readiness| !readiness.is_ready()) {
        Code::Findings
    } else {
        Code::Ok
    }
}

fn json(nodes: &[AnnouncedLists], readiness: Option<Readiness>) -> String {
    serde_json::json!({
        "nodes": nodes,
        "ready_for_step_3": readiness.map(Readiness::is_ready),
        "message": readiness.map(|readiness| readiness.to_string()),
    })
    .to_string()
}

/// The names of lists: A, B and so on, in the order in which they are named.
#[derive(Default)]
struct Names(Vec<(usize, Vec<ServerId>)>);

impl Names {
    /// Returns the name of the lists of a program, such as `A`, or `A and B` during a change of the servers.
    fn of(&mut self, list: &AnnouncedList) -> String {
        let mut names: Vec<_> = list.lists().into_iter().map(|list| self.position(list)).collect();
        names.sort_unstable();
        names.into_iter().map(name).collect::<Vec<_>>().join(" and ")
    }

    fn position(&mut self, list: (usize, Vec<ServerId>)) -> usize {
        self.0.iter().position(|other| *other == list).unwrap_or_else(|| {
            self.0.push(list);
            self.0.len() - 1
        })
    }
}

/// Returns the name of the list at a position: A to Z, then A1.
fn name(position: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(position % 26).unwrap_or(0));
    match position / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

fn table(nodes: &[AnnouncedLists], readiness: Option<Readiness>) -> String {
    let mut names = Names::default();
    let mut rows = vec![["SERVER", "IDENTITY", "LIST", "RENEWED", "NOTE"].map(str::to_owned)];
    for node in nodes {
        let identity = node.server().map_or_else(|| "unknown".to_owned(), identity);
        let mut server = Some([node.label().to_owned(), identity]);
        // Only the first row of a server names it.
        let mut row = |list: String, renewed: String, note: String| {
            let [label, identity] = server.take().unwrap_or_default();
            rows.push([label, identity, list, renewed, note]);
        };
        let none = || "-".to_owned();
        if let Some(error) = node.error() {
            row(none(), none(), error.to_owned());
        } else if node.lists().is_empty() {
            row(none(), none(), "no program has announced its list".to_owned());
        }
        for list in node.lists() {
            row(names.of(list), list.expires_in().map_or_else(none, renewed), note(list));
        }
    }
    let labels: HashMap<_, _> =
        nodes.iter().filter_map(|node| Some((node.server()?, node.label()))).collect();
    let mut lines: Vec<_> = aligned(&rows);
    if !names.0.is_empty() {
        lines.push(String::new());
    }
    lines.extend(
        names
            .0
            .iter()
            .enumerate()
            .map(|(position, list)| format!("{}: {}", name(position), servers(list, &labels))),
    );
    lines.extend(readiness.map(|readiness| format!("\n{readiness}")));
    lines.join("\n")
}

/// Returns the lines of a table whose columns have the width of their longest cell.
fn aligned(rows: &[[String; 5]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..5).map(width).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn identity(server: ServerId) -> String {
    format!("{:016x}", server.get())
}

/// Returns how long ago a program renewed an announcement.
fn renewed(expires_in: Duration) -> String {
    format!("{}s ago", LIFE.saturating_sub(expires_in).as_secs())
}

fn note(list: &AnnouncedList) -> String {
    let difference = match (list.differs(), list.found_difference()) {
        (true, _) => Some("differs".to_owned()),
        (false, true) => Some("differs from another list".to_owned()),
        (false, false) => None,
    };
    let notes = [
        list.step().map(|step| format!("step {step}")),
        list.is_copy().then(|| "copy".to_owned()),
        difference,
        list.owner().map(|owner| format!("announced by {owner}")),
    ];
    notes.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the labels of the servers of a list. Other servers are named by their identities.
fn servers((count, known): &(usize, Vec<ServerId>), labels: &HashMap<ServerId, &str>) -> String {
    let label =
        |server: &ServerId| labels.get(server).map_or_else(|| identity(*server), |label| (*label).to_owned());
    let mut servers: Vec<_> = known.iter().map(label).collect();
    servers.sort_unstable();
    if let Some(unknown) = count.checked_sub(known.len()).filter(|unknown| *unknown > 0) {
        servers.push(format!("{unknown} unknown"));
    }
    servers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_short_names() {
        assert_eq!(["A", "Z", "A1", "B2"], [0, 25, 26, 53].map(name)[..]);
    }

    #[test]
    fn other_servers_are_named_by_their_identities() {
        let [known, other] = ["a", "b"].map(ServerId::new);
        let labels = HashMap::from([(known, "10.0.0.1:6379")]);
        let shown = servers(&(3, vec![known, other]), &labels);
        assert_eq!(format!("10.0.0.1:6379, {}, 1 unknown", identity(other)), shown);
    }
}
