//! Converts values and errors of the client, from a connection of the application, to the types of the wire.
//!
//! An error reply of the server is a reply, wherever the client puts it. Any other error means that there is no reply.
//! The command may then have been sent, unless the connection was known to be lost before.

use redis::{RedisError, ServerError, Value};
use redlock_wire::{Failure, Reply};

/// Converts a value of the client to a reply.
pub(crate) fn of_value(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::Boolean(truth) => Reply::Int(truth.into()),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Double(number) => Reply::Bytes(number.to_string().into_bytes()),
        Value::Array(values) | Value::Set(values) | Value::Push { data: values, .. } => of_values(values),
        Value::Map(pairs) => of_values(pairs.into_iter().flat_map(|(key, value)| [key, value])),
        Value::Attribute { data, .. } => of_value(*data),
        Value::ServerError(error) => Reply::Error(text(&error)),
        // Big numbers, in the form that the client was compiled with: no command here returns one.
        other => Reply::Bytes(format!("{other:?}").into_bytes()),
    }
}

fn of_values(values: impl IntoIterator<Item = Value>) -> Reply {
    Reply::Array(values.into_iter().map(of_value).collect())
}

/// Converts the client's error after a command was passed to it.
pub(crate) fn of_error(error: &RedisError) -> Result<Reply, Failure> {
    match server_error(error) {
        Some(text) => Ok(Reply::Error(text)),
        None => Err(Failure::maybe_sent(&error.to_string())),
    }
}

/// Returns the text of an error reply; `None` if the error is not from the server.
fn server_error(error: &RedisError) -> Option<String> {
    let errors = error.clone().into_server_errors()?;
    errors.first().map(|(_, error)| text(error))
}

/// Returns the error as it was on the wire.
fn text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use redis::ErrorKind;
    use redlock_wire::Sent;

    use super::*;

    /// Parses bytes from the wire with the client.
    fn parsed(wire: &str) -> Value {
        redis::parse_redis_value(wire.as_bytes()).unwrap()
    }

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn replies_of_every_shape() {
        let of = |wire| of_value(parsed(wire));
        assert_eq!(Reply::Nil, of("$-1\r\n"));
        assert_eq!(Reply::Nil, of("_\r\n"));
        assert_eq!(Reply::Int(-7), of(":-7\r\n"));
        assert_eq!(Reply::Int(1), of("#t\r\n"));
        assert_eq!(bytes("OK"), of("+OK\r\n"));
        assert_eq!(bytes("QUEUED"), of("+QUEUED\r\n"));
        assert_eq!(bytes("a\r\n"), of("$3\r\na\r\n\r\n"));
        assert_eq!(bytes("run_id:1"), of("=12\r\ntxt:run_id:1\r\n"));
        assert_eq!(bytes("1.5"), of(",1.5\r\n"));
        assert_eq!(
            Reply::Array(vec![Reply::Int(-1), Reply::Array(vec![Reply::Nil])]),
            of("*2\r\n:-1\r\n*1\r\n_\r\n")
        );
        assert_eq!(Reply::Array(vec![bytes("k"), Reply::Int(1)]), of("%1\r\n+k\r\n:1\r\n"));
        assert_eq!(Reply::Array(vec![bytes("k")]), of("~1\r\n+k\r\n"));
    }

    #[test]
    fn errors_of_the_server_keep_their_text() {
        for text in [
            "WRONGTYPE Operation against a key",
            "NOSCRIPT No matching script.",
            "OOM command not allowed: no",
            "ERR unknown command 'X'",
            "READONLY You can't write",
            "LOADING Redis is loading",
            "NOPERM no",
            "BUSY",
        ] {
            let value = parsed(&format!("-{text}\r\n"));
            assert_eq!(Reply::Error(text.into()), of_value(value.clone()));
            let error = value.extract_error().unwrap_err();
            assert_eq!(Reply::Error(text.into()), of_error(&error).unwrap());
        }
    }

    #[test]
    fn after_an_error_that_is_not_the_servers_the_outcome_is_unknown() {
        for error in [
            RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
            RedisError::from((ErrorKind::Parse, "nonsense")),
            RedisError::from((ErrorKind::Client, "anything")),
        ] {
            assert_eq!(Sent::Maybe, of_error(&error).unwrap_err().sent);
        }
    }
}
