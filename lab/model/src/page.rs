//! The tables of `docs/internals/explored-scopes.md`. Explorations print and write them, and tests compare them.

#![allow(clippy::print_stdout)] // the commands print their results

use std::fs;

use crate::catalog::{Broken, Explored, Harmless, Rule};
use crate::explore::explore;

/// The page with the tables.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/explored-scopes.md");

/// The explorations that a command selects, and its output.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent arguments of a command
pub struct Selection {
    /// True for the scopes in which nothing is violated.
    pub sound: bool,
    /// True for the broken variants.
    pub variants: bool,
    /// True if the shortest trace to each violation is printed.
    pub traces: bool,
    /// True if the tables are written into the page.
    pub writes: bool,
}

impl<M: Rule> Explored<M> {
    /// Explores what is selected, and prints the results. Returns true if all of them are as expected.
    ///
    /// # Panics
    ///
    /// Panics if the page cannot be written.
    pub fn run(&self, name: &str, selection: Selection) -> bool {
        let Self { title, scopes, broken, holes, .. } = self;
        let mark = |table: &str| selection.writes.then(|| format!("{name}: {table}"));
        let mut as_expected = true;
        if selection.sound {
            println!("\n{title}: every interleaving.\n");
            let scopes = scopes.iter().map(|scope| (scope.to_string(), M::new(*scope)));
            as_expected &= nothing_is_violated("scope", scopes, mark("scopes").as_deref());
        }
        if selection.variants {
            println!("\n{title}: broken variants, and the shortest trace to a violation.\n");
            as_expected &= each_is_found(broken, selection.traces, mark("variants").as_deref());
            if !holes.is_empty() {
                println!(
                    "\n{title}: known holes of the rule itself, and the shortest trace to a violation.\n"
                );
                as_expected &= each_is_found(holes, selection.traces, mark("holes").as_deref());
            }
        }
        if selection.variants && !selection.traces && !self.harmless.is_empty() {
            println!("\n{title}: other rules, which violate nothing in their scope.\n");
            let name = |rule: &Harmless<M>| format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope);
            let rules = self.harmless.iter().map(|rule| (name(rule), rule.model()));
            as_expected &= nothing_is_violated("rule", rules, None);
        }
        as_expected
    }

    /// Compares the tables of the page with the scopes and the variants of the code. Explores rows again that have up to
    /// this number of states.
    ///
    /// # Panics
    ///
    /// Panics if they differ, or if a table has no such row.
    pub fn compare(&self, name: &str, most: usize) {
        compare_sound::<M>(&format!("{name}: scopes"), self.scopes, most);
        compare_broken(&format!("{name}: variants"), self.broken, most);
        if !self.holes.is_empty() {
            compare_broken(&format!("{name}: holes"), self.holes, most);
        }
    }
}

/// A table that is printed row by row.
struct Table(Vec<String>);

impl Table {
    fn new(head: [&str; 2]) -> Self {
        let mut table = Self(Vec::new());
        for row in head {
            table.add(row.to_owned());
        }
        table
    }

    fn add(&mut self, row: String) {
        println!("{row}");
        self.0.push(row);
    }
}

/// Returns true if no exploration finds a violation.
fn nothing_is_violated<M: Rule>(
    what: &str,
    models: impl Iterator<Item = (String, M)>,
    mark: Option<&str>,
) -> bool {
    let head = format!("| {what} | states | transitions | depth | time | violations |");
    let mut table = Table::new([&head, "|---|---:|---:|---:|---:|---:|"]);
    let mut sound = true;
    for (name, model) in models {
        let found = explore(model);
        let (states, transitions, depth, took) = (found.states, found.transitions, found.depth, found.took);
        let violations = usize::from(found.violation.is_some());
        table.add(format!("| {name} | {states} | {transitions} | {depth} | {took:.1?} | {violations} |"));
        if let Some(violation) = found.violation {
            println!("\n{} is violated:", violation.property);
            print(&model.describe(&violation.trace));
            sound = false;
        }
    }
    write(&table, mark.filter(|_| sound));
    sound
}

