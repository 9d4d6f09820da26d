//! The description that a server sends in the handshake: no panic, and short messages.
//!
//! The input is the reply to `INFO server`, of any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_wire::fuzzing::server;

/// The maximum length of a message in bytes.
const LONGEST: usize = 4096;

fuzz_target!(|info: &[u8]| {
    let text = server(info);
    assert!(text.len() <= LONGEST, "a description of {} bytes", text.len());
});
