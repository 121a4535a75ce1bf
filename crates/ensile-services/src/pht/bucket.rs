//! A bucket: its elements in one piece of memory, and slots with the places of the elements.
//!
//! ```text
//! slot       tag 32, of the key's hash | the element's place and 1, 32, in units of 8 bytes        zero: free
//! element    key's length 1 or 5 | value's length 1 or 5 | key | value | up to a multiple of 8
//! length     itself, below 255 | 255, itself 4
//! ```
//! A lookup therefore reads two places of memory beyond the bucket itself: a line of slots, and the element. Slots are
//! searched from the tag's place on, up to a free slot. A value of 30 bytes under a key of 16 takes some 70 bytes.
//!
//! Invariants:
//! - Every slot that is not free has the place of an element, and no two slots have the same place.
//! - The space left by removed elements is counted, and is less than half of the memory above [`LEFT_BYTES_MIN`].
//!
//! Neighbours: [`super::table`] has the locks, and hashes; [`super`] looks elements up and changes them.

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ensile_memory::prefetch;

/// Number of slots of a bucket's first table.
const FIRST_SLOTS: usize = 8;
/// First byte of a long length: the length behind this byte is at least this value.
const LONG: u8 = u8::MAX;
/// Largest size of both lengths in bytes.
const HEAD_BYTES_MAX: usize = 10;
/// Alignment of elements in bytes.
const UNIT_BYTES: usize = 8;
/// Growth divisor of memory: no element is to take much more memory than needed.
const GROWTH: usize = 8;
/// Smallest growth of memory in bytes.
const GROWTH_BYTES_MIN: usize = 128;
/// Space of removed elements that is always tolerated, in bytes.
const LEFT_BYTES_MIN: usize = 4096;
/// Largest number of bytes of an element that are prefetched; the processor predicts the further bytes.
const PREFETCHED_BYTES_MAX: usize = 4096;

/// Number of slots between a prefetched element and the element being read.
const FETCHED_AHEAD: usize = 16;

const FREE: u64 = 0;

const _: () = assert!(FIRST_SLOTS.is_power_of_two(), "a search goes around by a mask");
const _: () = assert!(KEY_BYTES_MAX + VALUE_BYTES_MAX <= u32::MAX as usize, "a length is 32 bits");
const _: () =
    assert!(head_bytes(KEY_BYTES_MAX, VALUE_BYTES_MAX) == HEAD_BYTES_MAX, "the longest lengths fit a head");

/// A key, and the place of its search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhtKey<'k> {
    pub(super) bytes: &'k [u8],
    /// Number of the key's bucket, the same for ever.
    pub(super) bucket: u64,
    /// Tag from the key's hash in this process.
    pub(super) tag: u32,
}

#[derive(Debug, Default)]
pub(super) struct PhtBucket {
    /// Slots: a power of two, or none before the first element.
    pub(super) slots: Box<[u64]>,
    elements: Vec<u8>,
    count: u32,
    /// Units of space left by removed elements.
    left: u32,
}

fn place_of(slot: u64) -> usize {
    debug_assert_ne!(slot as u32, 0, "a slot that is not free has the place of an element");
    (slot as u32 as usize - 1) * UNIT_BYTES
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

/// Lengths before an element of these parts, and the number of their bytes.
#[inline]
fn head_of(key: usize, value: usize) -> ([u8; HEAD_BYTES_MAX], usize) {
    let (mut head, mut end) = ([0; HEAD_BYTES_MAX], 0);
    for length in [key, value] {
        if length < usize::from(LONG) {
            head[end] = length as u8;
            end += 1;
        } else {
            head[end] = LONG;
            head[end + 1..end + 5].copy_from_slice(&(length as u32).to_le_bytes());
            end += 5;
        }
    }
    debug_assert_eq!(end, head_bytes(key, value), "a head has the counted length");
    (head, end)
}

/// Bytes of the lengths before an element of these parts.
#[inline]
const fn head_bytes(key: usize, value: usize) -> usize {
    let long = (key >= LONG as usize) as usize + (value >= LONG as usize) as usize;
    2 + 4 * long
}

/// Bytes of an element of these parts.
#[inline]
fn element_bytes(key: usize, value: usize) -> usize {
    (head_bytes(key, value) + key + value).next_multiple_of(UNIT_BYTES)
}

/// Length at the beginning of these bytes, and the bytes behind the length.
#[inline]
fn length(bytes: &[u8]) -> (usize, &[u8]) {
    let (first, behind) = bytes.split_first().expect("an element begins with its lengths");
    if *first < LONG {
        return (usize::from(*first), behind);
    }
    let (length, behind) = behind.split_first_chunk().expect("a long length has four bytes");
    (u32::from_le_bytes(*length) as usize, behind)
}

/// Key and value of the element at the beginning of these bytes.
#[inline]
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (key, behind) = length(bytes);
    let (value, behind) = length(behind);
    let (key, behind) = behind.split_at(key);
    (key, &behind[..value])
}