/// Returns true if each variant violates the expected property.
fn each_is_found<M: Rule>(catalog: &[Broken<M>], traces: bool, mark: Option<&str>) -> bool {
    let head = "| variant | what is wrong | violates | steps | states | time | scope |";
    let mut table = Table::new([head, "|---|---|---|---:|---:|---:|---|"]);
    let mut caught = true;
    for broken in catalog {
        let Broken { variant, does, violates, scope } = broken;
        let found = broken.explore();
        let steps = found.violation.as_ref().map(|violation| violation.trace.len());
        let (states, took) = (found.states, found.took);
        let steps_text = steps.map_or("NOT FOUND".to_owned(), |steps| steps.to_string());
        table.add(format!(
            "| {variant:?} | {does} | {violates} | {steps_text} | {states} | {took:.1?} | {scope} |"
        ));
        if let Some(violation) = found.violation.filter(|_| traces) {
            println!();
            print(&broken.model().describe(&violation.trace));
            println!();
        }
        caught &= steps.is_some();
    }
    write(&table, mark.filter(|_| caught));
    caught
}

fn print(trace: &[String]) {
    for step in trace {
        println!("    {step}");
    }
}

fn page() -> String {
    fs::read_to_string(PAGE).expect("the page exists")
}

/// Returns the page up to a mark such as `keeping: scopes`, the table behind it, and the rest.
fn around<'a>(page: &'a str, mark: &str) -> [&'a str; 3] {
    let line = format!("<!-- {mark} -->\n");
    let start = page.find(&line).unwrap_or_else(|| panic!("the page has no mark {mark}")) + line.len();
    let (before, rest) = page.split_at(start);
    let rows = rest.split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let (table, after) = rest.split_at(rows.map(str::len).sum());
    [before, table, after]
}

/// Replaces the table behind a mark.
fn write(table: &Table, mark: Option<&str>) {
    let Some(mark) = mark else { return };
    let page = page();
    let [before, _, after] = around(&page, mark);
    let page = format!("{before}{}\n{after}", table.0.join("\n"));
    fs::write(PAGE, page).expect("the page is writable");
}

/// Returns the cells of the rows behind a mark.
fn rows(mark: &str) -> Vec<Vec<String>> {
    let page = page();
    let [_, table, _] = around(&page, mark);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.lines().skip(2).map(cells).collect()
}

fn number(cell: &String) -> usize {
    cell.parse().unwrap_or_else(|_| panic!("not a number: {cell}"))
}

/// Compares a table of scopes in which nothing is violated.
fn compare_sound<M: Rule>(mark: &str, scopes: &[M::Scope], most: usize) {
    let rows = rows(mark);
    let written: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
    let expected: Vec<_> = scopes.iter().map(ToString::to_string).collect();
    assert_eq!(expected, written, "{mark}: `scripts/exhaust --write` writes the table");
    assert!(rows.iter().all(|row| row[5] == "0"), "{mark}: a row with a violation");
    let small: Vec<_> = scopes.iter().zip(rows).filter(|(_, row)| number(&row[1]) <= most).collect();
    assert!(!small.is_empty(), "{mark}: no row has up to {most} states");
    for (scope, row) in small {
        let model = M::new(*scope);
        let found = explore(model);
        if let Some(violation) = &found.violation {
            panic!("{} in {scope}: {:#?}", violation.property, model.describe(&violation.trace));
        }
        let expected = [found.states, found.transitions, found.depth];
        assert_eq!(expected, [&row[1], &row[2], &row[3]].map(number), "{mark}: {scope}");
    }
}

/// Compares a table of broken variants.
fn compare_broken<M: Rule>(mark: &str, catalog: &[Broken<M>], most: usize) {
    let rows = rows(mark);
    assert_eq!(catalog.len(), rows.len(), "{mark}: `scripts/exhaust --write` writes the table");
    let mut explored = 0;
    for (broken, row) in catalog.iter().zip(rows) {
        let Broken { variant, does, violates, scope } = broken;
        let expected = [format!("{variant:?}"), (*does).to_owned(), violates.to_string(), scope.to_string()];
        assert_eq!(expected, [&row[0], &row[1], &row[2], &row[6]].map(String::clone), "{mark}");
        let [steps, states] = [&row[3], &row[4]].map(number);
        if states <= most {
            explored += 1;
            let found = broken.detect();
            let is_same = !M::EXACT || (found.trace.len(), found.states) == (steps, states);
            assert!(is_same, "{mark}, {variant:?}: {} steps, {} states", found.trace.len(), found.states);
        }
    }
    assert!(explored > 0, "{mark}: no row has up to {most} states");
}
