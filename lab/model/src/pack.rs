//! Packs a state into words, by which the explorer recognizes it.
//!
//! A number that does not fit into its bits would make two states one, and a part of the states would not be explored. Thus
//! it is a panic.

/// Small numbers in words. No number is divided between two words.
pub(crate) struct Words<const N: usize> {
    words: [u64; N],
    bits: usize,
}

impl<const N: usize> Words<N> {
    pub(crate) fn new() -> Self {
        Self { words: [0; N], bits: 0 }
    }

    /// Appends a number.
    ///
    /// # Panics
    ///
    /// Panics if the number has more bits, or the words are full.
    pub(crate) fn push(&mut self, number: impl Into<u64>, bits: usize) {
        let number = number.into();
        assert!(bits < 64 && number >> bits == 0, "{number} has more than {bits} bits");
        if self.bits % 64 + bits > 64 {
            self.bits = self.bits.next_multiple_of(64);
        }
        self.words[self.bits / 64] |= number << (self.bits % 64);
        self.bits += bits;
    }

    /// Same as [`push`](Words::push), for values.
    pub(crate) fn with(mut self, number: impl Into<u64>, bits: usize) -> Self {
        self.push(number, bits);
        self
    }

    pub(crate) fn words(self) -> [u64; N] {
        self.words
    }
}

impl Words<1> {
    pub(crate) fn word(self) -> u64 {
        self.words[0]
    }
}

/// Returns the words of a state, and those of its nodes without their names.
pub(crate) fn key<const N: usize, const K: usize>(head: &[u64], nodes: &mut [[u64; N]]) -> [u64; K] {
    nodes.sort_unstable();
    let mut key = [0; K];
    let (first, rest) = key.split_at_mut(head.len());
    first.copy_from_slice(head);
    rest[..N * nodes.len()].copy_from_slice(nodes.as_flattened());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_next_to_each_other_and_not_divided() {
        let words = Words::<2>::new().with(5_u8, 3).with(1_u64 << 61, 62).with(true, 1);
        assert_eq!([5, 1 << 61 | 1 << 62], words.words());
        assert_eq!(0b1_101, Words::new().with(5_u8, 3).with(true, 1).word());
    }

    #[test]
    #[should_panic(expected = "8 has more than 3 bits")]
    fn a_number_that_does_not_fit_merges_no_states() {
        Words::<1>::new().with(8_u8, 3).word();
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn more_numbers_than_words_merge_no_states() {
        Words::<1>::new().with(0_u8, 63).with(0_u8, 3).word();
    }

    #[test]
    fn nodes_have_no_names() {
        let key = |nodes: [[u64; 2]; 2]| key::<2, 5>(&[7], &mut { nodes });
        assert_eq!([7, 1, 9, 2, 3], key([[2, 3], [1, 9]]));
        assert_eq!(key([[1, 9], [2, 3]]), key([[2, 3], [1, 9]]));
    }
}
