//! Benchmarks of redlock; nothing to depend on. `cargo bench -p redlock-benches`.
