//! A reply that the scanner accepts as complete is one complete reply for the decoder of the client, and the decoder of
//! the wire reads the same from it.

use proptest::prelude::*;
use redis::{Parser, Value};
use redlock_adapter_tests::decoder::{PIECES, replies};
use redlock_wire::{Reply, Scanner, decode};

/// Returns the reply that the client has decoded, or `None` if the wire has another form for it.
fn reply(value: Value) -> Option<Reply> {
    let all = |values: Vec<Value>| values.into_iter().map(reply).collect::<Option<_>>().map(Reply::Array);
    Some(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::Boolean(truth) => Reply::Int(truth.into()),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Double(number) => Reply::Bytes(number.to_string().into_bytes()),
        Value::Array(values) | Value::Set(values) => return all(values),
        Value::Map(pairs) => return all(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        Value::ServerError(error) => Reply::Error(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        }),
        // Pushes, whose kind the client separates, and big numbers.
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_reply_that_is_complete_for_the_scanner_is_complete_for_both_decoders(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
    ) {
        let bytes = pieces.concat();
        for reply_bytes in replies(Scanner::new(), bytes.as_bytes()) {
            let shown = String::from_utf8_lossy(reply_bytes);
            let followed = [reply_bytes, b":7\r\n"].concat();
            let (mut stream, mut parser) = (&followed[..], Parser::new());
            if let Ok(value) = parser.parse_value(&mut stream) {
                let next = parser.parse_value(&mut stream);
                prop_assert!(matches!(next, Ok(Value::Int(7))), "{shown:?}: {next:?}");
                if let Some(expected) = reply(value) {
                    prop_assert_eq!(Some((expected, reply_bytes.len())), decode(&followed), "{:?}", shown);
                }
            } else {
                // The decoder rejected the bytes. More bytes do not change that.
                let more = [reply_bytes, &b":7\r\n".repeat(9)[..]].concat();
                prop_assert!(Parser::new().parse_value(&more[..]).is_err(), "{shown:?}");
                // The wire may read them, but not more of them.
                if let Some((_, size)) = decode(&followed) {
                    prop_assert_eq!(reply_bytes.len(), size);
                }
            }
        }
    }
}
