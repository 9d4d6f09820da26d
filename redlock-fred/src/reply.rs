//! Converts fred's results to a [`Reply`] or a [`Failure`].
//!
//! fred uses one type, with overlapping kinds, for errors of the server and its own errors. The texts differ. fred
//! passes on the server's text unchanged, which begins with a code word in capitals (`OOM`, `NOSCRIPT`). Its own errors
//! are sentences, or the debug form of an `io::Error`. Only `CLUSTERDOWN` is ambiguous: fred drops the connection over
//! it, and copies the error of one command to all that were in flight.
//!
//! A command was not sent if fred reports that: fred cancels commands in its queue, and rejects commands that do not
//! fit into the queue. After any other error a command may have been sent.

use std::borrow::Cow;

use fred::error::{Error, ErrorKind};
use fred::types::{Resp3Frame, Value};
use redlock_wire::{Failure, Reply};

/// The error of a command for which there is no task any more.
const NO_RECEIVER: &str = "Failed to send command to router.";

/// The error of a command that was dropped without an outcome, together with the task.
const NO_SENDER: &str = "channel closed";

/// Converts the reply to a single command which fred has turned into a value.
pub(crate) fn of_value(reply: Result<Value, Error>) -> Result<Reply, Failure> {
    match reply {
        Ok(value) => Ok(from_value(value)),
        Err(error) if is_of_server(&error) => Ok(Reply::Error(error.details().to_owned())),
        Err(error) => Err(failure(&error)),
    }
}

/// Converts the replies to a pipeline. If it fails as a whole, fred returns a single error.
pub(crate) fn of_pipeline(
    replies: Vec<Result<Value, Error>>,
    commands: usize,
) -> Result<Vec<Reply>, Failure> {
    if replies.len() == commands {
        return replies.into_iter().map(of_value).collect();
    }
    let error = replies.into_iter().find_map(Result::err);
    Err(failure(&error.unwrap_or_else(|| Error::new(ErrorKind::Protocol, "replies are missing"))))
}

/// Converts the error of a command that was passed to fred.
pub(crate) fn failure(error: &Error) -> Failure {
    let unsent = matches!(error.kind(), ErrorKind::Canceled | ErrorKind::Backpressure)
        || error.details() == NO_RECEIVER;
    let text = text(error);
    if unsent { Failure::not_sent(&text) } else { Failure::maybe_sent(&text) }
}

/// Returns whether fred's task was dropped, before or after it received the command.
pub(crate) fn is_dropped(failure: &Failure) -> bool {
    [NO_RECEIVER, NO_SENDER].contains(&&*failure.message)
}

/// Converts the error of a connection attempt.
pub(crate) fn not_connected(error: &Error) -> Failure {
    Failure::not_sent(&text(error))
}

/// Returns whether the server has no RESP3, or denies it to this user.
pub(crate) fn denies_resp3(error: &Error) -> bool {
    matches!(code(error.details()), Some("ERR" | "NOPROTO" | "NOPERM"))
}

/// Converts a frame of fred to a reply.
pub(crate) fn of_frame(frame: Resp3Frame) -> Reply {
    match frame {
        // `Hello` and `ChunkedString` never occur: the first is a request, and fred joins the second into a whole
        // string.
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Reply::Nil,
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::Boolean { data, .. } => Reply::Int(data.into()),
        Resp3Frame::Double { data, .. } => Reply::Bytes(data.to_string().into()),
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::ChunkedString(data) => Reply::Bytes(data.into()),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Reply::Array(data.into_iter().map(of_frame).collect())
        }
        Resp3Frame::Set { data, .. } => Reply::Array(data.into_iter().map(of_frame).collect()),
        Resp3Frame::Map { data, .. } => {
            Reply::Array(data.into_iter().flat_map(|(key, value)| [of_frame(key), of_frame(value)]).collect())
        }
        Resp3Frame::SimpleError { data, .. } => Reply::Error(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Reply::Error(String::from_utf8_lossy(&data).into_owned()),
    }
}

fn from_value(value: Value) -> Reply {
    match value {
        Value::Null => Reply::Nil,
        Value::Integer(number) => Reply::Int(number),
        Value::Boolean(flag) => Reply::Int(flag.into()),
        Value::Double(number) => Reply::Bytes(number.to_string().into()),
        Value::String(text) => Reply::Bytes(text.into_inner().into()),
        Value::Bytes(bytes) => Reply::Bytes(bytes.into()),
        Value::Queued => Reply::Bytes(b"QUEUED".to_vec()),
        Value::Array(values) => Reply::Array(values.into_iter().map(from_value).collect()),
        Value::Map(map) => {
            let pairs = map.inner().into_iter();
            let flat = pairs.flat_map(|(key, value)| [from_value(key.into()), from_value(value)]);
            Reply::Array(flat.collect())
        }
    }
}

