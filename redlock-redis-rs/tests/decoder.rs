//! What a connection accepts as a complete reply, the client's decoder reads as one, whole: it never waits for more.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use proptest::prelude::*;
use redis::{Parser, Value};
use redlock_wire::Scanner;

/// Pieces of replies, good and bad.
const PIECES: &[&str] = &[
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

/// The replies that the scanner finds in `bytes` before it rejects the rest.
fn replies(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut scanner, mut found, mut start) = (Scanner::new(), Vec::new(), 0);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_reply_that_is_complete_here_is_complete_there(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
    ) {
        let bytes = pieces.concat();
        for reply in replies(bytes.as_bytes()) {
            let followed = [reply, b":7\r\n"].concat();
            let (mut stream, mut parser) = (&followed[..], Parser::new());
            if parser.parse_value(&mut stream).is_ok() {
                let next = parser.parse_value(&mut stream);
                prop_assert!(matches!(next, Ok(Value::Int(7))), "{:?}: {next:?}", String::from_utf8_lossy(reply));
            } else {
                // Denied, and not for lack of bytes: more of them change nothing.
                let more = [reply, &b":7\r\n".repeat(9)[..]].concat();
                prop_assert!(Parser::new().parse_value(&more[..]).is_err(), "{:?}", String::from_utf8_lossy(reply));
            }
        }
    }
}
