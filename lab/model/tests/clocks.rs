//! Explorations of clocks that step or run fast in small scopes, of the broken variants of the guard, and of its known
//! holes. `scripts/exhaust clocks` explores large scopes.
