//! Tokens: the random values of the keys of locks.
//!
//! A client that knows a token can release the lock, so a token is never printed. `Debug` and `Display` show a
//! [`Fingerprint`], which identifies the token in logs and errors and has no other use. The owner label, which may
//! precede the random part, is meant to be shown.

use std::fmt;
use std::sync::Arc;

use crate::types::owner::{Owner, SEPARATOR};
use crate::types::stable_hash::stable_hash;

/// The value of the keys of a lock, different for every attempt. A secret.
///
/// Tokens of this crate are 160 random bits in hexadecimal, as many as in the [article] that introduced Redlock. The
/// label of the [owner](crate::Builder::owner) and a `#` precede them if there is a label. Clones share the token.
///
/// [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

/// The token of all readers together.
const READERS: &[u8] = b"readers#0000000000000000000000000000000000000000";

/// The beginning of the places of waiting requests, except readers.
const PLACE: &[u8] = b"next#";

/// The beginning of the places of waiting readers. An owner label has no `#`, so no lock has such a token.
const PLACE_OF_READER: &[u8] = b"read##";

/// The number of hexadecimal digits of the random part.
///
/// They have 160 bits, as many as the [article] that introduced Redlock reads from the operating system.
///
/// [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
const RANDOM: usize = 40;

impl Token {
    /// Creates a random token: owner label and `#` if any, and 160 bits in hexadecimal.
    pub(crate) fn random(fill: impl FnOnce(&mut [u8]), owner: Option<&Owner>) -> Self {
        let label = owner.map_or("", Owner::as_str).as_bytes();
        let mut text = [SEPARATOR; Owner::MAX_LEN + 1 + RANDOM];
        text[..label.len()].copy_from_slice(label);
        let start = if label.is_empty() { 0 } else { label.len() + 1 };
        let end = start + RANDOM;
        let mut random = [0; RANDOM / 2];
        fill(&mut random);
        for (byte, pair) in random.iter().zip(text[start..end].chunks_exact_mut(2)) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        Self(text[..end].into())
    }

    /// Creates a token from any bytes, for example a token of another program.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// // In a test, another program holds the lock.
    /// let token = Token::from_bytes("another");
    /// node.set_holder("orders:42", token, Ttl::MAX);
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// # });
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(bytes.as_ref().into())
    }

    /// Returns the token that stands for all readers of a resource together.
    ///
    /// Denials and inspections name it as the holder. No claim has it. Its [owner](Token::owner) is `readers`.
    ///
    /// ```
    /// # use redlock_core::node::{Denial, Token};
    /// // A backend denies a writer because a resource has readers.
    /// let denial = Denial::by(Token::of_readers());
    /// assert_eq!(Some("readers"), denial.holder.as_ref().and_then(Token::owner));
    /// ```
    pub fn of_readers() -> Self {
        Self::from_bytes(READERS)
    }

    /// Creates the [place](crate::node::Place) of a request whose first attempt had this random token.
    pub(crate) fn of_place(attempt: &Self) -> Self {
        let random = attempt.0.len().saturating_sub(RANDOM);
        Self([PLACE, &attempt.0[random..]].concat().into())
    }

    /// Same as [`of_place`](Self::of_place), for the request of a reader.
    pub(crate) fn of_place_of_reader(attempt: &Self) -> Self {
        let random = attempt.0.len().saturating_sub(RANDOM);
        Self([PLACE_OF_READER, &attempt.0[random..]].concat().into())
    }

    /// Returns whether the release of this token reserves the resource for no waiter: one of 16 tokens.
    pub(crate) fn is_of_open_turn(&self) -> bool {
        self.0.last().is_some_and(|byte| byte % 16 == 0)
    }

    /// Returns whether this is the place of a request, for which the resource is reserved.
    pub(crate) fn is_place(&self) -> bool {
        self.has_random_after(PLACE) || self.is_place_of_reader()
    }

    /// Returns whether this is the place of a reader that waits.
    ///
    /// A resource with this value is reserved for readers. Any reader may use it.
    ///
    /// ```
    /// # use redlock_core::node::Token;
    /// // A backend acquires a resource with this value for a reader, and denies it to everyone else.
    /// let reserved = Token::from_bytes(format!("read##{}", "5".repeat(40)));
    /// assert!(reserved.is_place_of_reader());
    /// ```
    pub fn is_place_of_reader(&self) -> bool {
        self.has_random_after(PLACE_OF_READER)
    }

    fn has_random_after(&self, beginning: &[u8]) -> bool {
        self.0.starts_with(beginning) && self.0.len() == beginning.len() + RANDOM
    }

    /// Returns the token itself, for requests. Do not log it.
    ///
    /// ```
    /// # use std::collections::HashMap;
    /// # use redlock_core::node::Token;
    /// # let token = Token::from_bytes("1d0ca7e5");
    /// // A backend stores the token as the value of the key.
    /// let mut keys = HashMap::new();
    /// keys.insert("orders:42", token.as_bytes().to_vec());
    ///
    /// // Later, it compares the two before it deletes the key.
    /// assert_eq!(token.as_bytes(), keys["orders:42"]);
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the owner label, such as `host-1:4242`, if the token has one.
    ///
    /// The token must have the format of this crate: a label, `#`, and 40 hexadecimal digits. See
    /// [`Builder::owner`](crate::Builder::owner).
    ///
    /// Any client can write such a token, so the label is a claim and not a proof. A token of any other format may be
    /// secret as a whole, so none of it is returned.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).owner("host-1").await?;
    /// // A test looks at the key on the server.
    /// let token = node.holder("orders:42").expect("the lock is held");
    /// assert_eq!(Some("host-1"), token.owner());
    /// assert_eq!(None, Token::from_bytes("1d0ca7e5").owner());
    /// # });
    /// ```
    pub fn owner(&self) -> Option<&str> {
        let (label, random) = self.0.split_at_checked(self.0.len().checked_sub(RANDOM + 1)?)?;
        let is_digit = |byte: &u8| HEX.contains(byte);
        if random[0] != SEPARATOR || !random[1..].iter().all(is_digit) {
            return None;
        }
        std::str::from_utf8(label).ok().filter(|label| Owner::is_valid(label))
    }

    /// Returns the fingerprint, which may be shown.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// // A test looks at the key on the server.
    /// let token = node.holder("orders:42").expect("the lock is held");
    /// assert_eq!(guard.fingerprint(), token.fingerprint());
    /// # });
    /// ```
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { owner: self.owner().map(Owner::of_valid), hash: hash(&self.0) }
    }
}

