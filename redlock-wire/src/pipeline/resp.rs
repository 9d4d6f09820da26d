//! Reads replies in their wire format.
//!
//! The bytes come from a [`Scanner`](crate::Scanner), which has bounded their size and depth and has found where they
//! end. Tests compare the result with the decoder of the redis client.

use std::str;

use crate::message::Reply;

/// Reads the first reply of `bytes`. Returns it, and the number of its bytes.
///
/// `bytes` must begin with a reply that is complete for a [`Scanner`](crate::Scanner). Pushes are arrays.
///
/// Returns `None` if it is not a reply, such as a number that is none.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Reply, usize)> {
    let mut rest = bytes;
    let reply = next(&mut rest)?;
    Some((reply, bytes.len() - rest.len()))
}

fn next(bytes: &mut &[u8]) -> Option<Reply> {
    let (kind, line) = line(bytes)?;
    Some(match kind {
        b'_' => Reply::Nil,
        b':' => Reply::Int(number(line)?),
        b'#' => match line {
            b"t" => Reply::Int(1),
            b"f" => Reply::Int(0),
            _ => return None,
        },
        b'+' | b',' | b'(' => Reply::Bytes(line.to_vec()),
        b'-' => Reply::Error(text(line)),
        b'$' | b'!' | b'=' => {
            let Length::Of(length) = length(line)? else { return Some(Reply::Nil) };
            let string = bytes.get(..length)?;
            *bytes = bytes.get(length + 2..)?; // the line end
            match kind {
                b'!' => Reply::Error(text(string)),
                // Behind the format of three characters and a colon.
                b'=' if string.get(3) == Some(&b':') => Reply::Bytes(string[4..].to_vec()),
                b'=' => return None,
                _ => Reply::Bytes(string.to_vec()),
            }
        }
        b'*' | b'~' | b'>' | b'%' => {
            let Length::Of(length) = length(line)? else { return Some(Reply::Nil) };
            let length = if kind == b'%' { 2 * length } else { length };
            // Not reserved in advance: the elements decide.
            let mut elements = Vec::new();
            for _ in 0..length {
                elements.push(next(bytes)?);
            }
            Reply::Array(elements)
        }
        _ => return None,
    })
}

/// Takes a line. Returns its first byte, and the rest without its line end.
fn line<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (kind, after) = bytes.split_first()?;
    let mut end = after.iter().position(|byte| *byte == b'\r')?;
    while after.get(end + 1)? != &b'\n' {
        end += 1 + after[end + 1..].iter().position(|byte| *byte == b'\r')?;
    }
    *bytes = &after[end + 2..];
    Some((*kind, &after[..end]))
}

enum Length {
    Of(usize),
    Null,
}

fn length(line: &[u8]) -> Option<Length> {
    match number(line)? {
        -1 => Some(Length::Null),
        length => usize::try_from(length).ok().map(Length::Of),
    }
}

fn number(line: &[u8]) -> Option<i64> {
    str::from_utf8(line).ok()?.parse().ok()
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}
