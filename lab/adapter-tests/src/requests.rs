//! Requests over a single connection, without a node.

use redlock_testkit::RedisServer;
use redlock_wire::{Command, Connection, Failure, Reply};

use crate::wait::until;

/// Returns the command that sets an absent key for a minute.
pub fn set<'a>(key: &'a [u8], value: &'a [u8], get: bool) -> Command<'a> {
    Command::SetIfAbsent { key, value, millis: 60_000, get }
}

/// Returns any other command.
pub fn other<'a>(name: &'static str, args: &'a [&'a [u8]]) -> Command<'a> {
    Command::Other { name, args }
}

/// Returns a reply with a string.
pub fn bytes(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bytes(text.as_ref().to_vec())
}

/// Sends a command.
///
/// # Errors
///
/// Same as [`Connection::call`].
pub fn call<'a, C: Connection>(
    connection: &'a C,
    command: Command<'_>,
) -> impl Future<Output = Result<Reply, Failure>> + use<'a, C> {
    connection.call(C::pack(command))
}

/// Sends commands as one pipeline.
///
/// # Errors
///
/// Same as [`Connection::pipeline`].
pub async fn pipeline<C: Connection>(
    connection: &C,
    commands: &[Command<'_>],
) -> Result<Vec<Reply>, Failure> {
    connection.pipeline(commands.iter().map(|command| C::pack(*command)).collect()).await
}

/// Returns a line of `CLIENT LIST` for each client of a server, except those that list the clients.
pub fn clients(server: &RedisServer) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]);
    list.lines().filter(|line| !line.contains("cmd=client|list")).map(str::to_owned).collect()
}

/// Waits until a server has a single client, and returns its line of `CLIENT LIST`.
pub async fn only_client(server: &RedisServer) -> String {
    until(async || clients(server).len() == 1).await;
    clients(server).remove(0)
}