fn is_of_server(error: &Error) -> bool {
    code(error.details()).is_some_and(|code| code != "CLUSTERDOWN")
}

/// Returns the word in capitals with which an error of the server begins.
fn code(text: &str) -> Option<&str> {
    let word = text.split(' ').next()?;
    (word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(word)
}

/// Returns the text of an error.
///
/// fred keeps some errors in their debug form. Of an `io::Error`, this returns the message of the operating system, or
/// the text with which it was created. Of an error of the platform's TLS library, it returns the reasons, which are at
/// the end of the debug form.
fn text(error: &Error) -> Cow<'_, str> {
    let details = error.details();
    if details.contains("ErrorStack(") {
        let reasons: Vec<_> = quoted(details, "reason").chain(quoted(details, "error")).collect();
        if !reasons.is_empty() {
            return reasons.join(": ").into();
        }
    }
    let created = details.starts_with("Custom {").then(|| quoted(details, "error").next()).flatten();
    created.or_else(|| quoted(details, "message").next()).unwrap_or(details).into()
}

/// Returns the texts of a field in a debug form.
fn quoted<'a>(details: &'a str, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let start = format!("{field}: \"");
    let mut rest = details;
    std::iter::from_fn(move || {
        let (text, behind) = rest.split_once(start.as_str())?.1.split_once('"')?;
        rest = behind;
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use redlock_wire::Sent;

    use super::*;

    fn sent(kind: ErrorKind, details: &'static str) -> Sent {
        of_value(Err(Error::new(kind, details))).unwrap_err().sent
    }

    #[test]
    fn only_commands_in_the_queue_or_rejected_by_it_are_unsent() {
        assert_eq!(Sent::No, sent(ErrorKind::Canceled, "Canceled."));
        assert_eq!(Sent::No, sent(ErrorKind::Canceled, "Connection closed unexpectedly."));
        assert_eq!(Sent::No, sent(ErrorKind::Unknown, NO_RECEIVER));
        assert_eq!(Sent::Maybe, sent(ErrorKind::Unknown, NO_SENDER));
        assert_eq!(Sent::Maybe, sent(ErrorKind::IO, "Connection closed."));
        assert_eq!(Sent::Maybe, sent(ErrorKind::Protocol, "Invalid response frame type."));
        assert_eq!(Sent::Maybe, sent(ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"));
    }

    #[test]
    fn a_pipeline_that_fails_as_a_whole_is_no_reply() {
        let lost = || Error::new(ErrorKind::IO, "Connection closed.");
        assert_eq!(Sent::Maybe, of_pipeline(vec![Err(lost())], 2).unwrap_err().sent);
        assert_eq!(Sent::Maybe, of_pipeline(vec![Ok(Value::Null)], 2).unwrap_err().sent);
        assert_eq!(vec![Reply::Nil; 2], of_pipeline(vec![Ok(Value::Null), Ok(Value::Null)], 2).unwrap());
    }

    #[test]
    fn an_error_of_the_system_is_human_readable() {
        let message = |error: std::io::Error| failure(&error.into()).message;
        let denied = std::io::Error::from_raw_os_error(13);
        assert!(denied.to_string().starts_with(&message(denied)));
        assert!(message(std::io::ErrorKind::BrokenPipe.into()).contains("BrokenPipe"));
        assert_eq!("no such thing", message(std::io::Error::other("no such thing")));
    }

    #[test]
    fn the_reason_why_a_certificate_is_rejected_comes_first() {
        let details = "Ssl(Error { code: ErrorCode(1), cause: Some(Ssl(ErrorStack([Error { code: 167772294, \
            library: \"SSL routines\", function: \"tls_post_process_server_certificate\", \
            reason: \"certificate verify failed\", file: \"../ssl/statem/statem_clnt.c\", line: 1889 }]))) }, \
            X509VerifyResult { code: 10, error: \"certificate has expired\" })";
        let message = not_connected(&Error::new(ErrorKind::IO, details)).message;
        assert_eq!("certificate verify failed: certificate has expired", message);
        let odd = "Ssl(ErrorStack([]))";
        assert_eq!(odd, not_connected(&Error::new(ErrorKind::IO, odd)).message);
    }
}
