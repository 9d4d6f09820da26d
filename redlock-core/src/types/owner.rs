//! Owner labels: human-readable prefixes of tokens.
//!
//! `redis-cli` shows `host-1:4242#5f0c..`: the label, `#`, and 40 hexadecimal digits. A label has no `#`, so its end is
//! unambiguous. It does not identify a client to the nodes: only the whole token does, and two holders may have the
//! same label.

use std::sync::Arc;

use crate::types::error::Error;

/// The separator between the label and the random part.
pub(crate) const SEPARATOR: u8 = b'#';

/// A valid label. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    /// The maximum length of a label in bytes: a host name, and a process or request.
    ///
    /// The label is part of every value and request, so it is short.
    pub(crate) const MAX_LEN: usize = 64;

    pub(crate) fn new(label: &str) -> Result<Self, Error> {
        match label.len() {
            0 => Err(Error::invalid("an owner label is empty; it needs 1 to 64 characters")),
            1..=Self::MAX_LEN => match label.chars().find(|character| !is_allowed(*character)) {
                None => Ok(Self(label.into())),
                Some(wrong) => Err(Error::invalid(format!(
                    "invalid owner label {label:?}: contains {wrong:?}; allowed: printable ASCII except spaces, \
                     quotes, backticks, backslashes and '#'"
                ))),
            },
            long => Err(Error::invalid(format!("an owner label is {long} bytes long; the limit is 64"))),
        }
    }

    /// Returns whether [`new`](Owner::new) would accept the label.
    pub(crate) fn is_valid(label: &str) -> bool {
        (1..=Self::MAX_LEN).contains(&label.len()) && label.chars().all(is_allowed)
    }

    /// Creates an owner from a label that is known to be valid.
    pub(crate) fn of_valid(label: &str) -> Self {
        Self(label.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a character needs no escaping in logs, shells and `redis-cli`.
fn is_allowed(character: char) -> bool {
    character.is_ascii_graphic() && !matches!(character, '"' | '\'' | '`' | '\\' | '#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_plain() {
        for good in ["a", "host-1:4242", "req=7/(x)[y]{z}~!@$%^&*+|;,<>.?_", &"x".repeat(64)] {
            assert_eq!(good, Owner::new(good).unwrap().as_str());
        }
        let rejection = |label: &str| Owner::new(label).unwrap_err().to_string();
        assert!(rejection("").contains("empty"));
        assert!(rejection(&"x".repeat(65)).contains("65 bytes long; the limit is 64"));
        for bad in [" ", "a b", "\"", "'", "`", "\\", "#", "\n", "\x7f", "\u{fc}"] {
            assert!(rejection(bad).contains(": contains "), "{bad:?}");
        }
    }
}
