//! The turns that a waiter has missed.

use crate::order::scope::{CLIENTS, NODES};
use crate::order::state::{Client, Key, State};

/// Counts the turn of a client for each waiter that has been overtaken.
pub(crate) fn note_overtaken(state: &mut State, winner: usize) {
    let Client { plain, requests, begins, .. } = state.clients[winner];
    let began = |client: &Client| client.begins[usize::from(client.requests.max(1)) - 1];
    let own = begins[usize::from(requests) - 1];
    let opened = state.opened;
    for client in state.clients.iter_mut().filter(|client| client.entered && began(client) < own) {
        if plain {
            state.barged |= !opened;
        } else {
            client.overtaken = (client.overtaken + 1).min(7);
        }
    }
}

/// Notes which places are entered on all nodes.
pub(crate) fn note_entered(state: &mut State) {
    for number in 0..CLIENTS {
        let place = state.place(number);
        let known = |node: usize| {
            let mut node = state.nodes[node];
            node.key == Key::Reserved(place) || *node.entry(place) > 0
        };
        let entered = state.is_living(place) && (0..NODES).all(known);
        state.clients[number].entered |= entered;
    }
}
