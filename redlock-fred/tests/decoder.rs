//! What the relay accepts as a complete reply, fred's decoder reads as one, whole and at once: it never waits for more.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use bytes::BytesMut;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode_bytes_mut as resp2;
use redis_protocol::resp3::decode::streaming::decode_bytes_mut as resp3;
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
fn replies(bytes: &[u8], nulls: bool) -> Vec<&[u8]> {
    let mut scanner = Scanner::new();
    scanner.accept_null_lengths(nulls);
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

/// Whether a decoder took all of it as one reply that is not the beginning of a stream, or refused it.
fn whole(reply: &[u8], resp3_alone: bool) -> bool {
    let buffer = || BytesMut::from(reply);
    let in_resp3 = match resp3(&mut buffer()) {
        Ok(Some((frame, taken, _))) => taken == reply.len() && !frame.is_streaming(),
        Ok(None) => false,
        Err(_) => true,
    };
    match resp2(&mut buffer()) {
        _ if resp3_alone => in_resp3,
        Ok(Some((_, taken, _))) => taken == reply.len(),
        Ok(None) => false,
        Err(_) => in_resp3, // as fred does it
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_reply_that_is_complete_here_is_complete_there(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
        resp3_alone in any::<bool>(),
    ) {
        let bytes = pieces.concat();
        for reply in replies(bytes.as_bytes(), !resp3_alone) {
            prop_assert!(whole(reply, resp3_alone), "{:?}", String::from_utf8_lossy(reply));
        }
    }
}
