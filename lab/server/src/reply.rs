//! Replies, and their bytes.

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status, such as `OK`.
    Status(String),
    /// An error, without the leading `-`.
    Error(String),
    /// A number.
    Int(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// No value.
    Nil,
    /// Several replies.
    Array(Vec<Reply>),
    /// Pairs of names and values.
    Map(Vec<(Reply, Reply)>),
    /// A long text, which is a verbatim string in RESP3.
    Text(String),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".into())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn bulk(text: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(text.into())
    }

    /// Appends the bytes on the wire.
    pub(crate) fn encode(&self, resp3: bool, out: &mut Vec<u8>) {
        match self {
            Self::Status(text) => line(out, '+', text),
            Self::Error(text) => line(out, '-', text),
            Self::Int(number) => line(out, ':', &number.to_string()),
            Self::Bulk(bytes) => {
                line(out, '$', &bytes.len().to_string());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Nil if resp3 => out.extend_from_slice(b"_\r\n"),
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::Array(replies) => {
                line(out, '*', &replies.len().to_string());
                for reply in replies {
                    reply.encode(resp3, out);
                }
            }
            Self::Map(pairs) => {
                let (kind, length) = if resp3 { ('%', pairs.len()) } else { ('*', 2 * pairs.len()) };
                line(out, kind, &length.to_string());
                for (name, value) in pairs {
                    name.encode(resp3, out);
                    value.encode(resp3, out);
                }
            }
            Self::Text(text) if resp3 => {
                line(out, '=', &(text.len() + 4).to_string());
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Self::Text(text) => Self::bulk(text.as_str()).encode(resp3, out),
        }
    }
}

/// Appends a push that these keys have changed; `None` if all were deleted.
pub(crate) fn encode_invalidation(key: Option<&[u8]>, out: &mut Vec<u8>) {
    line(out, '>', "2");
    Reply::bulk("invalidate").encode(true, out);
    let keys = key.map_or(Reply::Nil, |key| Reply::Array(vec![Reply::bulk(key)]));
    keys.encode(true, out);
}

fn line(out: &mut Vec<u8>, kind: char, text: &str) {
    out.push(kind as u8);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}
