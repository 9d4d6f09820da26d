//! The comparison: one command that shows whether a server may have lost locks since the last look, and its clock.
//!
//! It takes half the CPU time of a look.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::connection::Connection;
use crate::script::{Script, ScriptArgs, script};
use crate::stamp::StampKey;

static COMPARE: Script = script!("../scripts/compare.lua");

/// A comparison that is to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) stamp: StampKey,
    /// True if it reads the clock.
    pub(crate) reads_clock: bool,
}

impl Comparison {
    /// Returns the comparison by the SHA-1 of its script.
    pub(crate) fn short<C: Connection>(self) -> C::Packed {
        self.call::<C>("EVALSHA", &COMPARE.sha)
    }

    /// Returns the comparison with the text of its script.
    pub(crate) fn full<C: Connection>(self) -> C::Packed {
        self.call::<C>("EVAL", COMPARE.text)
    }

    fn call<C: Connection>(self, name: &'static str, script: &str) -> C::Packed {
        let reads_clock: &[u8] = if self.reads_clock { b"1" } else { b"0" };
        let (keys, args) = ([self.stamp.name()], [Cow::Borrowed(reads_clock)]);
        ScriptArgs { keys: SmallVec::from(keys), args: SmallVec::from_iter(args) }.call::<C>(name, script)
    }
}
