//! Bounds on the replies of a server.
//!
//! A client's decoder trusts the server: it buffers a reply until it is complete, however long that takes. Some
//! decoders recurse into nested replies until the stack overflows. A [`Scanner`] reads the same bytes before the
//! decoder does and rejects replies that are too large or too deep.
//!
//! The scanner accepts only what it can measure. A decoder therefore never waits for the end of a reply that is
//! complete for the scanner. It also rejects attributes: no lock command returns one, and decoders disagree about a
//! null behind them.

use std::error::Error;
use std::fmt;

/// The largest reply that a server may send, in bytes.
///
/// Replies to lock commands have less than 10 KB.
pub const MAX_REPLY_BYTES: usize = 1 << 20;

/// The maximum nesting depth of the arrays, maps, sets and pushes of a reply.
pub const MAX_REPLY_DEPTH: usize = 8;

/// The smallest size of a reply's element in bytes: `_\r\n`.
const SMALLEST: usize = 3;

/// Measures a stream of RESP2 or RESP3 replies as its bytes arrive.
///
/// It does no I/O and no allocation.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    /// The number of bytes of the current reply so far.
    size: usize,
    /// The number of missing elements at each level, the outermost first.
    missing: [usize; MAX_REPLY_DEPTH],
    depth: usize,
    nulls: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next byte is the type of an element.
    Kind,
    /// Within a line without a length. `cr`: whether the last byte was a carriage return.
    Line { cr: bool },
    /// Within a length.
    Length { kind: u8, length: Option<usize> },
    /// Behind the minus sign of a length; the remaining bytes are expected.
    Null(&'static [u8]),
    /// Behind a length and its carriage return.
    LengthEnd { kind: u8, length: usize },
    /// Within a string. The number of bytes left, including its line end.
    Bytes(usize),
}

impl Scanner {
    /// Returns a scanner at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Kind, size: 0, missing: [0; MAX_REPLY_DEPTH], depth: 0, nulls: true }
    }

    /// Sets whether `$-1` and `*-1` are accepted, the nulls of RESP2.
    ///
    /// The default is `true`. Some decoders take them for the beginning of a stream in RESP3, where no server sends
    /// them.
    pub fn accept_null_lengths(&mut self, accept: bool) {
        self.nulls = accept;
    }

    /// Reads the next bytes, and returns how many of them belong to complete replies.
    ///
    /// The result is the position behind the last complete reply, or 0 if no reply ended in `bytes`.
    ///
    /// # Errors
    ///
    /// - A [`Violation`]: a reply is too large, too deep or not RESP. The connection is then unusable.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let (mut position, mut complete) = (0, 0);
        while position < bytes.len() {
            let taken = self.step(&bytes[position..])?;
            position += taken;
            self.size += taken;
            if self.size > MAX_REPLY_BYTES {
                return Err(Violation::TooLarge);
            }
            if self.between() {
                (self.size, complete) = (0, position);
            }
        }
        Ok(complete)
    }

    /// Returns whether the last byte was the end of a reply.
    fn between(&self) -> bool {
        self.depth == 0 && matches!(self.state, State::Kind)
    }

    /// Reads at least one of `bytes`, which must not be empty. Returns how many.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let byte = bytes[0];
        match self.state {
            State::Kind => {
                self.state = match byte {
                    b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => State::Line { cr: false },
                    b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' => {
                        State::Length { kind: byte, length: None }
                    }
                    _ => return Err(Violation::Malformed),
                };
            }
            State::Line { cr: true } if byte == b'\n' => self.ended(),
            State::Line { .. } => self.state = State::Line { cr: byte == b'\r' },
            State::Length { kind: b'$' | b'*', length: None } if byte == b'-' && self.nulls => {
                self.state = State::Null(b"1\r\n");
            }
            State::Length { kind, length } => {
                self.state = match (byte, length) {
                    (b'0'..=b'9', _) => {
                        let length = 10 * length.unwrap_or(0) + usize::from(byte - b'0');
                        if length > MAX_REPLY_BYTES {
                            return Err(Violation::TooLarge);
                        }
                        State::Length { kind, length: Some(length) }
                    }
                    (b'\r', Some(length)) => State::LengthEnd { kind, length },
                    _ => return Err(Violation::Malformed),
                }
            }
            State::Null(rest) => match rest.split_first() {
                Some((next, _)) if *next != byte => return Err(Violation::Malformed),
                Some((_, rest)) if !rest.is_empty() => self.state = State::Null(rest),
                _ => self.ended(),
            },
            State::LengthEnd { kind, length } => {
                if byte != b'\n' {
                    return Err(Violation::Malformed);
                }
                match kind {
                    b'$' | b'!' | b'=' => self.state = State::Bytes(length + 2),
                    b'%' => self.opened(2 * length)?,
                    _ => self.opened(length)?,
                }
            }
            State::Bytes(left) => {
                let taken = left.min(bytes.len());
                self.state = State::Bytes(left - taken);
                if left == taken {
                    self.ended();
                }
                return Ok(taken);
            }
        }
        Ok(1)
    }

    /// Starts an aggregate.
    fn opened(&mut self, elements: usize) -> Result<(), Violation> {
        if elements == 0 {
            self.ended();
            return Ok(());
        }
        if self.size + SMALLEST * elements > MAX_REPLY_BYTES {
            return Err(Violation::TooLarge);
        }
        let level = self.missing.get_mut(self.depth).ok_or(Violation::TooDeep)?;
        *level = elements;
        self.depth += 1;
        self.state = State::Kind;
        Ok(())
    }

    /// Ends a value, and every aggregate whose last element it is.
    fn ended(&mut self) {
        self.state = State::Kind;
        while let Some(level) = self.depth.checked_sub(1) {
            self.missing[level] -= 1;
            if self.missing[level] > 0 {
                break;
            }
            self.depth = level;
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

/// The reason for giving up a connection because of the server's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A reply of more than [`MAX_REPLY_BYTES`], or one that announces such a size.
    TooLarge,
    /// A reply that is nested deeper than [`MAX_REPLY_DEPTH`].
    TooDeep,
    /// Bytes that are not a reply.
    Malformed,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the server sent a reply of more than {MAX_REPLY_BYTES} bytes"),
            Self::TooDeep => {
                write!(f, "the server sent a reply that is nested more than {MAX_REPLY_DEPTH} levels deep")
            }
            Self::Malformed => f.write_str("the server sent data that is not a Redis reply"),
        }
    }
}

impl Error for Violation {}

#[cfg(test)]
mod tests;
