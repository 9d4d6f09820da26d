//! Traces as text.

use crate::node::Operation;
use crate::round::exploration::node::Key;
use crate::round::exploration::step::Step;
use crate::round::exploration::world::{Call, Message, World};
use crate::round::extend;

impl World {
    pub(super) fn describe(&self, step: Step) -> String {
        let request =
            |node: u8, request: u8| describe(&self.nodes[usize::from(node)].messages[usize::from(request)]);
        match step {
            Step::Attempt { client } => format!("{} begins an attempt", name(client)),
            Step::Cancel { client } => format!("{} drops its attempt", name(client)),
            Step::Extend { client } => format!("{} extends", name(client)),
            Step::Release { client } => format!("{} releases", name(client)),
            Step::Lapse { client } => format!("{}: a validity ends", name(client)),
            Step::Interrupt { client } => format!("the runtime of {} ends", name(client)),
            Step::Carry { node, request: of } => format!("n{node} carries out {}", request(node, of)),
            Step::CarryWithoutReply { node, request: of } => {
                format!("n{node} carries out {}, and its reply is lost", request(node, of))
            }
            Step::CarryTwice { node, request: of } => {
                format!("n{node} carries out {}, and a copy follows", request(node, of))
            }
            Step::FalseReply { node, request: of } => {
                format!("n{node} carries out {}, and replies with a false counter", request(node, of))
            }
            Step::Deny { node, request: of } => {
                format!("n{node} denies {}: a writer waits", request(node, of))
            }
            Step::DenyTwice { node, request: of } => {
                format!("n{node} denies {}: a writer waits, and a copy follows", request(node, of))
            }
            Step::Raise { node } => format!("a failed attempt raises the counter of n{node}"),
            Step::Reply { node, request: of } => {
                format!("the reply of n{node} to {} arrives", request(node, of))
            }
            Step::ReplyUncounted { node, request: of } => {
                format!("the reply of n{node} to {} arrives, in quarantine", request(node, of))
            }
            Step::Fail { node, request: of } => {
                format!("the reply of n{node} to {} will not arrive", request(node, of))
            }
            Step::Refuse { node, request: of } => format!("n{node} will not carry out {}", request(node, of)),
            Step::Break { client, node } => format!("the connection of {} to n{node} breaks", name(client)),
            Step::Expire { node, key } => {
                let Key { client, attempt, .. } = self.nodes[usize::from(node)].keys[usize::from(key)];
                format!("the key of {}{} on n{node} expires", name(client), attempt + 1)
            }
        }
    }
}

/// Describes a request like `acquire A1`, or `extend A1 (2)` in the second extension.
fn describe(message: &Message) -> String {
    let kind = match (message.call, message.request.operation()) {
        (Call::Extend(_, extend::Lane::Refill), _) => "refill",
        (_, Operation::Acquire) => "acquire",
        (_, Operation::Confirm) => "confirm",
        (_, Operation::Extend) => "extend",
        _ => "release",
    };
    let copy = if message.is_copy { "the copy of " } else { "" };
    let extension = match message.call {
        Call::Extend(number @ 2.., _) => format!(" ({number})"),
        _ => String::new(),
    };
    format!("{copy}{kind} {}{}{extension}", name(message.client), message.attempt + 1)
}

fn name(client: u8) -> char {
    char::from(b'A' + client)
}
