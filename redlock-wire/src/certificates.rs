//! The certificates of TLS connections, as text.

use std::fmt;

/// Certificates in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// The trusted root certificates; `None` for those of the system.
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) identity: Option<Identity>,
}

/// The certificate of the client with its key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Shows which certificates are set, and no content.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("roots", &self.roots.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}
