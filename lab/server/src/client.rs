//! The state of one connection.

/// The number of a connection, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u64);

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // the switches are independent
pub(crate) struct Client {
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) resp3: bool,
    pub(crate) is_authenticated: bool,
    /// True if the server tracks keys that are named one by one (`OPTIN`).
    pub(crate) tracks: bool,
    /// True if the keys that the next command reads are tracked.
    pub(crate) caches: bool,
    /// The changes by the command in progress, which are pushed behind its reply.
    pub(crate) pending: Vec<Option<Vec<u8>>>,
}