fn hash(token: &[u8]) -> u32 {
    // A token has the same fingerprint in every process and version.
    let hash = stable_hash(token);
    // Combines the two halves: 32 bits are enough for a comparison by eye.
    u32::try_from((hash ^ (hash >> 32)) & 0xffff_ffff).expect("32 bits are left")
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Formats as `Token(#9c01a7f2)` or `Token(host-1:4242#9c01a7f2)`.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// Formats as `#9c01a7f2` or `host-1:4242#9c01a7f2`: owner label and fingerprint. The token of all readers is `readers`.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fingerprint() {
            Fingerprint { owner: None, hash } => write!(f, "#{hash:08x}"),
            labeled => labeled.fmt(f),
        }
    }
}

/// A 32-bit hash of a token, such as `9c01a7f2`, and the owner label if any.
///
/// It distinguishes tokens for humans. A random token, such as those of this crate, cannot be derived from it. A token
/// of another program that is easy to guess can. Two tokens may have the same fingerprint, by chance or on purpose.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    owner: Option<Owner>,
    hash: u32,
}

impl Fingerprint {
    /// Returns the owner label. See [`Token::owner`].
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).owner("host-1").await?;
    /// let inspection = redlock.inspect("orders:42").await?;
    /// let owner = inspection.holder().and_then(|holder| holder.owner());
    /// assert_eq!(Some("host-1"), owner);
    /// # });
    /// ```
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(Owner::as_str)
    }

    fn is_of_readers(&self) -> bool {
        self.hash == hash(READERS) && self.owner() == Some("readers")
    }
}

/// Formats as `9c01a7f2` or `host-1:4242#9c01a7f2`, and as `readers` for [all readers](Token::of_readers) together.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner() {
            // One token stands for all of them, so its fingerprint distinguishes nothing.
            Some(owner) if self.is_of_readers() => f.write_str(owner),
            Some(owner) => write!(f, "{owner}#{:08x}", self.hash),
            None => write!(f, "{:08x}", self.hash),
        }
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
    fn debug_output_omits_the_token_bytes() {
        let token = Token::from_bytes("hunter2-hunter2");
        for shown in [format!("{token}"), format!("{token:?}"), format!("{token:#?}")] {
            assert!(!shown.contains("hunter"), "{shown}");
            assert!(shown.contains(&token.fingerprint().to_string()), "{shown}");
        }
    }

    #[test]
    fn a_label_precedes_the_random_part_and_is_displayed() {
        let bare = Token::random(|bytes| bytes.fill(0xa5), None);
        assert_eq!("a5".repeat(20).as_bytes(), bare.as_bytes());
        assert_eq!(None, bare.owner());
        for label in ["h", "host-1:4242", &"x".repeat(64)] {
            let token = Token::random(|bytes| bytes.fill(0xa5), Some(&Owner::new(label).unwrap()));
            assert_eq!(format!("{label}#{}", "a5".repeat(20)).as_bytes(), token.as_bytes());
            assert_eq!(Some(label), token.owner());
            assert_eq!(Some(label), token.fingerprint().owner());
            assert_eq!(token.to_string(), token.fingerprint().to_string());
            assert_eq!(format!("Token({token})"), format!("{token:?}"));
            for shown in [token.to_string(), format!("{:?} {token:?}", token.fingerprint())] {
                assert!(shown.contains(&format!("{label}#")) && !shown.contains("a5a5"), "{shown}");
            }
        }
    }

    #[test]
    fn tokens_of_another_format_have_no_label() {
        let random = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Some("a"), Token::from_bytes(format!("a#{random}")).owner());
        for foreign in [
            String::new(),
            random.to_owned(),
            format!("#{random}"),
            format!("a-{random}"),
            format!("a#b#{random}"),
            format!("a b#{random}"),
            format!("a#{}", random.to_uppercase()),
            format!("a#{random}0"),
            format!("{}#{random}", "x".repeat(65)),
        ] {
            assert_eq!(None, Token::from_bytes(&foreign).owner(), "{foreign}");
        }
        assert_eq!(None, Token::from_bytes([b"\xff#", random.as_bytes()].concat()).owner());
    }

    #[test]
    fn readers_together_have_no_fingerprint_to_compare() {
        let readers = Token::of_readers();
        assert_eq!(["readers", "readers"], [readers.to_string(), readers.fingerprint().to_string()]);
        let named = Token::from_bytes(format!("readers#{}", "1".repeat(40))).to_string();
        assert!(named.starts_with("readers#"), "{named}");
    }

    #[test]
    fn fingerprints_are_stable_and_distinguish_tokens() {
        assert_eq!(Token::from_bytes("a").fingerprint(), Token::from_bytes("a").fingerprint());
        assert_ne!(Token::from_bytes("a").fingerprint(), Token::from_bytes("b").fingerprint());
    }
}
