//! Commands as bytes on the wire, and in the form of the redis client for a connection of the application.

use redis::Cmd;
use redlock_wire::Command;

/// Packs a command. It reserves the space first: growing piece by piece allocates three times as often.
pub(crate) fn pack(command: Command<'_>) -> Cmd {
    match command {
        Command::SetIfAbsent { key, value, millis, get } => {
            let words = "SETNXPXGET".len() + 20; // the longest number of milliseconds
            let mut packed = Cmd::with_capacity(7, words + key.len() + value.len());
            packed.arg("SET").arg(key).arg(value).arg("NX").arg("PX").arg(millis);
            if get {
                packed.arg("GET");
            }
            packed
        }
        Command::Other { name, args } => {
            let bytes = name.len() + args.iter().map(|arg| arg.len()).sum::<usize>();
            let mut packed = Cmd::with_capacity(args.len() + 1, bytes);
            packed.arg(name);
            for arg in args {
                packed.arg(*arg);
            }
            packed
        }
    }
}

/// Packs a command as the bytes on the wire, in one allocation. The client's form would take three.
pub(crate) fn encode(command: Command<'_>) -> Vec<u8> {
    match command {
        Command::SetIfAbsent { key, value, millis, get } => {
            let mut packed = Vec::with_capacity(key.len() + value.len() + 2 * LENGTH + 80);
            packed.extend_from_slice(if get { b"*7\r\n$3\r\nSET\r\n" } else { b"*6\r\n$3\r\nSET\r\n" });
            put(&mut packed, key);
            put(&mut packed, value);
            packed.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
            put(&mut packed, itoa::Buffer::new().format(millis).as_bytes());
            if get {
                packed.extend_from_slice(b"$3\r\nGET\r\n");
            }
            packed
        }
        Command::Other { name, args } => array(std::iter::once(name.as_bytes()).chain(args.iter().copied())),
    }
}

/// Packs words as a command.
pub(crate) fn words(words: &[&str]) -> Vec<u8> {
    array(words.iter().map(|word| word.as_bytes()))
}

/// The longest length of an argument with its marks: `$`, digits, and the ends of two lines.
const LENGTH: usize = 1 + 20 + 4;

fn array<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let (count, bytes) = words.clone().fold((0, 0), |(count, bytes), word| (count + 1, bytes + word.len()));
    let mut packed = Vec::with_capacity(bytes + (count + 1) * LENGTH);
    put_length(&mut packed, b'*', count);
    words.for_each(|word| put(&mut packed, word));
    packed
}

#[inline]
fn put(packed: &mut Vec<u8>, word: &[u8]) {
    put_length(packed, b'$', word.len());
    packed.extend_from_slice(word);
    packed.extend_from_slice(b"\r\n");
}

/// Most words are shorter than 100 bytes. Their lengths are copied as a constant number of bytes.
#[inline]
fn put_length(packed: &mut Vec<u8>, kind: u8, length: usize) {
    match u8::try_from(length) {
        Ok(digit @ 0..10) => packed.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
        Ok(two @ 10..100) => {
            packed.extend_from_slice(&[kind, b'0' + two / 10, b'0' + two % 10, b'\r', b'\n']);
        }
        _ => {
            packed.push(kind);
            packed.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            packed.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks that the bytes are those of the client.
    fn check(command: Command<'_>) {
        let (ours, theirs) = (encode(command), pack(command).get_packed_command());
        assert_eq!(String::from_utf8_lossy(&theirs), String::from_utf8_lossy(&ours));
        assert_eq!(theirs, ours);
    }

    fn arg() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..120)
    }

    proptest! {
        #[test]
        fn the_bytes_of_commands_are_those_of_the_client(
            args in prop::collection::vec(arg(), 0..12),
            key in arg(),
            millis in prop_oneof![any::<u64>(), 0..20_000_u64],
            get: bool,
        ) {
            check(Command::SetIfAbsent { key: &key, value: &args.concat(), millis, get });
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            check(Command::Other { name: "EVALSHA", args: &args });
        }
    }

    #[test]
    fn words_are_a_command() {
        assert_eq!(redis::cmd("HELLO").arg(3).get_packed_command(), words(&["HELLO", "3"]));
        let one = encode(Command::Other { name: "PING", args: &[] });
        assert_eq!(redis::cmd("PING").get_packed_command(), one);
        assert!(one.capacity() < 100);
    }

    #[test]
    fn a_command_is_one_allocation() {
        let key = [b'k'; 500];
        let packed = encode(Command::SetIfAbsent { key: &key, value: &key, millis: u64::MAX, get: true });
        assert!(packed.capacity() == key.len() * 2 + 2 * LENGTH + 80, "it was not reserved in advance");
    }
}
