//! The environment of the command.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::wire::Held;
use crate::request::Kind;
use crate::settings::SECRET_VARIABLES;

/// The variable with the holders under which a process runs, the outermost first. By this variable, a keeper also
/// recognizes processes that have outlived their supervisor.
pub(crate) const HOLDERS: &str = "REDLOCK_HOLDERS";

/// The variable with the names for which the runs around a process have read locks, one a line.
///
/// Servers name readers together, so the holders above are not enough to recognize a run that is nested in a reader.
const READ: &str = "REDLOCK_READ";

/// Returns the names for which the runs around this process have read locks.
pub(crate) fn read_names() -> Vec<Vec<u8>> {
    let names = env::var_os(READ).unwrap_or_default().into_vec();
    names.split(|byte| *byte == b'\n').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The facts about the lock that the command receives.
pub(crate) struct Environment<'a> {
    pub(crate) kind: Kind,
    pub(crate) resources: &'a [Vec<u8>],
    pub(crate) held: &'a Held,
    pub(crate) owner: &'a str,
    pub(crate) ttl: Duration,
    /// The value of [`HOLDERS`] on entry.
    pub(crate) holders: Option<&'a str>,
    pub(crate) pass_credentials: bool,
}

impl Environment<'_> {
    /// Returns the variables to set; `None` removes one.
    pub(crate) fn variables(&self) -> Vec<(&'static str, Option<OsString>)> {
        let Self { kind, resources, held, owner, ttl, holders, pass_credentials } = self;
        let text = |text: String| Some(OsString::from(text));
        let holders = holders.iter().copied().chain([held.holder.as_str()]).collect::<Vec<_>>().join(" ");
        let slot = held.slot.as_ref();
        let names = slot.map_or_else(|| resources.join(&b'\n'), |slot| slot.resource.clone());
        let mut variables = vec![
            ("REDLOCK_HELD", Some(OsString::from_vec(names))),
            ("REDLOCK_HOLDER", text(held.holder.clone())),
            (HOLDERS, text(holders)),
            ("REDLOCK_OWNER", text((*owner).to_owned())),
            ("REDLOCK_TTL_MS", text(ttl.as_millis().to_string())),
            ("REDLOCK_FENCING_TOKEN", held.fencing_token.and_then(|token| text(token.to_string()))),
            ("REDLOCK_SLOT", slot.and_then(|slot| text(slot.index.to_string()))),
        ];
        if *kind == Kind::Reader {
            let read = [read_names(), resources.to_vec()].concat().join(&b'\n');
            variables.push((READ, Some(OsString::from_vec(read))));
        }
        if !pass_credentials {
            variables.extend(
                SECRET_VARIABLES.map(|name| (name, None)).into_iter().filter(|(name, _)| is_secret(name)),
            );
        }
        variables
    }
}

/// The variables with lists of servers. A nested run needs both of them or none.
const LISTS: [&str; 2] = ["REDLOCK_NODES", "REDLOCK_PREVIOUS_NODES"];

/// Returns whether a variable contains a secret. Addresses without a password are not secret, and nested runs need
/// them.
fn is_secret(name: &str) -> bool {
    let has_login = |list: &&str| env::var_os(list).is_some_and(|nodes| has_login(&nodes));
    !LISTS.contains(&name) || LISTS.iter().any(has_login)
}

fn has_login(nodes: &OsStr) -> bool {
    let nodes = nodes.to_string_lossy();
    nodes.contains('@') || nodes.contains("pass=") || nodes.contains("sentinel_password=")
}
