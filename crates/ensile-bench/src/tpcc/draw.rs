//! TPC-C's random draws: NURand (clause 2.1.6), last names (4.3.2.3), strings (4.3.2.2).
//!
//! Invariants:
//! - The constants C of NURand are the same for a whole run. The constant of last names differs between load and run by
//!   a distance within the specification's limits (2.1.6.1).
//! - No draw allocates.
//!
//! Neighbours: [`super::load`] and [`super::terminal`].

use ensile_base::random::Random;

/// The syllables of last names.
const SYLLABLES: [&[u8]; 10] =
    [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
/// Number of last names.
pub(crate) const LAST_NAMES: u32 = 1_000;

/// The constants of NURand.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub(crate) last_name_load: u64,
    pub(crate) last_name_run: u64,
    pub(crate) customer: u64,
    pub(crate) item: u64,
}

impl Constants {
    /// Constants that depend on the seed only.
    pub fn seeded(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x7bcc);
        let last_name_load = random.next_below(256 - 119);
        let distance = loop {
            let distance = random.next_between(65, 119);
            if distance != 96 && distance != 112 {
                break distance;
            }
        };
        Self {
            last_name_load,
            last_name_run: last_name_load + distance,
            customer: random.next_below(1024),
            item: random.next_below(8192),
        }
    }
}

/// NURand(a, low, high) with the constant `c`.
#[inline]
pub(crate) fn nurand(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    (((random.next_below(a + 1) | random.next_between(low, high)) + c) % (high - low + 1)) + low
}

/// The last name of a number below [`LAST_NAMES`].
#[inline]
pub(crate) fn last_name(number: u32) -> [u8; 16] {
    debug_assert!(number < LAST_NAMES);
    let mut name = [0; 16];
    let mut length = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize];
        name[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    name
}

/// Fills the front of a field with letters and digits, `low` to `N` of them; the rest is zeros.
pub(crate) fn letters<const N: usize>(random: &mut Random, low: usize) -> [u8; N] {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut field = [0; N];
    let length = random.next_between(low as u64, N as u64) as usize;
    for chunk in field[..length].chunks_mut(8) {
        for (byte, dice) in chunk.iter_mut().zip(random.next_u64().to_le_bytes()) {
            *byte = ALPHABET[(usize::from(dice) * ALPHABET.len()) >> 8];
        }
    }
    field
}

/// A field of digits.
pub(crate) fn digits<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| b'0' + random.next_below(10) as u8)
}

/// A field of letters and digits; one row of ten contains `ORIGINAL` (4.3.3.1, ITEM and STOCK).
pub(crate) fn data(random: &mut Random) -> [u8; 50] {
    let mut field = letters::<50>(random, 26);
    if random.percent(10) {
        let length = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        let at = random.next_below((length - ORIGINAL.len() + 1) as u64) as usize;
        field[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    field
}

/// The word that marks the original brand.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// True if a data field contains `ORIGINAL`.
#[inline]
pub(crate) fn is_original(data: &[u8; 50]) -> bool {
    // The first two letters of the word are compared first, at all places at once: few rows have both.
    let starts = |at: usize| (data[at] == ORIGINAL[0]) & (data[at + 1] == ORIGINAL[1]);
    (0..data.len() - 1).fold(false, |any, at| any | starts(at))
        && data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

#[cfg(test)]
mod tests;
