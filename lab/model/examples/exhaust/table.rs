//! Runs explorations and prints a table.

use std::fmt::Display;

use redlock_model::{Model, explore, explore_for};

/// A broken variant that must be detected.
pub(crate) struct Case<M: Model> {
    pub(crate) name: String,
    pub(crate) does: &'static str,
    pub(crate) violates: M::Property,
    pub(crate) scope: String,
    pub(crate) model: M,
}

/// Returns true if no exploration finds a violation.
pub(crate) fn nothing_is_violated<M: Model<Property: Display>>(
    what: &str,
    models: impl Iterator<Item = (String, M)>,
    describe: impl Fn(&M, &[M::Step]) -> Vec<String>,
) -> bool {
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
            print(&describe(&model, &violation.trace));
            sound = false;
        }
    }
    sound
}

/// Returns true if each variant violates the expected property.
pub(crate) fn each_is_found<M: Model<Property: Display>>(
    cases: impl Iterator<Item = Case<M>>,
    traces: bool,
    describe: impl Fn(&M, &[M::Step]) -> Vec<String>,
) -> bool {
    println!("| variant | what is wrong | violates | steps | states | time | scope |");
    println!("|---|---|---|---:|---:|---:|---|");
    let mut caught = true;
    for Case { name, does, violates, scope, model } in cases {
        let found = explore_for(model, &[violates]);
        let steps = found.violation.as_ref().map(|violation| violation.trace.len());
        let (states, took) = (found.states, found.took);
        let steps_text = steps.map_or("NOT FOUND".to_owned(), |steps| steps.to_string());
        println!("| {name} | {does} | {violates} | {steps_text} | {states} | {took:.1?} | {scope} |");
        if let Some(violation) = found.violation.filter(|_| traces) {
            println!();
            print(&describe(&model, &violation.trace));
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
