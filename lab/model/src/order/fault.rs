//! The effects of faults.

use crate::order::client::end;
use crate::order::protocol::Turns;
use crate::order::scope::Fault;
use crate::order::state::{Fate, Key, Kind, Phase, State, Vote};

impl Turns {
    pub(crate) fn fault(self, state: &mut State, kind: Fault, client: usize, number: usize) {
        let node = &mut state.nodes[number];
        match kind {
            Fault::Late | Fault::Repeat | Fault::NoReply => {
                let Some(message) = node.links[client].take() else { return };
                if kind != Fault::NoReply {
                    node.links[client].stray = Some(message);
                }
                let granted = kind != Fault::Late && self.carry_out(state, number, client, message, 0);
                if kind == Fault::Repeat {
                    self.reply(state, number, client, message, granted);
                } else if state.is_awaited(client, message) {
                    state.nodes[number].links[client].vote = Vote::Failed;
                } else if kind == Fault::Late
                    && matches!(message.kind, Kind::Release { place, .. } if place != Fate::Left)
                {
                    state.nodes[number].links[client].release(message);
                }
            }
            Fault::Death => end(state, client, Phase::Dead),
            Fault::Pause => {
                node.key = Key::Absent;
                state.opened = true;
            }
            Fault::Loss => {
                (node.key, node.waiters) = Default::default();
                state.opened = true;
                for (client, owner) in state.clients.iter().enumerate() {
                    if matches!(owner.phase, Phase::Trying | Phase::Held) {
                        node.lost_by |= 1 << client;
                    }
                    let vote = &mut node.links[client].vote;
                    if *vote == Vote::Granted {
                        *vote = Vote::GrantedAndLost;
                    }
                }
            }
            Fault::LossOfWaiters => node.waiters = Default::default(),
            Fault::ClockStep => {
                for score in node.waiters.iter_mut().flatten().filter(|score| **score > 0) {
                    *score += 4;
                }
            }
        }
    }
}
