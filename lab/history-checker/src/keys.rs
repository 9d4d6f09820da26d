//! Keys that are left at the end.

use crate::line::Key;
use crate::violation::Violation;

/// The documented keys that are not locks: `docs/operating.md`, `docs/fencing.md` and `docs/guarantees.md`.
const SERVICE_KEYS: [&str; 4] =
    ["redlock:admission", "redlock:nodes", "redlock:nodes:change", "redlock:nodes:other"];

/// The beginning of the keys of fencing counters.
const COUNTERS: &str = "redlock:fence:";

pub(crate) fn leftovers(keys: &[Key]) -> Vec<Violation> {
    let is_service = |key: &Key| SERVICE_KEYS.contains(&&*key.key) || key.key.starts_with(COUNTERS);
    keys.iter().filter(|key| !is_service(key)).map(Violation::leftover).collect()
}
