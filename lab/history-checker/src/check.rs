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
/// A history without what a check is about: no lease of a mode, no fencing token, no two readers at the same time, or no
/// key on a server, where the service keys must be. Its check could not fail.
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
