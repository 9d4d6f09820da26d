//! Checks recorded histories of locks, without any code of the library.
//!
//! Client processes record what they begin and what they learn, and the program that disturbs them records the faults
//! and the keys that are left on the servers at the end. All times are nanoseconds of `CLOCK_MONOTONIC` of one machine.
//!
//! ```text
//! clients/*.jsonl   an `Event` a line, one file for each process
//! faults.jsonl      a `FaultLine` a line
//! keys.jsonl        a `Key` a line
//! ```

mod check;
mod figures;
mod history;
mod hold;
mod keys;
mod line;
mod overlaps;
mod timeline;
mod tokens;
mod violation;

pub use crate::check::check;
pub use crate::figures::Figures;
pub use crate::history::History;
pub use crate::hold::{Hold, Interval};
pub use crate::line::{Action, Event, FaultKind, FaultLine, HoldId, Key, Mode, Phase};
pub use crate::timeline::{LEGEND, around, overview};
pub use crate::violation::Violation;
