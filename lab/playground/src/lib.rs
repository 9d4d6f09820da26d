//! A page that runs the real lock in a simulated world with faults.
//!
//! `cargo run -p redlock-playground` starts a server on the loopback interface and prints its address. The real core
//! computes everything that the page shows, in simulated time. The scripts of the page only fetch, play and edit.
//!
//! A page shows one [`Subject`](subject::Subject): a [story](stories), a custom [`Setup`](setup::Setup), or a random run
//! of `scripts/simulate`. Its address contains the whole subject. [`view`] runs it and describes the result,
//! [`search`] looks for a seed that violates an invariant, and [`server`] has the routes.

pub mod search;
pub mod server;
pub mod setup;
pub mod stories;
pub mod subject;
pub mod view;
