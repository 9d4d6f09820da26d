//! Fenced locks on the wire: the keys of the counters, and the scripts that use them.
//!
//! The counter of a resource is a separate key that holds a decimal number. Its name is the counter prefix and the
//! resource's key in braces, `redlock:fence:{invoice:42}`, so that both keys are in one hash slot. A key with a closing
//! brace cannot be put in braces and follows a colon instead, `redlock:fence::{invoice}:42`. If that key has a hash
//! tag, both are again in one slot. No two keys share a counter: the character behind the prefix distinguishes the two
//! cases.
//!
//! Acquiring and counting happen in one script, and therefore in one step. The scripts share the check of all keys
//! (`look.lua`). Those for acquire and confirm have a short part for a single resource before it, which takes less
//! server time. Both parts make all checks before the first write: of the keys, of the right to write them, and of the
//! numbers. No number may be further ahead of the server's clock than the retention. Unlike the scripts of plain locks,
//! these are loaded on first use, not when a connection is made.

use std::borrow::Cow;
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::node::Ttl;

use crate::options::Options;
use crate::script::{Script, ScriptArgs, number, script};

pub(crate) static ACQUIRE: Script = script!(
    "scripts/fence/acquire_one.lua",
    "scripts/readers.lua",
    "scripts/fence/look.lua",
    "scripts/fence/acquire.lua"
);
pub(crate) static CONFIRM: Script = script!(
    "scripts/fence/confirm_one.lua",
    "scripts/readers.lua",
    "scripts/fence/look.lua",
    "scripts/fence/confirm.lua"
);
pub(crate) static REFILL: Script =
    script!("scripts/readers.lua", "scripts/fence/look.lua", "scripts/fence/refill.lua");

/// Adds the keys of the counters of a claim, their TTL, and the fencing token.
pub(crate) fn count(args: &mut ScriptArgs<'_>, options: &Options, ttl: Ttl, token: Option<FencingToken>) {
    let counters = args.keys.iter().map(|key| Cow::Owned(counter(&options.keys.fence_prefix, key)));
    let counters: Vec<_> = counters.collect();
    args.keys.extend(counters);
    let retention = millis(options.keys.fence_retention).min(LONGEST);
    args.args.push(number(ttl.as_millis() + retention));
    args.args.extend(token.map(|token| number(token.as_u64())));
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The longest retention in milliseconds: about 140 years, far below the values at which servers overflow.
const LONGEST: u64 = 1 << 42;

/// Returns the key of the counter that belongs to a resource's key.
pub(crate) fn counter(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    if key.contains(&b'}') { [prefix, b":", key].concat() } else { [prefix, b"{", key, b"}"].concat() }
}

/// Returns whether a resource's key, given in parts, could be the key of a counter.
///
/// Such a resource cannot be locked. With its key locked, the counter would not be a number, and a release with the
/// right value would delete the counter.
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
    use crate::options::FENCE_PREFIX as PREFIX;

    #[test]
    fn the_keys_of_counters_are_stable() {
        let is_one = |key: &str| {
            let all =
                (0..=key.len()).map(|at| is_counter(PREFIX, &key.as_bytes()[..at], &key.as_bytes()[at..]));
            let all: Vec<_> = all.collect();
            assert!(all.iter().all(|one| *one == all[0]), "for every end of the prefix: {key}");
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
    fn different_keys_have_different_counters() {
        let keys = ["a", "{a}", ":a", ":{a}", "{a", "a}", "{{a}}", "}", "{", "::{a}"];
        let names: std::collections::HashSet<_> = keys.iter().map(|key| name(key)).collect();
        assert_eq!(keys.len(), names.len());
    }

    #[test]
    fn a_counter_is_in_the_slot_of_its_key() {
        /// Returns the part that decides the slot: the first non-empty tag in braces, or the whole key.
        fn tag(key: &str) -> &str {
            let Some((_, rest)) = key.split_once('{') else { return key };
            rest.split_once('}').map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag })
        }
        for key in ["invoice:42", "{invoice}:42", "a{b", "x{y}z{w}"] {
            assert_eq!(tag(key), tag(&name(key)), "{key}");
        }
    }
}
