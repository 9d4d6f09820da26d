//! Tests of names: resources and tokens are arbitrary bytes, without patterns, numbers or separators.

use redlock_core::node::{Reply, Token};

use super::stage::{BROKEN, Stage, claim, denied, granted, holds_true, hour};

const BYTES: &str = "resources are binary-safe and distinguished by their bytes";
const TOKENS: &str = "tokens are binary-safe and distinguished by their bytes";

/// Names that a client or server might confuse, or split into several names.
const NAMES: &[&[u8]] = &[
    b"a",
    b"A",
    b"a ",
    b" a",
    b"a\0",
    b"\0",
    b"\0a",
    b"a\0b",
    b"a\n",
    b"a\r\n",
    b"\r\n",
    b"\xff",
    b"\xfe",
    b"\xc3\xa9",
    b"\xc3",
    b"\xef\xbf\xbd",
    b"1",
    b"01",
    b"1.0",
    b"*",
    b"?",
    b"[a-z]",
    b"[^b]",
    b"\\a",
    b"%a",
    b"%",
    b"%s",
    b"%%",
    b"{a}",
    b"{a}b",
    b"'",
    b"\"",
    b"a'b",
    b"$1",
    b"KEYS[1]",
    b"a:b",
    b"a:",
    b":",
    b"a,b",
    b"a b",
    b",",
    b"nil",
    b"",
];

pub(crate) async fn resource_names_are_binary_safe(stage: &Stage) {
    let names: Vec<_> = NAMES.iter().copied().filter(|name| !name.is_empty()).collect();
    for name in &names {
        granted(stage.acquire(&claim(*name, "alice"), hour()).await, BYTES);
    }
    for (position, name) in names.iter().enumerate() {
        denied(stage.acquire(&claim(*name, "bob"), hour()).await, BYTES);
        granted(stage.release(&claim(*name, "alice")).await, BYTES);
        holds_true(stage.is_free(*name).await, BYTES);
        for other in &names[position + 1..] {
            assert!(
                stage.holds(*other, "alice").await,
                "{BROKEN}{BYTES}\n  releasing \"{}\" took \"{}\" along",
                name.escape_ascii(),
                other.escape_ascii()
            );
        }
    }
    let all_at_once = claim(names.as_slice().iter().map(|name| name.to_vec()).collect::<Vec<_>>(), "alice");
    granted(stage.acquire(&all_at_once, hour()).await, BYTES);
    granted(stage.extend(&all_at_once, hour()).await, BYTES);
    granted(stage.release(&all_at_once).await, BYTES);
    for name in names {
        holds_true(stage.is_free(name).await, BYTES);
    }
}

pub(crate) async fn resources_are_not_joined(stage: &Stage) {
    granted(stage.acquire(&claim(["ab", "c"], "alice"), hour()).await, BYTES);
    granted(stage.acquire(&claim(["a", "bc"], "bob"), hour()).await, BYTES);
    granted(stage.acquire(&claim("abc", "carol"), hour()).await, BYTES);
    for (resource, token) in [("ab", "alice"), ("c", "alice"), ("a", "bob"), ("bc", "bob"), ("abc", "carol")]
    {
        holds_true(stage.holds(resource, token).await, BYTES);
    }
}

pub(crate) async fn the_longest_names_work(stage: &Stage) {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for last in 0..3 {
        let mut name = vec![b'x'; 1024];
        name[1023] = last;
        names.push(name);
    }
    for (name, token) in names.iter().zip(["alice", "bob", "carol"]) {
        granted(stage.acquire(&claim(name, token), hour()).await, "a name may have 1024 bytes");
    }
    for (name, token) in names.iter().zip(["alice", "bob", "carol"]) {
        granted(stage.release(&claim(name, token)).await, "a name may have 1024 bytes");
    }
}

pub(crate) async fn tokens_are_binary_safe(stage: &Stage) {
    for (position, token) in NAMES.iter().enumerate() {
        let resource = format!("r{position}");
        granted(stage.acquire(&claim(&resource, token), hour()).await, TOKENS);
        granted(stage.acquire(&claim(&resource, token), hour()).await, TOKENS);
        holds_true(stage.holds(&resource, token).await, TOKENS);
        for other in NAMES.iter().filter(|other| *other != token) {
            let foreign = claim(&resource, other);
            match stage.acquire(&foreign, hour()).await {
                Reply::Denied(denial) => holds_true(
                    denial.holder.is_none_or(|holder| holder == Token::from_bytes(token)),
                    "a denial names the holder's token, or no token",
                ),
                _ => panic!(
                    "{BROKEN}{TOKENS}\n  \"{}\" was taken for \"{}\"",
                    other.escape_ascii(),
                    token.escape_ascii()
                ),
            }
            denied(stage.extend(&foreign, hour()).await, TOKENS);
            denied(stage.release(&foreign).await, TOKENS);
        }
        granted(stage.release(&claim(&resource, token)).await, TOKENS);
    }
}
