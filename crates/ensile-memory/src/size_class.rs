//! Size classes: multiples of eight bytes up to a cap, then eight steps per doubling.
//!
//! A class fits one byte, so a record's header can carry its capacity.
//!
//! Neighbours: [`crate::Cache`] keeps a free list per class; the record module stores the class.

/// Largest class that grows in steps of [`FINE_STEP`].
const FINE_MAX: usize = 256;
const FINE_STEP: usize = 8;
const FINE_CLASSES: usize = FINE_MAX / FINE_STEP;
/// Steps per doubling above [`FINE_MAX`].
const COARSE_STEPS: usize = 8;
/// Doublings above [`FINE_MAX`]: up to 32 MiB.
const DOUBLINGS: usize = 17;

/// Largest class that is cut from spans, in bytes; larger blocks come singly from the global allocator.
pub(crate) const SPANNED_BYTES_MAX: usize = 8 << 10;

/// A block size of the slabs.
///
/// ```
/// use ensile_memory::SizeClass;
/// assert_eq!(SizeClass::of_bytes(113).bytes(), 120);
/// assert_eq!(SizeClass::of_bytes(320).bytes(), 320);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Number of classes.
    pub const COUNT: usize = FINE_CLASSES + DOUBLINGS * COARSE_STEPS;
    /// Size of the largest block, in bytes.
    pub const BYTES_MAX: usize = FINE_MAX << DOUBLINGS;
    /// Number of classes that are cut from spans.
    pub(crate) const SPANNED: usize = Self::of_bytes(SPANNED_BYTES_MAX).index() + 1;

    /// The smallest class of at least `bytes` bytes; at most [`SizeClass::BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn of_bytes(bytes: usize) -> Self {
        if bytes <= FINE_MAX {
            return Self((bytes.saturating_sub(1) / FINE_STEP) as u8);
        }
        assert!(bytes <= Self::BYTES_MAX, "larger than the largest block");
        // The doubling of `bytes`: base < bytes <= 2 * base.
        let doubling = ((bytes - 1) / FINE_MAX).ilog2() as usize;
        let base = FINE_MAX << doubling;
        let step = (FINE_MAX / COARSE_STEPS) << doubling;
        Self((FINE_CLASSES + doubling * COARSE_STEPS + (bytes - base - 1) / step) as u8)
    }

    /// Size of the class's blocks, in bytes. Every read of a record needs the size: looked up, not computed.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        BYTES[self.0 as usize] as usize
    }

    /// The class as a number below [`SizeClass::COUNT`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The class with this number, as returned by [`SizeClass::index`].
    #[inline]
    #[must_use]
    pub const fn from_index(index: usize) -> Self {
        debug_assert!(index < Self::COUNT, "not a size class");
        Self(index as u8)
    }

    pub(crate) const fn is_spanned(self) -> bool {
        self.index() < Self::SPANNED
    }
}

/// The block sizes of the classes. The table has an entry for every value of a byte, so that a lookup needs no check.
static BYTES: [u32; 256] = {
    let (mut bytes, mut index) = ([0; 256], 0);
    while index < SizeClass::COUNT {
        bytes[index] = bytes_of(index) as u32;
        index += 1;
    }
    bytes
};

/// The block size of the class with this number.
const fn bytes_of(index: usize) -> usize {
    if index < FINE_CLASSES {
        return (index + 1) * FINE_STEP;
    }
    let above = index - FINE_CLASSES;
    let base = FINE_MAX << (above / COARSE_STEPS);
    base + base / COARSE_STEPS * (above % COARSE_STEPS + 1)
}

const _: () = assert!(SizeClass::COUNT <= 256, "a class fits one byte");
const _: () = assert!(SizeClass::BYTES_MAX <= u32::MAX as usize, "a block's size fits half a word");

#[cfg(test)]
mod tests {
    use super::SizeClass;

    #[test]
    fn every_class_holds_what_it_is_asked_for_and_wastes_at_most_an_eighth() {
        for bytes in (0..100_000).chain([1 << 20, (1 << 20) + 1, 16 << 20, SizeClass::BYTES_MAX]) {
            let class = SizeClass::of_bytes(bytes);
            assert!(class.bytes() >= bytes, "{bytes}");
            assert!(class.bytes() - bytes <= 8.max(bytes / 8 + 1), "{bytes} -> {}", class.bytes());
            assert_eq!(SizeClass::of_bytes(class.bytes()), class);
            assert_eq!(SizeClass::from_index(class.index()), class);
        }
    }

    #[test]
    fn classes_grow() {
        for index in 1..SizeClass::COUNT {
            assert!(SizeClass::from_index(index).bytes() > SizeClass::from_index(index - 1).bytes());
        }
    }
}
