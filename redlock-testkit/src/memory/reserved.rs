//! The names that are reserved on servers, with the default options of an adapter.
//!
//! The rule and the texts are those of `redlock-wire`. With other prefixes, other names are reserved.

use redlock_core::{Error, Resource};

/// The key with which a server recognizes its restarts, and the beginning of others.
const STAMP: &str = "redlock:admission";

/// The beginning of the keys of fencing counters.
const COUNTERS: &str = "redlock:fence:";

/// The end of the keys with the order of waiters.
const PLACES: &str = "#waiting";

/// Checks that no server uses the name for something else.
pub(super) fn check(resource: &Resource) -> Result<(), Error> {
    let name = resource.as_bytes();
    if is_stamp(name) {
        return Err(Error::invalid(format!(
            "invalid resource name {resource:?}: its key \"{resource}\" is reserved for the restart check (\"{STAMP}\")"
        )));
    }
    if is_counter(name) {
        return Err(Error::invalid(format!(
            "invalid resource name {resource:?}: its key \"{resource}\" is reserved for fencing counters \
             (\"{COUNTERS}{{...}}\")"
        )));
    }
    if name.ends_with(PLACES.as_bytes()) {
        return Err(Error::invalid(format!(
            "invalid resource name {resource:?}: names that end in \"{PLACES}\" are reserved for the order of waiters"
        )));
    }
    Ok(())
}

fn is_stamp(name: &[u8]) -> bool {
    let rest = name.strip_prefix(STAMP.as_bytes());
    rest.is_some_and(|rest| rest.first().is_none_or(|next| *next == b':'))
}

/// Returns whether a name could be the key of a counter: `redlock:fence:{a}`, or `redlock:fence::{a}b` for `{a}b`.
fn is_counter(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(COUNTERS.as_bytes()) else { return false };
    let braces = rest.iter().copied().filter(|byte| *byte == b'}').count();
    match rest.first() {
        Some(b'{') => braces == 1 && rest.ends_with(b"}"),
        Some(b':') => braces > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use redlock_core::ErrorKind;
    use redlock_core::node::LockNode;

    use crate::{MemoryNode, block_on, fake_redlock};

    #[test]
    fn names_that_servers_reserve_cannot_be_locked() {
        let (redlock, _) = fake_redlock(3);
        for (name, message) in [
            (
                "redlock:admission",
                "invalid resource name \"redlock:admission\": its key \"redlock:admission\" is reserved for the \
                 restart check (\"redlock:admission\")",
            ),
            (
                "redlock:fence:{a}",
                "invalid resource name \"redlock:fence:{a}\": its key \"redlock:fence:{a}\" is reserved for fencing \
                 counters (\"redlock:fence:{...}\")",
            ),
            (
                "jobs#waiting",
                "invalid resource name \"jobs#waiting\": names that end in \"#waiting\" are reserved for the order of \
                 waiters",
            ),
        ] {
            let request = redlock.lock(name, std::time::Duration::from_secs(10));
            let error = block_on(request.try_now()).expect_err("the name is reserved");
            assert_eq!((ErrorKind::InvalidInput, message), (error.kind(), error.to_string().as_str()));
        }
    }

    #[test]
    fn a_name_is_reserved_only_if_a_server_uses_its_key() {
        let node = MemoryNode::new("a");
        let is_reserved = |name: &str| node.check(&crate::memory::name(name)).is_err();
        let reserved = ["redlock:admission:{7}", "redlock:fence::{a}b", "#waiting"];
        assert!(reserved.into_iter().all(is_reserved));
        let free = [
            "redlock:admissions",
            "redlock:fence:a",
            "redlock:fence:{",
            "redlock:fence",
            "x:redlock:fence:{a}",
            "waiting",
            "{a}",
        ];
        assert!(free.into_iter().all(|name| !is_reserved(name)));
    }
}
