//! A bucket: its elements in one piece of memory, and slots that tell where each is.
//!
//! ```text
//! slot       tag 32, of the key's hash | the element's place and 1, 32, in units of 8 bytes        zero: free
//! element    key's length 4 | value's length 4 | key | value | up to a multiple of 8
//! ```
//! A lookup so reads two places of memory behind the bucket itself: a line of slots, and the element. Slots are
//! searched from the tag's place on, up to a free one. An element of 30 bytes takes some 70 with all that is beside it.
//!
//! Invariants:
//! - Each slot that is not free has the place of an element, and no two the same one.
//! - What elements that went have left is counted, and less than half of the memory once there is much of it.
//!
//! Neighbours: [`super::table`] has the locks, and hashes; [`super`] looks elements up and changes them.

use ensile_base::Epoch;
use ensile_memory::prefetch;

/// Slots of a bucket's first table.
const FIRST_SLOTS: usize = 8;
/// Bytes of lengths before a key.
const HEAD_BYTES: usize = 8;
/// Elements begin at multiples of it.
const UNIT_BYTES: usize = 8;
/// Memory grows by no less.
const GROWTH_BYTES_MIN: usize = 128;
/// So much that was left by elements that went is always endured.
const LEFT_BYTES_MIN: usize = 4096;
/// The most bytes of an element that are prefetched; the processor sees the others coming.
const PREFETCHED_BYTES_MAX: usize = 1024;

const FREE: u64 = 0;

/// A key, and where it is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhtKey<'k> {
    pub(super) bytes: &'k [u8],
    /// Its bucket, the same for ever.
    pub(super) bucket: u64,
    /// Of its hash in this process.
    pub(super) tag: u32,
}

/// The elements of a bucket.
#[derive(Debug, Default)]
pub(super) struct PhtBucket {
    /// As many as a power of two, or none before the first element.
    slots: Box<[u64]>,
    elements: Vec<u8>,
    count: u32,
    /// Units that elements which went have left.
    left: u32,
    /// The epoch of the last change.
    pub(super) last: Epoch, // persist
}

fn place_of(slot: u64) -> usize {
    (slot as u32 as usize - 1) * UNIT_BYTES
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

/// Bytes of an element.
fn element_bytes(key: &[u8], value: &[u8]) -> usize {
    (HEAD_BYTES + key.len() + value.len()).next_multiple_of(UNIT_BYTES)
}

/// The element at the begin of these bytes.
#[inline]
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (head, behind) = bytes.split_first_chunk::<HEAD_BYTES>().expect("an element begins with its lengths");
    let lengths = u64::from_le_bytes(*head);
    let (key, behind) = behind.split_at(lengths as u32 as usize);
    (key, &behind[..(lengths >> 32) as usize])
}

impl PhtBucket {
    /// How many elements there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there has never been an element.
    pub(super) fn is_unused(&self) -> bool {
        self.slots.is_empty()
    }

