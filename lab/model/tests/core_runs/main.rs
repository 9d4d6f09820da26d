//! Every run of the real core is a run of the models.
//!
//! The clients of a run use the real core over the servers and the network of `lab/simulation`: over simulated nodes, and
//! over `redlock-wire` and servers that execute its scripts. Messages are late or lost. The history of a run is
//! translated into steps of a model, which must allow each of them. After each, the model must agree with the replies of
//! the servers, their keys, and the results of the clients.
//!
//! A test that accepts everything proves nothing. Thus the same runs are compared with the broken variants of each model.
//! Each variant must fail in some run, except those that only allow more than the rule: no run of a correct core can
//! differ from them.

mod accept;
mod admission;
mod calls;
mod change;
mod check;
mod client;
mod facts;
mod keep;
mod order;
mod world;
