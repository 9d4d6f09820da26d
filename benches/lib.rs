//! Benchmarks of redlock.
