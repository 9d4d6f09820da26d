//! Removes a secret from texts that a server or a proxy has written.
//!
//! A server or a proxy may repeat the login: verbatim, percent-encoded as in a URL, or escaped. The secret is replaced
//! before the text is truncated, because a truncated text could end in half of it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::connection::Connector;
use crate::credentials::Credentials;
use crate::text::sanitize;

/// The replacement of the secret.
const HIDDEN: &str = "...";

/// A text that must not be shown, if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Secret<'a>(Option<&'a str>);

impl<'a> Secret<'a> {
    pub(crate) fn of(secret: Option<&'a str>) -> Self {
        Self(secret.filter(|secret| !secret.is_empty()))
    }

    /// Returns the password of a connection: that of `login`, or else that of the address.
    pub(crate) fn of_login(login: Option<&'a Credentials>, connector: &'a impl Connector) -> Self {
        Self::of(login.map(Credentials::password).or_else(|| connector.password()))
    }

    /// Returns the part of a message that is fit for reports and logs.
    pub(crate) fn published(&self, message: &str) -> String {
        sanitize(&self.hidden(message))
    }

    /// Returns the text without the secret.
    pub(crate) fn hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(secret) = self.0 else { return text.into() };
        let mut text = Cow::Borrowed(text);
        let forms =
            [secret.to_owned(), secret.escape_debug().to_string(), secret.escape_default().to_string()];
        for form in forms {
            if text.contains(&form) {
                text = text.replace(&form, HIDDEN).into();
            }
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy();
        if decoded.contains(secret) { decoded.replace(secret, HIDDEN).into() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_in_every_form() {
        let shown = |secret, text: &str| Secret::of(Some(secret)).published(text);
        assert_eq!("ERR what is ...?", shown("hunter2", "ERR what is hunter2?"));
        assert_eq!("ERR ... and ...", shown("p@ss/w d", "ERR p@ss/w d and p%40ss%2Fw%20d"));
        assert_eq!("ERR ...", shown("p@ss/w d", "ERR p%40%73s%2fw d"));
        assert_eq!("ERR '...'", shown("a\"b\\\n", "ERR 'a\\\"b\\\\\\n'"));
        assert_eq!("ERR ...", shown("a\nb", "ERR a\nb"), "the secret spans two lines");
        assert_eq!("ERR ...", shown("h\u{fc}nter", "ERR h%C3%BCnter"));
    }

    #[test]
    fn a_truncated_text_contains_no_part_of_a_secret() {
        let text = format!("{}hunter2", "x".repeat(196));
        assert!(Secret::of(None).published(&text).ends_with("xhunt"));
        assert!(Secret::of(Some("hunter2")).published(&text).ends_with("x..."));
    }

    #[test]
    fn without_a_secret_a_text_is_unchanged() {
        for none in [None, Some("")] {
            assert_eq!("ERR 100%40", Secret::of(none).published("ERR 100%40"));
        }
        assert_eq!("ERR 100%40", Secret::of(Some("hunter2")).published("ERR 100%40"));
    }
}
