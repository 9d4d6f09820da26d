//! The login of a connection, and the callback that returns it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use redlock_core::runtime::BoxFuture;

use crate::text::sanitize;

/// A user and a password of a server.
///
/// `Debug` shows only the user.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Creates credentials.
    ///
    /// The user of a password that `requirepass` sets is `default`.
    ///
    /// ```
    /// # use redlock_wire::Credentials;
    /// let login = Credentials::new("locks", "secret");
    /// assert!(!format!("{login:?}").contains("secret"), "it stays out of logs");
    /// ```
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// Returns the user.
    ///
    /// ```
    /// # use redlock_wire::Credentials;
    /// let login = Credentials::new("locks", "secret");
    /// assert_eq!("locks", login.user());
    /// ```
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the password. Keep it out of logs.
    ///
    /// ```
    /// # use redlock_wire::Credentials;
    /// # let stored = Credentials::new("locks", "secret");
    /// # let fetched = Credentials::new("locks", "rotated");
    /// let is_rotated = stored.password() != fetched.password();
    /// assert!(is_rotated);
    /// ```
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

type Outcome = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// The callback that returns the credentials of each connection.
#[derive(Clone)]
pub(crate) struct Source(Arc<dyn Fn() -> BoxFuture<Outcome> + Send + Sync>);

impl Source {
    pub(crate) fn new<F, T>(source: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Outcome> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(source())))
    }

    /// Returns the credentials for a new connection. The error is the reason why there are none.
    pub(crate) async fn fetch(&self) -> Result<Credentials, String> {
        (self.0)().await.map_err(|error| sanitize(&format!("{UNAVAILABLE}: {error}")))
    }
}

/// The beginning of the reason if there are no credentials.
pub(crate) const UNAVAILABLE: &str = "credentials unavailable";
