//! Tags: a byte of hash per slot of a leaf, compared sixteen at once.
//!
//! Neighbours: `node` keeps a leaf's tags in two words of its first line.

use crate::key::KeyPart;

/// Number of slots whose tags share a word.
pub(crate) const TAGS_PER_WORD: usize = 8;

/// A byte of hash of a part. Neighbouring numbers and common endings must differ: the product's top bits differ.
#[inline(always)]
pub(crate) fn tag(part: KeyPart) -> u8 {
    let mixed = (part.slice ^ part.slice >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ part.rank
}

/// A bit per byte equal to `tag`: the lowest bit stands for the lowest byte of the first word.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn equal(words: [u64; 2], tag: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let [low, high] = words.map(u64::cast_signed);
    // SAFETY: SSE2 is part of x86-64, and no instruction here touches memory.
    let mask = unsafe {
        let equal = _mm_cmpeq_epi8(_mm_set_epi64x(high, low), _mm_set1_epi8(tag.cast_signed()));
        _mm_movemask_epi8(equal)
    };
    mask.cast_unsigned()
}

/// A bit per byte equal to `tag`: the lowest bit stands for the lowest byte of the first word.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn equal(words: [u64; 2], tag: u8) -> u32 {
    portable::equal(words, tag)
}

#[cfg(any(all(test, not(any(loom, shuttle))), not(all(target_arch = "x86_64", not(miri)))))]
mod portable {
    use super::TAGS_PER_WORD;

    #[inline(always)]
    pub(super) fn equal([low, high]: [u64; 2], tag: u8) -> u32 {
        let tags = u64::from(tag) * 0x0101_0101_0101_0101;
        zero_bytes(low ^ tags) | zero_bytes(high ^ tags) << TAGS_PER_WORD
    }

    /// A bit per byte of `word` that is zero.
    #[inline(always)]
    fn zero_bytes(word: u64) -> u32 {
        const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        // Exact: the addition carries into a byte's top bit unless its seven low bits are zero, and never out of the
        // byte.
        let zeros = !(((word & LOW_BITS) + LOW_BITS) | word | LOW_BITS);
        // Gathers the eight top bits in the product's top byte.
        ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::random::Random;

    #[test]
    fn every_equal_byte_is_named_and_no_other() {
        let mut random = Random::from_seed(15);
        for round in 0..10_000 {
            // Few values, so that bytes are often equal, and the values where a carry would show.
            let byte =
                |random: &mut Random| [0x00, 0x01, 0x7f, 0x80, 0x81, 0xff][random.next_below(6) as usize];
            let bytes: [u8; 16] = std::array::from_fn(|_| byte(&mut random));
            let tag = byte(&mut random);
            let (low, high) = bytes.split_at(8);
            let words = [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
            let expected = (0..16).filter(|&at| bytes[at] == tag).fold(0, |mask, at| mask | 1 << at);
            assert_eq!(super::equal(words, tag), expected, "round {round}: {tag:#x} in {bytes:x?}");
            assert_eq!(super::portable::equal(words, tag), expected, "round {round}: {tag:#x} in {bytes:x?}");
        }
    }
}
