//! A reply that the scanner accepts as complete is one complete reply for the decoder of the client.

use proptest::prelude::*;
use redis::{Parser, Value};
use redlock_adapter_tests::decoder::{PIECES, replies};
use redlock_wire::Scanner;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_reply_that_is_complete_for_the_scanner_is_complete_for_the_decoder(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
    ) {
        let bytes = pieces.concat();
        for reply in replies(Scanner::new(), bytes.as_bytes()) {
            let followed = [reply, b":7\r\n"].concat();
            let (mut stream, mut parser) = (&followed[..], Parser::new());
            if parser.parse_value(&mut stream).is_ok() {
                let next = parser.parse_value(&mut stream);
                prop_assert!(matches!(next, Ok(Value::Int(7))), "{:?}: {next:?}", String::from_utf8_lossy(reply));
            } else {
                // The decoder rejected the bytes. More bytes do not change that.
                let more = [reply, &b":7\r\n".repeat(9)[..]].concat();
                prop_assert!(Parser::new().parse_value(&more[..]).is_err(), "{:?}", String::from_utf8_lossy(reply));
            }
        }
    }
}
