//! The tables of `docs/internals/explored-scopes.md`, which `scripts/exhaust --write` writes.

use redlock_model::{Broken, Explored, Rule, admission, change, clocks, explore, keep, order};

const PAGE: &str = include_str!("../../../../docs/internals/explored-scopes.md");

/// The greatest number of states that is explored again.
const SMALL: usize = 30_000;

/// Returns the cells of the rows behind a mark. A page without the mark does not have that table.
fn rows(mark: &str) -> Option<Vec<Vec<&'static str>>> {
    let (_, rest) = PAGE.split_once(&format!("<!-- {mark} -->\n"))?;
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    Some(rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect())
}

fn number(cell: &str) -> usize {
    cell.parse().unwrap_or_else(|_| panic!("not a number: {cell}"))
}

/// Compares a table of rules that hold.
fn compare_sound<M: Rule>(mark: &str, rules: &[(String, M)]) {
    let Some(rows) = rows(mark) else { return };
    let names = |rows: &[Vec<&str>]| rows.iter().map(|row| row[0].to_owned()).collect::<Vec<_>>();
    let expected: Vec<_> = rules.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(expected, names(&rows), "{mark}: `scripts/exhaust --write` writes the table");
    for ((name, model), row) in rules.iter().zip(rows).filter(|(_, row)| number(row[1]) <= SMALL) {
        let found = explore(*model);
        let expected = [found.states, found.transitions, found.depth];
        assert_eq!(expected, [row[1], row[2], row[3]].map(number), "{mark}: {name}");
    }
}

/// Compares a table of broken variants.
fn compare_broken<M: Rule>(mark: &str, catalog: &[Broken<M>]) {
    let Some(rows) = rows(mark) else { return };
    assert_eq!(catalog.len(), rows.len(), "{mark}: `scripts/exhaust --write` writes the table");
    for (broken, row) in catalog.iter().zip(rows) {
        let Broken { variant, does, violates, scope } = broken;
        let expected = [format!("{variant:?}"), (*does).to_owned(), violates.to_string(), scope.to_string()];
        assert_eq!(expected, [row[0], row[1], row[2], row[6]], "{mark}");
        if number(row[4]) <= SMALL {
            let found = broken.explore();
            let steps = found.violation.map_or(0, |violation| violation.trace.len());
            assert_eq!([steps, found.states], [row[3], row[4]].map(number), "{mark}: {variant:?}");
        }
    }
}

fn compare<M: Rule>(name: &str, explored: &Explored<M>) {
    let Explored { scopes, broken, holes, harmless, .. } = explored;
    assert!(rows(&format!("{name}: scopes")).is_some(), "the page has no table of {name}");
    let scopes: Vec<_> = scopes.iter().map(|scope| (scope.to_string(), M::new(*scope))).collect();
    compare_sound(&format!("{name}: scopes"), &scopes);
    compare_broken(&format!("{name}: variants"), broken);
    compare_broken(&format!("{name}: holes"), holes);
    let rule = |rule: &redlock_model::Harmless<M>| {
        (format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope), rule.model())
    };
    let rules: Vec<_> = harmless.iter().map(rule).collect();
    compare_sound(&format!("{name}: rules"), &rules);
}

#[test]
fn the_page_has_the_scopes_and_the_variants_of_every_model() {
    compare("admission", &admission::EXPLORED);
    compare("clocks", &clocks::EXPLORED);
    compare("keeping", &keep::EXPLORED);
    compare("change", &change::EXPLORED);
    compare("order", &order::EXPLORED);
}
