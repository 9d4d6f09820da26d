//! Runs explorations, prints a table, and writes it into the page if it is to be written.

use redlock_model::{Broken, Rule, explore};

/// The page with the tables.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/explored-scopes.md");

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
pub(crate) fn nothing_is_violated<M: Rule>(
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
pub(crate) fn each_is_found<M: Rule>(catalog: &[Broken<M>], traces: bool, mark: Option<&str>) -> bool {
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

/// Replaces the table behind a mark of the page, such as `keeping: scopes`, if it has one.
fn write(table: &Table, mark: Option<&str>) {
    let Some(mark) = mark.map(|mark| format!("<!-- {mark} -->\n")) else { return };
    let page = std::fs::read_to_string(PAGE).expect("the page exists");
    let Some((before, rest)) = page.split_once(&mark) else { return };
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let page = format!("{before}{mark}{}\n\n{after}", table.0.join("\n"));
    std::fs::write(PAGE, page).expect("the page is writable");
}

fn print(trace: &[String]) {
    for step in trace {
        println!("    {step}");
    }
}
