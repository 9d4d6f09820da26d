//! A reply that the relay accepts as complete is one complete reply for the decoder of fred.

use bytes::BytesMut;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode_bytes_mut as resp2;
use redis_protocol::resp3::decode::streaming::decode_bytes_mut as resp3;
use redlock_adapter_tests::decoder::{PIECES, replies};
use redlock_wire::Scanner;

/// Returns whether the decoder reads all bytes as one reply, or rejects them.
///
/// A reply that is the start of a stream does not count.
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
    fn a_reply_that_is_complete_for_the_scanner_is_complete_for_the_decoder(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
        resp3_alone in any::<bool>(),
    ) {
        let bytes = pieces.concat();
        let mut scanner = Scanner::new();
        scanner.accept_null_lengths(!resp3_alone);
        for reply in replies(scanner, bytes.as_bytes()) {
            prop_assert!(whole(reply, resp3_alone), "{:?}", String::from_utf8_lossy(reply));
        }
    }
}
