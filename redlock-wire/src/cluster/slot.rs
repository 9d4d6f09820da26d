//! The hash slots of keys.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// Returns the slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(hashed(key)) % SLOTS
}

/// Returns the part of a key that is hashed: its hash tag, or the whole key if it has none.
///
/// The tag is between the first opening brace and the next closing one, unless nothing is there.
fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let behind = &key[open + 1..];
    match behind.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// The CRC-16 of XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ TABLE[usize::from(high ^ byte)]
    })
}

/// The checksums of single bytes.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of this CRC, and replies of `CLUSTER KEYSLOT`.
        assert_eq!(0x31c3, crc16(b"123456789"));
        for (key, expected) in [("foo", 12182), ("hello", 866), ("", 0), ("somekey", 11058)] {
            assert_eq!(expected, slot(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn only_the_hash_tag_counts() {
        let tag = |key: &str| String::from_utf8(hashed(key.as_bytes()).to_vec()).unwrap();
        for (key, expected) in [
            ("{user1000}.following", "user1000"),
            ("a{b}c{d}", "b"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("}", "}"),
        ] {
            assert_eq!(expected, tag(key), "{key}");
        }
    }
}
