//! The comparison: one command that shows whether a server may have lost locks since the last look, and its clock.
//!
//! It costs a server half of a look.

use std::time::Duration;

use crate::clock;
use crate::connection::Connection;
use crate::message::{Command, Reply};
use crate::script::{Script, script};
use crate::stamp::StampKey;

static COMPARE: Script = script!("../scripts/compare.lua");

/// Returns the comparison by the SHA-1 of its script.
pub(crate) fn short<C: Connection>(stamp: StampKey) -> C::Packed {
    call::<C>("EVALSHA", &COMPARE.sha, stamp)
}

/// Returns the comparison with the text of its script.
pub(crate) fn full<C: Connection>(stamp: StampKey) -> C::Packed {
    call::<C>("EVAL", COMPARE.text, stamp)
}

fn call<C: Connection>(name: &'static str, script: &str, stamp: StampKey) -> C::Packed {
    C::pack(Command::Other { name, args: &[script.as_bytes(), b"1", &stamp.name()] })
}

/// Returns the time that the clock of the server showed; `None` if it must not be read.
pub(crate) fn time(reply: &Reply) -> Option<Duration> {
    match reply {
        Reply::Array(parts) => clock::time(parts.last()?),
        _ => None,
    }
}
