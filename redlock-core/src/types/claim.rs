//! The subject of a request: the resources, and the token that claims them.

use std::sync::Arc;

use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;

/// One or more resources, and the token that identifies their holder.
///
/// Clones share both.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Claim(Arc<(Resources, Token)>);

impl Claim {
    /// Creates a claim on `resources` with `token`.
    pub fn new(resources: Resources, token: Token) -> Self {
        Self(Arc::new((resources, token)))
    }

    /// Returns the claimed resources: at least one, sorted, all different.
    pub fn resources(&self) -> &[Resource] {
        &self.0.0
    }

    /// Returns the value of every key.
    pub fn token(&self) -> &Token {
        &self.0.1
    }

    pub(crate) fn all_resources(&self) -> &Resources {
        &self.0.0
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("resources", &self.0.0).field("token", &self.0.1).finish()
    }
}
