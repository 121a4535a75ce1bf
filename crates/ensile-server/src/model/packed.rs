//! Elements of a small collection, one behind the other within the row of the key.
//!
//! ```text
//! +---------------------------+---------+---------------------------+---------+--
//! | length, 7 bits a byte ..  | bytes.. | length, 7 bits a byte ..  | bytes.. | ..
//! +---------------------------+---------+---------------------------+---------+--
//! a length has the low bits first, and bit 7 set in each byte but the last
//! ```
//! A hash has pairs of field and value, a set has pairs of member and nothing, a sorted set has pairs of member and
//! score, and a list has items.
//!
//! Invariant: the form never changes.
//!
//! Neighbours: [`super::elements`] has the pairs of hashes, sets and sorted sets.

use std::ops::Range;

/// Appends an item.
pub(crate) fn push(bytes: &mut Vec<u8>, item: &[u8]) {
    let mut left = item.len();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(item);
}

/// Items in their order. The iteration ends at bytes that are no item.
#[derive(Clone, Debug)]
pub(crate) struct Items<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// An item, and the place of the item with its length in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) place: Range<usize>,
}

/// The items of packed bytes.
pub(crate) fn items(bytes: &[u8]) -> Items<'_> {
    Items { bytes, at: 0 }
}

impl<'b> Iterator for Items<'b> {
    type Item = Item<'b>;

    fn next(&mut self) -> Option<Item<'b>> {
        let (begin, mut length, mut shift) = (self.at, 0_usize, 0);
        let mut at = begin;
        loop {
            let byte = *self.bytes.get(at)?;
            at += 1;
            length |= usize::from(byte & 0x7F).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        let end = at.checked_add(length)?;
        let item = self.bytes.get(at..end)?;
        self.at = end;
        Some(Item { bytes: item, place: begin..end })
    }
}

/// An element with its value, and the place of both in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'b> {
    pub(crate) element: &'b [u8],
    pub(crate) value: &'b [u8],
    pub(crate) place: Range<usize>,
}

/// The pairs of packed bytes.
pub(crate) fn pairs(bytes: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut items = items(bytes);
    std::iter::from_fn(move || {
        let (element, value) = (items.next()?, items.next()?);
        Some(Pair { element: element.bytes, value: value.bytes, place: element.place.start..value.place.end })
    })
}

/// Number of pairs.
pub(crate) fn pair_count(bytes: &[u8]) -> usize {
    pairs(bytes).count()
}

/// The pair of an element.
pub(crate) fn find<'b>(bytes: &'b [u8], element: &[u8]) -> Option<Pair<'b>> {
    pairs(bytes).find(|pair| pair.element == element)
}

#[cfg(test)]
mod tests {
    use super::{find, items, pair_count, push};

    #[test]
    fn packed_items_come_back() {
        let (long, mut bytes) = (vec![7; 20_000], Vec::new());
        let all: [&[u8]; 5] = [b"", b"a", &long[..127], &long[..128], &long];
        all.iter().for_each(|item| push(&mut bytes, item));
        assert!(items(&bytes).map(|item| item.bytes).eq(all));
        assert!(items(&bytes).all(|item| bytes[item.place].ends_with(item.bytes)));
        for cut in [1, 100, 20_000] {
            assert_eq!(items(&bytes[..bytes.len() - cut]).count(), 4, "a cut item is no item");
        }
    }

    #[test]
    fn a_pair_is_found_by_its_element() {
        let mut bytes = Vec::new();
        [&b"f"[..], b"1", b"g", b"2"].iter().for_each(|item| push(&mut bytes, item));
        assert_eq!((pair_count(&bytes), find(&bytes, b"1")), (2, None), "a value is no element");
        let pair = find(&bytes, b"g").expect("the element is there");
        assert_eq!((pair.value, pair.place), (&b"2"[..], 4..8));
    }
}
