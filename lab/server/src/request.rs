//! Commands in their bytes: arrays of strings.

use crate::Command;

/// Takes the first command; `None` if it is not complete.
///
/// # Panics
///
/// Panics if the bytes are no command: the clients send only such ones.
pub(crate) fn next(input: &mut Vec<u8>) -> Option<Command> {
    let mut rest = input.as_slice();
    let count = number(&mut rest, b'*')?;
    let mut command = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(&mut rest, b'$')?;
        let end = length + 2;
        if rest.len() < end {
            return None;
        }
        assert_eq!(b"\r\n", &rest[length..end], "the end of an argument");
        command.push(rest[..length].to_vec());
        rest = &rest[end..];
    }
    let used = input.len() - rest.len();
    input.drain(..used);
    Some(command)
}

fn number(rest: &mut &[u8], kind: u8) -> Option<usize> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = (&rest[..end], &rest[end + 2..]);
    let digits = line.strip_prefix(&[kind]).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    *rest = after;
    Some(number.unwrap_or_else(|| panic!("no command: {:?}", String::from_utf8_lossy(line))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_once_it_is_complete() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        for end in 0..bytes.len() {
            assert_eq!(None, next(&mut bytes[..end].to_vec()), "{end}");
        }
        let mut two = bytes.repeat(2);
        let expected = Some(vec![b"GET".to_vec(), b"a".to_vec()]);
        assert_eq!((expected.clone(), expected, None), (next(&mut two), next(&mut two), next(&mut two)));
    }
}
