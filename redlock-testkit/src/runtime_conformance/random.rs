//! Random numbers: [`Runtime::fill_random`].

use std::collections::HashSet;
use std::sync::Arc;

use redlock_core::runtime::Runtime;

pub(super) async fn random_numbers_differ(runtime: Arc<dyn Runtime>) {
    let draw = || {
        let mut bytes = [0; 16];
        runtime.fill_random(&mut bytes);
        bytes
    };
    let drawn: HashSet<_> = (0..100).map(|_| draw()).collect();
    assert_eq!(100, drawn.len(), "fill_random: 16 random bytes never repeat");
}

pub(super) async fn every_byte_is_random(runtime: Arc<dyn Runtime>) {
    for length in [0, 1, 7, 8, 20, 33] {
        let mut ever_set = vec![0; length];
        // A byte is zero in all draws with a probability of 2^-512.
        for _ in 0..64 {
            let mut bytes = vec![0; length];
            runtime.fill_random(&mut bytes);
            ever_set.iter_mut().zip(bytes).for_each(|(ever, byte)| *ever |= byte);
        }
        assert!(ever_set.iter().all(|byte| *byte != 0), "fill_random: all of {length} bytes are filled");
    }
}
