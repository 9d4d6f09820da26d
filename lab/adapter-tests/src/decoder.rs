//! Input for tests that compare the scanner of replies with the decoder of a client.

use redlock_wire::Scanner;

/// Pieces of replies, valid and invalid.
pub const PIECES: &[&str] = &[
    "*0\r\n",
    "*1\r\n",
    "*2\r\n",
    "%0\r\n",
    "%1\r\n",
    "|0\r\n",
    "|1\r\n",
    "~0\r\n",
    "~1\r\n",
    ">0\r\n",
    ">1\r\n",
    ">2\r\n",
    "$3\r\nabc\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "_\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "(12\r\n",
    ":1\r\n",
    "+ok\r\n",
    "-ERR x\r\n",
    "=7\r\ntxt:abc\r\n",
    "=2\r\nab\r\n",
    "!3\r\nERR\r\n",
    "+\r",
    "\r\n",
    "\n",
    "$3\r\n",
    "$2\r\nabc",
    "x",
    "$?\r\n",
    "*?\r\n",
    ";1\r\na\r\n",
    ".\r\n",
    "01\r\n",
    "-",
    "H",
];

/// Returns the replies that the scanner finds in `bytes` before it rejects the rest.
pub fn replies(mut scanner: Scanner, bytes: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut start) = (Vec::new(), 0);
    for end in 1..=bytes.len() {
        match scanner.scan(&bytes[end - 1..end]) {
            Err(_) => break,
            Ok(0) => {}
            Ok(_) => {
                found.push(&bytes[start..end]);
                start = end;
            }
        }
    }
    found
}
