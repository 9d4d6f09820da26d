//! Fenced locks on the wire: which keys the counters have, and which scripts count.
//!
//! The counter of a resource is a key of its own, which holds a decimal number: the prefix for counters, and the
//! resource's key in braces, `redlock:fence:{invoice:42}`; so the two are in one hash slot, where there are such. A key with
//! a closing brace cannot be put in braces and stands behind a colon instead, `redlock:fence::{invoice}:42`: if it has a
//! hash tag, the two are in one slot again. No two keys have one counter: what follows the prefix tells the cases apart.
//!
//! Locking and counting is one script, and so one step. The text of each script begins with the same look at all keys.
//! A number that is further ahead of the server's clock than counters are kept is an error, before anything is written.
//! Unlike those of plain locks they are not loaded when a connection is made, but with their first use.

use std::borrow::Cow;
use std::time::Duration;

use crate::asked::Asked;
use crate::script::{Over, Script, number, script};

pub(crate) static ACQUIRE: Script = script!("scripts/fence/look.lua", "scripts/fence/acquire.lua");
pub(crate) static CONFIRM: Script = script!("scripts/fence/look.lua", "scripts/fence/confirm.lua");
pub(crate) static REFILL: Script = script!("scripts/fence/look.lua", "scripts/fence/refill.lua");

/// What the keys of counters begin with, unless it is chosen.
pub(crate) const PREFIX: &[u8] = b"redlock:fence:";

/// How long a counter is kept after the lock that used it last has expired, unless it is chosen: for longer than anybody is
/// paused who still means to write. When it is gone, the time that the next one begins with is beyond it.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The keys of a claim and of its counters; its token, its TTL, how much longer the counters are kept, and its fencing token.
pub(crate) fn over<'a>(asked: &Asked<'a>) -> Over<'a> {
    let Asked { claim, ttl, fence, options, .. } = *asked;
    let mut over = Over::claim(&options.keys.prefix, claim, ttl);
    let counters = over.keys.iter().map(|key| Cow::Owned(counter(&options.keys.fence_prefix, key)));
    over.keys.extend(counters.collect::<Vec<_>>());
    over.args.push(number(millis(options.keys.fence_retention).min(LONGEST)));
    over.args.extend(fence.map(|fence| number(fence.as_u64())));
    over
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// In milliseconds: some 140 years, far from where servers overflow.
const LONGEST: u64 = 1 << 42;

/// The key of the counter that belongs to the key of a resource.
fn counter(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    if key.contains(&b'}') { [prefix, b":", key].concat() } else { [prefix, b"{", key, b"}"].concat() }
}

/// Whether the key of a resource, in its parts, could be the key of a counter.
///
/// Such a resource is no lock: with its key locked the counter is no number, and a release with the right value would
/// delete the counter.
pub(crate) fn is_counter(fence_prefix: &[u8], key_prefix: &[u8], name: &[u8]) -> bool {
    let mut key = key_prefix.iter().chain(name).copied();
    if !key.by_ref().take(fence_prefix.len()).eq(fence_prefix.iter().copied()) {
        return false;
    }
    let braces = key.clone().filter(|byte| *byte == b'}').count();
    match key.next() {
        Some(b'{') => braces == 1 && key.last() == Some(b'}'),
        Some(b':') => braces > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_counters_are_known() {
        let is_one = |key: &str| {
            let all =
                (0..=key.len()).map(|at| is_counter(PREFIX, &key.as_bytes()[..at], &key.as_bytes()[at..]));
            let all: Vec<_> = all.collect();
            assert!(all.iter().all(|one| *one == all[0]), "wherever the prefix ends: {key}");
            all[0]
        };
        for key in [
            "invoice:42",
            "{invoice}:42",
            "a{b",
            "x}",
            "}",
            "a",
            "redlock:fence:{a}",
            "{",
            ":",
            ":a",
            "::{a}",
        ] {
            assert!(is_one(&name(key)), "{key}");
            assert!(!is_one(key) || key.starts_with("redlock"), "{key}");
        }
        for key in [
            "redlock:fence:",
            "redlock:fence:a",
            "redlock:fence:{a",
            "redlock:fence::a",
            "redlock:fence",
            "x:redlock:fence:{a}",
        ] {
            assert!(!is_one(key), "{key}");
        }
        assert!(is_counter(b"", b"", b"{a}") && !is_counter(b"", b"", b"a"));
        assert!(is_counter(b"locks:", b"locks:", b"{a}") && !is_counter(b"locks:", b"locks:", b"a"));
    }

    fn name(key: &str) -> String {
        String::from_utf8(counter(PREFIX, key.as_bytes())).unwrap()
    }

    #[test]
    fn counters_are_named_after_their_keys() {
        assert_eq!("redlock:fence:{invoice:42}", name("invoice:42"));
        assert_eq!("redlock:fence::{invoice}:42", name("{invoice}:42"));
        assert_eq!("redlock:fence:{a{b}", name("a{b"));
    }

    #[test]
    fn no_two_keys_have_one_counter() {
        let keys = ["a", "{a}", ":a", ":{a}", "{a", "a}", "{{a}}", "}", "{", "::{a}"];
        let names: std::collections::HashSet<_> = keys.iter().map(|key| name(key)).collect();
        assert_eq!(keys.len(), names.len());
    }

    #[test]
    fn a_counter_is_in_the_slot_of_its_key() {
        /// What decides about the slot: the first tag in braces that is not empty, or else everything.
        fn tag(key: &str) -> &str {
            let Some((_, rest)) = key.split_once('{') else { return key };
            rest.split_once('}').map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag })
        }
        for key in ["invoice:42", "{invoice}:42", "a{b", "x{y}z{w}"] {
            assert_eq!(tag(key), tag(&name(key)), "{key}");
        }
    }
}
