//! The tables of `docs/internals/explored-scopes.md`. Explorations print and write them, and tests compare them.

#![allow(clippy::print_stdout)] // the commands print their results

use std::fs;

use crate::catalog::{Broken, Explored, Rule};
use crate::explore::explore;

/// The page with the tables.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/explored-scopes.md");

/// What is explored, and what becomes of the results.
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
            let rules = self.rules().into_iter();
            as_expected &= nothing_is_violated("rule", rules, mark("rules").as_deref());
        }
        as_expected
    }

    /// Compares the tables of the page with the scopes and the variants of the code. Explores rows again that have up to
    /// this number of states.
    ///
    /// # Panics
    ///
    /// Panics if they differ.
    pub fn compare(&self, name: &str, most: usize) {
        assert!(rows(&format!("{name}: scopes")).is_some(), "the page has no table of {name}");
        let scopes: Vec<_> = self.scopes.iter().map(|scope| (scope.to_string(), M::new(*scope))).collect();
        compare_sound(&format!("{name}: scopes"), &scopes, most);
        compare_broken(&format!("{name}: variants"), self.broken, most);
        compare_broken(&format!("{name}: holes"), self.holes, most);
        compare_sound(&format!("{name}: rules"), &self.rules(), most);
    }

    /// Returns the other rules with their descriptions.
    fn rules(&self) -> Vec<(String, M)> {
        let rules = self.harmless.iter();
        rules
            .map(|rule| (format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope), rule.model()))
            .collect()
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
    write(&table, mark);
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
    write(&table, mark);
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

/// Replaces the table behind a mark of the page, such as `keeping: scopes`, if it has one.
fn write(table: &Table, mark: Option<&str>) {
    let Some(mark) = mark.map(|mark| format!("<!-- {mark} -->\n")) else { return };
    let page = page();
    let Some((before, rest)) = page.split_once(&mark) else { return };
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let page = format!("{before}{mark}{}\n\n{after}", table.0.join("\n"));
    fs::write(PAGE, page).expect("the page is writable");
}

/// Returns the cells of the rows behind a mark. A page without the mark does not have that table.
fn rows(mark: &str) -> Option<Vec<Vec<String>>> {
    let page = page();
    let (_, rest) = page.split_once(&format!("<!-- {mark} -->\n"))?;
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    Some(rows.map(cells).collect())
}

fn number(cell: &String) -> usize {
    cell.parse().unwrap_or_else(|_| panic!("not a number: {cell}"))
}

/// Compares a table of rules that hold.
fn compare_sound<M: Rule>(mark: &str, rules: &[(String, M)], most: usize) {
    let Some(rows) = rows(mark) else { return };
    let written: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
    let expected: Vec<_> = rules.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(expected, written, "{mark}: `scripts/exhaust --write` writes the table");
    for ((name, model), row) in rules.iter().zip(rows).filter(|(_, row)| number(&row[1]) <= most) {
        let found = explore(*model);
        if let Some(violation) = &found.violation {
            panic!("{} in {name}: {:#?}", violation.property, model.describe(&violation.trace));
        }
        let expected = [found.states, found.transitions, found.depth];
        assert_eq!(expected, [&row[1], &row[2], &row[3]].map(number), "{mark}: {name}");
    }
}

/// Compares a table of broken variants.
fn compare_broken<M: Rule>(mark: &str, catalog: &[Broken<M>], most: usize) {
    let Some(rows) = rows(mark) else { return };
    assert_eq!(catalog.len(), rows.len(), "{mark}: `scripts/exhaust --write` writes the table");
    for (broken, row) in catalog.iter().zip(rows) {
        let Broken { variant, does, violates, scope } = broken;
        let expected = [format!("{variant:?}"), (*does).to_owned(), violates.to_string(), scope.to_string()];
        assert_eq!(expected, [&row[0], &row[1], &row[2], &row[6]].map(String::clone), "{mark}");
        if number(&row[4]) <= most {
            // The number of states may depend on the threads, the length of the trace does not.
            assert_eq!(number(&row[3]), broken.detect().len(), "{mark}: {variant:?}");
        }
    }
}
