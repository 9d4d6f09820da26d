//! The key of the stamp of a server.

use std::borrow::Cow;

/// The key of the stamp of an independent server, and the beginning of every such key.
pub(crate) const STAMP: &[u8] = b"redlock:admission";

/// The key of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampKey {
    /// `redlock:admission`.
    Plain,
    /// `redlock:admission:{7}`, with a number as the hash tag: the key of a shard of a cluster.
    Numbered(u32),
}

impl StampKey {
    pub(crate) fn name(self) -> Cow<'static, [u8]> {
        match self {
            Self::Plain => Cow::Borrowed(STAMP),
            Self::Numbered(number) => Cow::Owned([STAMP, format!(":{{{number}}}").as_bytes()].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_shard_has_a_hash_tag() {
        assert_eq!(b"redlock:admission", &*StampKey::Plain.name());
        assert_eq!(b"redlock:admission:{7}", &*StampKey::Numbered(7).name());
    }
}
