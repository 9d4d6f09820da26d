//! Replies of a server to every command: no panic, and messages that are short and hold no token.
//!
//! The input is close to RESP, so that the corpus can be read and written by hand. Each line is a reply: `_` is nil, `:7` an
//! integer, `$text` a string, `-text` an error, and `*3` an array of the next three.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_wire::Reply;
use redlock_wire::fuzzing::messages;

/// The maximum nesting of a reply. Clients reject deeper ones.
const DEEPEST: usize = 100;

/// The maximum length of a message in bytes.
const LONGEST: usize = 4096;

/// A token.
const SECRET: &str = "hunter2";

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut replies = Vec::new();
    while let Some(reply) = next(&mut lines, 0) {
        replies.push(reply);
    }
    for message in messages(&replies) {
        assert!(message.len() <= LONGEST, "a message of {} bytes", message.len());
        assert!(!message.contains(SECRET), "{message}");
    }
});

fn next<'a>(lines: &mut impl Iterator<Item = &'a [u8]>, depth: usize) -> Option<Reply> {
    let (kind, rest) = lines.next()?.split_first()?;
    let number = || std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
    Some(match kind {
        b'_' => Reply::Nil,
        b':' => Reply::Int(number()?),
        // Errors may be shown; strings may not.
        b'-' => Reply::Error(String::from_utf8_lossy(rest).replace(SECRET, "")),
        b'*' if depth < DEEPEST => {
            let mut replies = Vec::new();
            for _ in 0..number()? {
                // An array may end early, with the input.
                let Some(reply) = next(lines, depth + 1) else { break };
                replies.push(reply);
            }
            Reply::Array(replies)
        }
        _ => Reply::Bytes(rest.to_vec()),
    })
}
