//! Who holds a lock: the random value under its keys.
//!
//! Whoever knows a token can release the lock, so a token never prints itself: `Debug` and `Display` show a
//! [`Fingerprint`], which identifies it in logs and errors and is of no other use.

use std::fmt;
use std::sync::Arc;

use crate::runtime::Runtime;

/// The value under the keys of a lock, different for every attempt. A secret; clones share it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// 160 random bits in hexadecimal: as many as the [article] that introduced Redlock takes from the OS.
    ///
    /// [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
    pub(crate) fn random(runtime: &dyn Runtime) -> Self {
        let mut random = [0; 20];
        runtime.fill_random(&mut random);
        let mut text = [0; 40];
        for (byte, pair) in random.iter().zip(text.chunks_exact_mut(2)) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        Self(text.as_slice().into())
    }

    /// A token as another program wrote it, or as a test needs it. Any bytes will do.
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(bytes.as_ref().into())
    }

    /// The token itself, for the wire. Keep it out of logs.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What may be shown of it.
    pub fn fingerprint(&self) -> Fingerprint {
        // FNV-1a: a few lines that give the same name to the same token in every process and version.
        let hash = self.0.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        #[allow(clippy::cast_possible_truncation)] // folding 64 bits into the 32 that people compare
        Fingerprint((hash ^ (hash >> 32)) as u32)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(#{})", self.fingerprint())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.fingerprint())
    }
}

/// 32 bits that tell tokens apart for people, such as `9c01a7f2`. The token cannot be found from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u32);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_prints_itself() {
        let token = Token::from_bytes("hunter2-hunter2");
        for shown in [format!("{token}"), format!("{token:?}"), format!("{token:#?}")] {
            assert!(!shown.contains("hunter"), "{shown}");
            assert!(shown.contains(&token.fingerprint().to_string()), "{shown}");
        }
    }

    #[test]
    fn fingerprints_are_stable_and_tell_tokens_apart() {
        assert_eq!(Token::from_bytes("a").fingerprint(), Token::from_bytes("a").fingerprint());
        assert_ne!(Token::from_bytes("a").fingerprint(), Token::from_bytes("b").fingerprint());
    }
}
