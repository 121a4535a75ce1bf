//! A bucket: its elements in one piece of memory, and slots that tell where each is.
//!
//! ```text
//! slot       tag 32, of the key's hash | the element's place and 1, 32, in units of 8 bytes        zero: free
//! element    key's length 1 or 5 | value's length 1 or 5 | key | value | up to a multiple of 8
//! length     itself, below 255 | 255, itself 4
//! ```
//! A lookup so reads two places of memory behind the bucket itself: a line of slots, and the element. Slots are
//! searched from the tag's place on, up to a free one. A value of 30 bytes under a key of 16 takes some 70 bytes.
//!
//! Invariants:
//! - Each slot that is not free has the place of an element, and no two the same one.
//! - What elements that went have left is counted, and less than half of the memory once there is much of it.
//!
//! Neighbours: [`super::table`] has the locks, and hashes; [`super`] looks elements up and changes them.

use ensile_memory::prefetch;

/// Slots of a bucket's first table.
const FIRST_SLOTS: usize = 8;
/// A length that stands behind this byte is not below it.
const LONG: u8 = u8::MAX;
/// Bytes of both lengths, at most.
const HEAD_BYTES_MAX: usize = 10;
/// Elements begin at multiples of it.
const UNIT_BYTES: usize = 8;
/// Memory grows by one part in this many: no element is to take much more than it needs.
const GROWTH: usize = 8;
/// Memory grows by no less.
const GROWTH_BYTES_MIN: usize = 128;
/// So much that was left by elements that went is always endured.
const LEFT_BYTES_MIN: usize = 4096;
/// The most bytes of an element that are prefetched; the processor sees the others coming.
const PREFETCHED_BYTES_MAX: usize = 4096;

/// How many slots ahead an element is asked for that is read soon.
const FETCHED_AHEAD: usize = 16;

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
    pub(super) slots: Box<[u64]>,
    elements: Vec<u8>,
    count: u32,
    /// Units that elements which went have left.
    left: u32,
}

fn place_of(slot: u64) -> usize {
    (slot as u32 as usize - 1) * UNIT_BYTES
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

/// The lengths before an element of these parts, and how many bytes they take.
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
    (head, end)
}

/// Bytes of the lengths before an element of these parts.
#[inline]
fn head_bytes(key: usize, value: usize) -> usize {
    let long = usize::from(key >= usize::from(LONG)) + usize::from(value >= usize::from(LONG));
    2 + 4 * long
}

/// Bytes of an element of these parts.
#[inline]
fn element_bytes(key: usize, value: usize) -> usize {
    (head_bytes(key, value) + key + value).next_multiple_of(UNIT_BYTES)
}

/// A length at the begin of these bytes, and what is behind it.
#[inline]
fn length(bytes: &[u8]) -> (usize, &[u8]) {
    let (first, behind) = bytes.split_first().expect("an element begins with its lengths");
    if *first < LONG {
        return (usize::from(*first), behind);
    }
    let (length, behind) = behind.split_first_chunk().expect("a long length has four bytes");
    (u32::from_le_bytes(*length) as usize, behind)
}

/// The element at the begin of these bytes: its key and its value.
#[inline]
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (key, behind) = length(bytes);
    let (value, behind) = length(behind);
    let (key, behind) = behind.split_at(key);
    (key, &behind[..value])
}

impl PhtBucket {
    /// How many elements there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// All elements: keys and values. They lie in any order, and were last used long ago: each is asked for ahead.
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
                self.prefetch_place(place_of(slot), self.prefetched_bytes());
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

    /// Asks for the lines of what may be a key's element.
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

    /// How much of an element is asked for: as much as elements here take on the average.
    #[inline]
    fn prefetched_bytes(&self) -> usize {
        (self.elements.len() / self.len().max(1)).min(PREFETCHED_BYTES_MAX)
    }

    /// Asks for the lines of the element at this place.
    #[inline]
    fn prefetch_place(&self, place: usize, bytes: usize) {
        let element = self.elements[place..].as_ptr();
        prefetch::lines(element, bytes);
        // The last byte may be on one line more.
        prefetch::line(element.wrapping_add(bytes.saturating_sub(1)));
    }

    /// Gives an element this value, which is made if it is not there.
    pub(super) fn set(&mut self, key: PhtKey<'_>, value: &[u8]) {
        let Some((at, before)) = self.find(key) else {
            self.make_slot();
            let place = self.append(key.bytes, value);
            put(&mut self.slots, u64::from(key.tag) << 32 | place);
            self.count += 1;
            return;
        };
        if value.len() == before {
            let at = place_of(self.slots[at]) + head_bytes(key.bytes.len(), before) + key.bytes.len();
            self.elements[at..at + before].copy_from_slice(value);
            return;
        }
        let bytes_before = element_bytes(key.bytes.len(), before);
        if element_bytes(key.bytes.len(), value.len()) == bytes_before {
            // It takes the place of the one before.
            let (head, head_bytes) = head_of(key.bytes.len(), value.len());
            let place = &mut self.elements[place_of(self.slots[at])..][..bytes_before];
            let (in_head, behind) = place.split_at_mut(head_bytes);
            let (in_key, behind) = behind.split_at_mut(key.bytes.len());
            in_head.copy_from_slice(&head[..head_bytes]);
            in_key.copy_from_slice(key.bytes);
            behind[..value.len()].copy_from_slice(value);
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
        self.leave(element_bytes(key.bytes.len(), value));
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
        let bytes = element_bytes(key.len(), value.len());
        if self.elements.len() + bytes > self.elements.capacity() {
            // What growth would bring is taken from what was left first.
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

    /// Moves all elements together, into memory with room for `more` bytes, and to grow.
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
