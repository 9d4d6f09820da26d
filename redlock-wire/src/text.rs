//! Texts of servers and clients.

/// Returns a field of a reply to `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// Returns the part of a message that is fit for reports and logs.
///
/// The result is one line of limited length, without command arguments and advice about commands. Unprintable
/// characters, such as terminal control sequences, are escaped.
pub(crate) fn sanitize(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let end = SUPERFLUOUS.iter().filter_map(|text| line.find(text)).min().unwrap_or(line.len());
    let mut text = String::with_capacity(end.min(LONGEST));
    for char in line[..end].chars().take(LONGEST) {
        match char {
            '"' | '\'' | '\\' => text.push(char),
            _ => text.extend(char.escape_debug()),
        }
    }
    text
}

/// The beginnings of the parts that are left out.
///
/// They are the arguments of an unknown command, and the advice of a server that requires a login.
const SUPERFLUOUS: [&str; 2] = [", with args beginning with", ", otherwise the HELLO"];

/// The maximum length in characters; messages of servers are shorter.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_short_line_without_arguments() {
        assert_eq!("one", sanitize("one\r\ntwo"));
        let login = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                     AUTH <user> <pass> option can be used to authenticate the client";
        assert_eq!("NOAUTH HELLO must be called with the client already authenticated", sanitize(login));
        assert_eq!(200, sanitize(&"ü".repeat(300)).chars().count());
        assert_eq!(
            r"ERR \u{1b}[31m it's \u{7}\u{202e} \r\t",
            sanitize("ERR \x1b[31m it's \x07\u{202e} \r\t\n")
        );
    }
}
