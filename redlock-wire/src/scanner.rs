//! Bounds on what a server may send.
//!
//! A client's decoder believes the server: it buffers a reply until it is complete, however long that takes, and some
//! decoders recurse into nested replies until the stack ends. A [`Scanner`] reads the same bytes before the decoder does
//! and rejects replies that are too large or too deep. It accepts only what it can measure, so that a decoder never
//! waits for the end of a reply whose end the scanner has already seen. Attributes are among what it rejects: no command of a
//! lock is answered with one, and decoders disagree about a null behind them.

use std::error::Error;
use std::fmt;

/// The largest reply that a server may send, in bytes. The replies to the commands of a lock have less than 10 KB.
pub const MAX_REPLY_BYTES: usize = 1 << 20;

/// How deep the arrays, maps, sets and pushes of a reply may be nested.
pub const MAX_REPLY_DEPTH: usize = 8;

/// An element of a reply has at least so many bytes: `_\r\n`.
const SMALLEST: usize = 3;

/// Measures a stream of replies, in RESP2 or RESP3, as its bytes arrive. No I/O, and no allocation.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    /// The bytes of the reply so far.
    size: usize,
    /// How many elements are missing at each level, the outermost first.
    missing: [usize; MAX_REPLY_DEPTH],
    depth: usize,
    nulls: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next byte says what follows.
    Kind,
    /// Within a line that has no length. Whether the last byte was a carriage return.
    Line { cr: bool },
    /// Within the length of something.
    Length { kind: u8, length: Option<usize> },
    /// Behind the minus sign of a length: its other bytes.
    Null(&'static [u8]),
    /// Behind a length and its carriage return.
    LengthEnd { kind: u8, length: usize },
    /// Within a string: so many bytes are left, its line end included.
    Bytes(usize),
}

impl Scanner {
    /// A scanner before the first byte of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Kind, size: 0, missing: [0; MAX_REPLY_DEPTH], depth: 0, nulls: true }
    }

    /// Whether `$-1` and `*-1` are accepted, which stand for null in RESP2. The default is `true`. There are decoders
    /// that take them for the beginning of a stream in RESP3, where no server sends them.
    pub fn accept_null_lengths(&mut self, accept: bool) {
        self.nulls = accept;
    }

    /// Reads the next bytes of the connection. Returns how many of them belong to replies that are complete now: the
    /// position behind the last one, or 0 if no reply ended in `bytes`.
    ///
    /// # Errors
    ///
    /// A [`Violation`] if a reply is too large, too deep or no RESP. The connection is of no use any more.
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

    /// Whether the last byte was the end of a reply.
    fn between(&self) -> bool {
        self.depth == 0 && matches!(self.state, State::Kind)
    }

    /// Reads at least one of `bytes`, which has one. Returns how many.
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

    /// An aggregate begins.
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

    /// A value has ended, and with it every aggregate whose last element it is.
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

/// Why a connection is given up: what its server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A reply of more than [`MAX_REPLY_BYTES`], or one that says that it will be.
    TooLarge,
    /// A reply that is nested deeper than [`MAX_REPLY_DEPTH`].
    TooDeep,
    /// Bytes that are no reply.
    Malformed,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the server sent a reply of more than {MAX_REPLY_BYTES} bytes"),
            Self::TooDeep => {
                write!(f, "the server sent a reply that is nested more than {MAX_REPLY_DEPTH} deep")
            }
            Self::Malformed => f.write_str("the server sent something that is no reply of Redis"),
        }
    }
}

impl Error for Violation {}

#[cfg(test)]
mod tests;