impl PhtBucket {
    /// Number of elements.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// All elements: keys and values. The elements lie in any order, and were last used long ago: every element is
    /// prefetched.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = self.prefetched_bytes();
        let used = self.slots.iter().enumerate().filter(|(_, slot)| **slot != FREE);
        used.map(move |(at, slot)| {
            if let Some(later) = self.slots.get(at + FETCHED_AHEAD).filter(|later| **later != FREE) {
                self.prefetch_place(place_of(*later), bytes);
            }
            element(&self.elements[place_of(*slot)..])
        })
    }

    /// Value of a key.
    #[inline]
    pub(super) fn get(&self, key: PhtKey<'_>) -> Option<&[u8]> {
        let (at, _) = self.find(key)?;
        Some(element(&self.elements[place_of(self.slots[at])..]).1)
    }

    /// Number of a key's slot, and length of the key's value.
    #[inline]
    fn find(&self, key: PhtKey<'_>) -> Option<(usize, usize)> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key.tag as usize & mask;
        loop {
            let slot = *self.slots.get(at)?;
            if slot == FREE {
                return None;
            }
            if tag_of(slot) == key.tag {
                self.prefetch_place(place_of(slot), self.prefetched_bytes());
                let (its, value) = element(&self.elements[place_of(slot)..]);
                if its == key.bytes {
                    return Some((at, value.len()));
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches the line of slots where the search for a key begins.
    #[inline]
    pub(super) fn prefetch_slots(&self, key: PhtKey<'_>) {
        if let Some(slot) = self.slots.get(key.tag as usize & self.slots.len().wrapping_sub(1)) {
            prefetch::line(slot);
        }
    }

    /// Prefetches the lines of an element that may be the key's.
    #[inline]
    pub(super) fn prefetch_element(&self, key: PhtKey<'_>) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key.tag as usize & mask;
        while let Some(slot) = self.slots.get(at).copied().filter(|slot| *slot != FREE) {
            if tag_of(slot) == key.tag {
                return self.prefetch_place(place_of(slot), self.prefetched_bytes());
            }
            at = (at + 1) & mask;
        }
    }

    /// Number of bytes to prefetch of an element: the average size of elements here.
    #[inline]
    fn prefetched_bytes(&self) -> usize {
        (self.elements.len() / self.len().max(1)).min(PREFETCHED_BYTES_MAX)
    }

    #[inline]
    fn prefetch_place(&self, place: usize, bytes: usize) {
        let element = self.elements[place..].as_ptr();
        prefetch::lines(element, bytes);
        // The last byte may be on a further line.
        prefetch::line(element.wrapping_add(bytes.saturating_sub(1)));
    }

    /// Sets the value of an element. A missing element is made.
    pub(super) fn set(&mut self, key: PhtKey<'_>, value: &[u8]) {
        let Some((at, before)) = self.find(key) else {
            self.make_slot();
            let place = self.append(key.bytes, value);
            put(&mut self.slots, u64::from(key.tag) << 32 | place);
            self.count += 1;
            debug_assert!(self.len() < self.slots.len(), "a search ends at a free slot");
            return;
        };
        if value.len() == before {
            let at = place_of(self.slots[at]) + head_bytes(key.bytes.len(), before) + key.bytes.len();
            self.elements[at..at + before].copy_from_slice(value);
            return;
        }
        let bytes_before = element_bytes(key.bytes.len(), before);
        if element_bytes(key.bytes.len(), value.len()) == bytes_before {
            // The new element takes the place of the old.
            let (head, head_bytes) = head_of(key.bytes.len(), value.len());
            let place = &mut self.elements[place_of(self.slots[at])..][..bytes_before];
            let (in_head, behind) = place.split_at_mut(head_bytes);
            let (in_key, behind) = behind.split_at_mut(key.bytes.len());
            in_head.copy_from_slice(&head[..head_bytes]);
            in_key.copy_from_slice(key.bytes);
            behind[..value.len()].copy_from_slice(value);
            return;
        }
        // Slots stay in place while elements move.
        let place = self.append(key.bytes, value);
        self.slots[at] = u64::from(key.tag) << 32 | place;
        self.leave(bytes_before);
    }

    /// Removes an element, if present.
    pub(super) fn remove(&mut self, key: PhtKey<'_>) {
        let Some((mut hole, value)) = self.find(key) else { return };
        let mask = self.slots.len() - 1;
        // The slots behind the hole move up, as far as no search for them begins behind the hole.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = self.slots[at];
            if next == FREE {
                break;
            }
            let begin = tag_of(next) as usize & mask;
            if (at.wrapping_sub(begin) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = next;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
        self.count -= 1;
        debug_assert!(self.find(key).is_none(), "an element has one slot");
        self.leave(element_bytes(key.bytes.len(), value));
    }

    /// Ensures a free slot.
    fn make_slot(&mut self) {
        // At most three quarters full: searches are short.
        if (self.count as usize + 1) * 4 > self.slots.len() * 3 {
            let size = (self.slots.len() * 2).max(FIRST_SLOTS);
            let mut slots: Box<[u64]> = vec![FREE; size].into();
            self.slots.iter().filter(|slot| **slot != FREE).for_each(|slot| put(&mut slots, *slot));
            self.slots = slots;
            debug_assert_eq!(self.used_slots(), self.len(), "a larger table has every slot of the smaller");
        }
    }

    /// Number of slots that are not free.
    fn used_slots(&self) -> usize {
        self.slots.iter().filter(|slot| **slot != FREE).count()
    }

    /// Appends an element. Returns the part of a slot for the element's place.
    fn append(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let bytes = element_bytes(key.len(), value.len());
        if self.elements.len() + bytes > self.elements.capacity() {
            // Space left by removed elements is used first, if the space is as large as a growth.
            if self.left as usize * UNIT_BYTES * GROWTH > self.elements.len() + bytes {
                self.gather(bytes);
            } else {
                let more = bytes.max(self.elements.len() / GROWTH).max(GROWTH_BYTES_MIN);
                self.elements.reserve_exact(more);
            }
        }
        let place = self.elements.len();
        let unit = u32::try_from(place / UNIT_BYTES + 1).expect("a bucket has less than 32 GiB");
        let (head, head_bytes) = head_of(key.len(), value.len());
        self.elements.extend_from_slice(&head[..head_bytes]);
        self.elements.extend_from_slice(key);
        self.elements.extend_from_slice(value);
        self.elements.resize(place + bytes, 0);
        debug_assert_eq!(self.elements.len() % UNIT_BYTES, 0, "elements begin at a unit");
        debug_assert_eq!(element(&self.elements[place..]), (key, value), "an element reads back");
        u64::from(unit)
    }

    /// Counts the space left by a removed element. Once the space is half of the memory, the space is given back.
    fn leave(&mut self, bytes: usize) {
        self.left += (bytes / UNIT_BYTES) as u32;
        let left = self.left as usize * UNIT_BYTES;
        debug_assert!(left <= self.elements.len(), "no more space is left than there is");
        if left > LEFT_BYTES_MIN && left * 2 > self.elements.len() {
            self.gather(0);
        }
    }

    /// Moves all elements together, into memory with room for `more` bytes and for growth.
    #[cold]
    fn gather(&mut self, more: usize) {
        let used = self.elements.len() - self.left as usize * UNIT_BYTES;
        let mut gathered = Vec::new();
        gathered.reserve_exact(used + more + used / GROWTH);
        for slot in self.slots.iter_mut().filter(|slot| **slot != FREE) {
            let at = &self.elements[place_of(*slot)..];
            let (key, value) = element(at);
            let unit = (gathered.len() / UNIT_BYTES + 1) as u64;
            *slot = u64::from(tag_of(*slot)) << 32 | unit;
            gathered.extend_from_slice(&at[..element_bytes(key.len(), value.len())]);
        }
        debug_assert_eq!(gathered.len(), used, "the space of removed elements was counted");
        debug_assert_eq!(self.used_slots(), self.len(), "each element has a slot");
        (self.elements, self.left) = (gathered, 0);
    }
}

/// Puts a slot into the first free place, from the place of its tag on.
fn put(slots: &mut [u64], slot: u64) {
    debug_assert!(slots.contains(&FREE), "a table has a free slot");
    let mask = slots.len() - 1;
    let mut at = tag_of(slot) as usize & mask;
    while slots[at] != FREE {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

#[cfg(test)]
mod tests;
