//! The order of the requests that wait for a key, on the wire.
//!
//! A server keeps the places of the waiting requests in a sorted set: the key of the resource with the suffix `#waiting`.
//! If the scripts lack the rights to it, there is no order. The key is not among the keys of the scripts, because a server
//! would then reject the release of a client without these rights.

use std::borrow::Cow;
use std::time::Duration;

use redlock_core::node::Place;

use crate::script::{Script, ScriptArgs, number, script};

pub(crate) static ACQUIRE: Script = script!(
    "scripts/readers.lua",
    "scripts/places.lua",
    "scripts/turn_begin.lua",
    "scripts/acquire.lua",
    "scripts/turn_end.lua"
);
pub(crate) static ACQUIRE_FENCED: Script = script!(
    "scripts/places.lua",
    "scripts/turn_begin.lua",
    "scripts/fence/acquire_one.lua",
    "scripts/readers.lua",
    "scripts/fence/look.lua",
    "scripts/fence/acquire.lua",
    "scripts/turn_end.lua"
);
pub(crate) static SHARE: Script = script!(
    "scripts/readers.lua",
    "scripts/places.lua",
    "scripts/turn_begin.lua",
    "scripts/share.lua",
    "scripts/turn_end.lua"
);

/// The end of the name of the key that has the places.
const SUFFIX: &[u8] = b"#waiting";

/// Returns whether a key is that of places. Such a resource cannot be locked.
pub(crate) fn is_of_places(name: &[u8]) -> bool {
    name.ends_with(SUFFIX)
}

/// Adds a place to the arguments of a script.
pub(crate) fn add<'a>(args: &mut ScriptArgs<'a>, place: &'a Place) {
    let micros = |waited: Duration| u64::try_from(waited.as_micros()).unwrap_or(LONGEST).min(LONGEST);
    let waited = place.waited.map_or(Cow::Borrowed(&b"-1"[..]), |waited| number(micros(waited)));
    let reserved = u64::try_from(place.reserved_for.as_millis()).unwrap_or(LONGEST).clamp(1, LONGEST);
    args.args.extend([Cow::Borrowed(place.id.as_bytes()), waited, number(reserved)]);
}

/// The longest time in its unit. It is far below the values at which a server overflows, and at which its scripts count
/// inexactly.
const LONGEST: u64 = 1 << 42;
