//! Rounds, driven by hand.
