//! Runs explorations and prints a table.

use redlock_model::{Broken, Rule, explore};

/// Returns true if no exploration finds a violation.
pub(crate) fn nothing_is_violated<M: Rule>(what: &str, models: impl Iterator<Item = (String, M)>) -> bool {
    println!("| {what} | states | transitions | depth | time | violations |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut sound = true;
    for (name, model) in models {
        let found = explore(model);
        let (states, transitions, depth, took) = (found.states, found.transitions, found.depth, found.took);
        let violations = usize::from(found.violation.is_some());
        println!("| {name} | {states} | {transitions} | {depth} | {took:.1?} | {violations} |");
        if let Some(violation) = found.violation {
            println!("\n{} is violated:", violation.property);
            print(&model.describe(&violation.trace));
            sound = false;
        }
    }
    sound
}

/// Returns true if each variant violates the expected property.
pub(crate) fn each_is_found<M: Rule>(catalog: &[Broken<M>], traces: bool) -> bool {
    println!("| variant | what is wrong | violates | steps | states | time | scope |");
    println!("|---|---|---|---:|---:|---:|---|");
    let mut caught = true;
    for broken in catalog {
        let Broken { variant, does, violates, scope } = broken;
        let found = broken.explore();
        let steps = found.violation.as_ref().map(|violation| violation.trace.len());
        let (states, took) = (found.states, found.took);
        let steps_text = steps.map_or("NOT FOUND".to_owned(), |steps| steps.to_string());
        println!("| {variant:?} | {does} | {violates} | {steps_text} | {states} | {took:.1?} | {scope} |");
        if let Some(violation) = found.violation.filter(|_| traces) {
            println!();
            print(&broken.model().describe(&violation.trace));
            println!();
        }
        caught &= steps.is_some();
    }
    caught
}

fn print(trace: &[String]) {
    for step in trace {
        println!("    {step}");
    }
}
