//! All checks of a history.

use crate::figures::Figures;
use crate::history::History;
use crate::keys::leftovers;
use crate::overlaps::overlaps;
use crate::tokens::tokens;
use crate::violation::Violation;

/// Checks a history. Returns the figures and all violations.
///
/// # Errors
///
/// - The history has no lease of a mode, no fencing token, or no two readers at the same time: a check could not fail.
/// - It has no keys at the end, although the service keys must be there.
pub fn check(history: &History) -> Result<(Figures, Vec<Violation>), String> {
    let found = overlaps(&history.holds);
    let figures = Figures::of(history, &found);
    figures.require()?;
    if history.keys.is_empty() {
        return Err("the keys at the end are missing".to_owned());
    }
    let mut violations = found.violations;
    violations.extend(tokens(&history.holds));
    violations.extend(leftovers(&history.keys));
    Ok((figures, violations))
}
