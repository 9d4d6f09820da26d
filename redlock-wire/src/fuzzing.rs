//! Entry points for the fuzz targets of this repository. Not a public interface: it changes without notice.

use redlock_core::IntoResources;
use redlock_core::node::{Claim, Token};

use crate::connection::Reply;
use crate::{handshake, reply};

/// Interprets the replies as those to every command. Returns all error messages.
#[must_use]
pub fn messages(replies: &[Reply]) -> Vec<String> {
    let resources = ["a", "b"].into_resources().unwrap_or_else(|error| unreachable!("{error}"));
    let claim = Claim::new(resources, Token::from_bytes("mine"));
    let mut messages = Vec::new();
    for one in replies {
        let votes = [
            reply::set_get(one.clone(), &claim),
            reply::set(one),
            reply::get(one.clone(), &claim),
            reply::counted(one, &claim),
            reply::confirmed(one, &claim),
            reply::verdict(one, &claim),
        ];
        messages.extend(votes.into_iter().filter_map(Result::err).map(|error| error.to_string()));
        messages
            .extend(reply::holding(one.clone(), &claim.resources()[0]).err().map(|error| error.to_string()));
    }
    messages.extend(reply::availability(replies).err().map(|error| error.to_string()));
    messages
}

/// Reads a reply to `INFO server`, and returns its description of the server.
#[must_use]
pub fn server(info: &[u8]) -> String {
    format!("{:?}", handshake::described(&String::from_utf8_lossy(info), Ok(())))
}
