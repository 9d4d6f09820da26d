//! The bytes of a server: no panic, and the decoder reads every reply exactly as far as the scanner has measured it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_wire::{Scanner, decode};

fuzz_target!(|input: &[u8]| {
    let (mut scanner, mut start) = (Scanner::new(), 0);
    for end in 1..=input.len() {
        match scanner.scan(&input[end - 1..end]) {
            Err(_) => return,
            Ok(0) => {}
            Ok(_) => {
                // It may reject the reply, such as a number that is none.
                if let Some((_, size)) = decode(&input[start..]) {
                    assert_eq!(end - start, size);
                }
                start = end;
            }
        }
    }
});
