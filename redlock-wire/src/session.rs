//! A connection beside those of the nodes, for questions that are not about locks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::runtime::Runtime;

use crate::connection::{Connection, Connector};
use crate::credentials::Credentials;
use crate::fence::counter;
use crate::first::{First, first};
use crate::handshake::is_forbidden;
use crate::message::{Command, Reply};
use crate::options::{Keys, Options};
use crate::push::Hub;
use crate::secret::Secret;
use crate::sentinel::reach;

/// A separate connection to a server, for programs that check it.
///
/// It makes no handshake, so it also reaches servers that no node would use. Errors are texts that contain no password.
#[derive(Debug)]
pub struct Session<C> {
    connection: C,
    password: Password,
    keys: Arc<Keys>,
}

/// The password of the connection, which `Debug` does not show.
struct Password(Option<String>);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl<C: Connection> Session<C> {
    /// Connects and logs in, each within the connect timeout of `options`.
    ///
    /// # Errors
    ///
    /// The reason why there is no connection.
    pub async fn open(connector: &impl Connector<Connection = C>, options: &Options) -> Result<Self, String> {
        let login = within(&*options.runtime(), options.connect_timeout.get(), options.login()).await?;
        Self::connect(connector, login, options).await
    }

    /// Connects to a sentinel, with the login of its address. Credentials of `options` are those of the servers.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub async fn to_sentinel(
        sentinel: &impl Connector<Connection = C>,
        options: &Options,
    ) -> Result<Self, String> {
        Self::connect(sentinel, None, options).await
    }

    async fn connect(
        connector: &impl Connector<Connection = C>,
        login: Option<Credentials>,
        options: &Options,
    ) -> Result<Self, String> {
        let (runtime, limit) = (options.runtime(), options.connect_timeout.get());
        let password = login.as_ref().map(Credentials::password).or_else(|| connector.password());
        let password = Password(password.map(str::to_owned));
        let hub = Hub::default();
        let connecting = async {
            let reached = reach(connector, login.as_ref(), &hub).await;
            let reached = reached.map_err(|failure| password.secret().published(&failure.message));
            reached.map(|(connection, _)| connection)
        };
        let connection = within(&*runtime, limit, connecting).await;
        let connection = connection.map_err(|reason| reason + hub.unfinished())?;
        Ok(Self { connection, password, keys: options.keys.clone() })
    }

    /// Sends one command. An error reply is an error, as is a failure.
    ///
    /// # Errors
    ///
    /// The reason why there is no reply, or the error reply.
    pub async fn call(&self, name: &'static str, args: &[&[u8]]) -> Result<Reply, String> {
        match self.call_if_permitted(name, args).await? {
            Reply::Error(message) => Err(message),
            reply => Ok(reply),
        }
    }

    /// Sends one command that the user may lack the right to run, or that the server may not have.
    ///
    /// Such a denial is a [`Reply::Error`]. Every other error reply is an error, as is a failure.
    ///
    /// # Errors
    ///
    /// Same as [`call`](Self::call), except for a denial.
    pub async fn call_if_permitted(&self, name: &'static str, args: &[&[u8]]) -> Result<Reply, String> {
        let secret = self.password.secret();
        match self.connection.call(C::pack(Command::Other { name, args })).await {
            Ok(Reply::Error(message)) => {
                let published = secret.published(&message);
                if is_forbidden(&message) { Ok(Reply::Error(published)) } else { Err(published) }
            }
            Ok(reply) => Ok(reply),
            Err(failure) => Err(secret.published(&failure.message)),
        }
    }

    /// Returns the key of a resource with this name.
    pub fn key(&self, name: &str) -> Vec<u8> {
        [&self.keys.prefix, name.as_bytes()].concat()
    }

    /// Returns the key of the fencing counter of a resource with this name.
    pub fn counter_key(&self, name: &str) -> Vec<u8> {
        counter(&self.keys.fence_prefix, &self.key(name))
    }
}

impl Password {
    fn secret(&self) -> Secret<'_> {
        Secret::of(self.0.as_deref())
    }
}

/// Returns the result of `work`, or an error after the limit.
async fn within<T>(
    runtime: &dyn Runtime,
    limit: Duration,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    match first(pin!(work), runtime.sleep(limit)).await {
        First::Left(result) => result,
        First::Right(()) => Err(format!("no reply for {limit:.1?}")),
    }
}
