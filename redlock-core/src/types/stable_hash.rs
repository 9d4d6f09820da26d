//! A hash that is the same in every process and version.

/// Returns the FNV-1a hash of some bytes. It is for identities, not for secrets.
pub(crate) fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_fnv_1a() {
        assert_eq!(0xcbf2_9ce4_8422_2325, stable_hash(b""));
        assert_eq!(0xaf63_dc4c_8601_ec8c, stable_hash(b"a"));
        assert_eq!(0x8594_4171_f739_67e8, stable_hash(b"foobar"));
    }
}