    /// All elements: keys and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let used = self.slots.iter().filter(|slot| **slot != FREE);
        used.map(|slot| element(&self.elements[place_of(*slot)..]))
    }

    /// A value.
    #[inline]
    pub(super) fn get(&self, key: PhtKey<'_>) -> Option<&[u8]> {
        let (at, _) = self.find(key)?;
        Some(element(&self.elements[place_of(self.slots[at])..]).1)
    }

    /// The number of a key's slot, and the length of its value.
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
                let (its, value) = element(&self.elements[place_of(slot)..]);
                if its == key.bytes {
                    return Some((at, value.len()));
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Asks for the line of slots where the search for a key begins.
    #[inline]
    pub(super) fn prefetch_slots(&self, key: PhtKey<'_>) {
        if let Some(slot) = self.slots.get(key.tag as usize & self.slots.len().wrapping_sub(1)) {
            prefetch::line(slot);
        }
    }

    /// Asks for the lines of what may be a key's element: as many as elements here have on the average.
    #[inline]
    pub(super) fn prefetch_element(&self, key: PhtKey<'_>) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key.tag as usize & mask;
        while let Some(slot) = self.slots.get(at).copied().filter(|slot| *slot != FREE) {
            if tag_of(slot) == key.tag {
                let bytes = (self.elements.len() / self.len().max(1)).min(PREFETCHED_BYTES_MAX);
                let element = self.elements[place_of(slot)..].as_ptr();
                prefetch::lines(element, bytes);
                // The last byte may be on one line more.
                prefetch::line(element.wrapping_add(bytes.saturating_sub(1)));
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Gives an element this value, which is made if it is not there.
    pub(super) fn set(&mut self, key: PhtKey<'_>, value: &[u8]) {
        let bytes = element_bytes(key.bytes, value);
        let Some((at, before)) = self.find(key) else {
            self.make_slot();
            let place = self.append(key.bytes, value);
            put(&mut self.slots, u64::from(key.tag) << 32 | place);
            self.count += 1;
            return;
        };
        let place = place_of(self.slots[at]);
        let bytes_before = (HEAD_BYTES + key.bytes.len() + before).next_multiple_of(UNIT_BYTES);
        if bytes == bytes_before {
            // It takes the place of the one before.
            self.elements[place + 4..place + HEAD_BYTES].copy_from_slice(&(value.len() as u32).to_le_bytes());
            self.elements[place + HEAD_BYTES + key.bytes.len()..][..value.len()].copy_from_slice(value);
            return;
        }
        // Slots stay where they are while elements move.
        let place = self.append(key.bytes, value);
        self.slots[at] = u64::from(key.tag) << 32 | place;
        self.leave(bytes_before);
    }

    /// Removes an element, if it is there.
    pub(super) fn remove(&mut self, key: PhtKey<'_>) {
        let Some((mut hole, value)) = self.find(key) else { return };
        let mask = self.slots.len() - 1;
        // Those behind it move up, as far as no search for them begins behind the hole.
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
        self.leave((HEAD_BYTES + key.bytes.len() + value).next_multiple_of(UNIT_BYTES));
    }

    /// Sees to a free slot.
    fn make_slot(&mut self) {
        // At most three quarters full: searches are short.
        if (self.count as usize + 1) * 4 > self.slots.len() * 3 {
            let size = (self.slots.len() * 2).max(FIRST_SLOTS);
            let mut slots: Box<[u64]> = vec![FREE; size].into();
            self.slots.iter().filter(|slot| **slot != FREE).for_each(|slot| put(&mut slots, *slot));
            self.slots = slots;
        }
    }

    /// Puts an element behind the others; what a slot has of its place.
    fn append(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let bytes = element_bytes(key, value);
        if self.elements.len() + bytes > self.elements.capacity() {
            // What a quarter, or an eighth, of the memory would bring is taken from what was left first.
            if self.left as usize * UNIT_BYTES * 8 > self.elements.len() + bytes {
                self.gather(bytes);
            } else {
                let more = bytes.max(self.elements.len() / 4).max(GROWTH_BYTES_MIN);
                self.elements.reserve_exact(more);
            }
        }
        let place = self.elements.len();
        let unit = u32::try_from(place / UNIT_BYTES + 1).expect("a bucket has less than 32 GiB");
        let lengths = key.len() as u64 | (value.len() as u64) << 32;
        self.elements.extend_from_slice(&lengths.to_le_bytes());
        self.elements.extend_from_slice(key);
        self.elements.extend_from_slice(value);
        self.elements.resize(place + bytes, 0);
        u64::from(unit)
    }

    /// Counts what an element that went has left. Once that is half of the memory, it is given back.
    fn leave(&mut self, bytes: usize) {
        self.left += (bytes / UNIT_BYTES) as u32;
        let left = self.left as usize * UNIT_BYTES;
        if left > LEFT_BYTES_MIN && left * 2 > self.elements.len() {
            self.gather(0);
        }
    }

    /// Moves all elements together, into memory with room for `more` bytes, and an eighth.
    #[cold]
    fn gather(&mut self, more: usize) {
        let used = self.elements.len() - self.left as usize * UNIT_BYTES;
        let mut gathered = Vec::new();
        gathered.reserve_exact(used + more + used / 8);
        for slot in self.slots.iter_mut().filter(|slot| **slot != FREE) {
            let at = &self.elements[place_of(*slot)..];
            let (key, value) = element(at);
            let unit = (gathered.len() / UNIT_BYTES + 1) as u64;
            *slot = u64::from(tag_of(*slot)) << 32 | unit;
            gathered.extend_from_slice(&at[..element_bytes(key, value)]);
        }
        debug_assert_eq!(gathered.len(), used, "what went was counted");
        (self.elements, self.left) = (gathered, 0);
    }
}

/// Puts a slot into the first free one from its place on.
fn put(slots: &mut [u64], slot: u64) {
    let mask = slots.len() - 1;
    let mut at = tag_of(slot) as usize & mask;
    while slots[at] != FREE {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

#[cfg(test)]
mod tests;
