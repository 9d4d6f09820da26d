//! Entry points for the fuzz targets and the simulation of this repository. Not a public interface: it changes without
//! notice.

mod admission;

use redlock_core::IntoResources;
use redlock_core::node::{Claim, Token};

pub use self::admission::{BegunLook, NodeAdmission};
use crate::admission::look;
use crate::message::Reply;
use crate::{commands, fence, handshake, places, reply};

/// Interprets the replies as those to every command. Returns all error messages.
#[must_use]
pub fn messages(replies: &[Reply]) -> Vec<String> {
    let resources = ["a", "b"].into_resources().unwrap_or_else(|error| unreachable!("{error}"));
    let claim = Claim::new(resources, Token::from_bytes("mine"));
    let mut messages = Vec::new();
    for one in replies {
        let errors = [
            reply::set_get(one.clone(), &claim).err(),
            reply::set(one).err(),
            reply::get(one.clone(), &claim).err(),
            reply::vote(one, &claim).err(),
            reply::fenced_vote(one, &claim).err(),
            reply::confirm_vote(one, &claim).err(),
            reply::deleted(one).err(),
            reply::holding(one.clone(), &claim.resources()[0]).err(),
        ];
        messages.extend(errors.into_iter().flatten().map(|error| error.to_string()));
    }
    let watches = [reply::availability(replies).err(), reply::shared_availability(replies).err()];
    messages.extend(watches.into_iter().flatten().map(|error| error.to_string()));
    messages
}

/// Reads a reply to `INFO server`, and returns its description of the server.
#[must_use]
pub fn server(info: &[u8]) -> String {
    format!("{:?}", handshake::described(&String::from_utf8_lossy(info), Ok(())))
}

/// Returns the scripts by name. They are what the simulated servers of the laboratory run.
#[must_use]
pub fn scripts() -> [(&'static str, &'static str); 13] {
    [
        ("acquire", commands::ACQUIRE.text),
        ("acquire_in_turn", places::ACQUIRE.text),
        ("extend", commands::EXTEND.text),
        ("release", commands::RELEASE.text),
        ("inspect", commands::INSPECT.text),
        ("keep", commands::KEEP.text),
        ("share", commands::SHARE.text),
        ("share_in_turn", places::SHARE.text),
        ("acquire_fenced", fence::ACQUIRE.text),
        ("acquire_fenced_in_turn", places::ACQUIRE_FENCED.text),
        ("confirm", fence::CONFIRM.text),
        ("refill", fence::REFILL.text),
        ("admission", look::LOOK.text),
    ]
}
