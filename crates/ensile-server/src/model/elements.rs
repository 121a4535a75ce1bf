//! The elements of a hash, a set or a sorted set, each with a value, within a transaction.
//!
//! A small collection is packed in the row of its key. A larger collection has rows of its own:
//!
//! | table | key | value |
//! |---|---|---|
//! | `elements` | object, hash of the element, the element | value |
//! | `stripes` | object, stripe | number of the stripe's elements, number of changes |
//!
//! A stripe has the elements whose hashes begin with the same bits. The key's row has the number of these bits.
//!
//! Invariants:
//! - The number of a stripe's elements is exact. An element's write changes the number of changes of its stripe, also
//!   if the number of elements stays, so a transaction that has read all stripes has read all elements (`WATCH`).
//! - Clients that write elements of different stripes do not conflict, unless a stripe is new or empty.
//! - A key without elements is absent.
//! - A collection with rows stays a collection with rows.
//!
//! Neighbours: the commands of hashes, sets and sorted sets; `packed` has the form of small collections.

use std::ops::{ControlFlow, Range};

use ensile::{Error, Prefix, Readable, Result};

use super::keyspace::{Slot, ValueSlot};
use super::packed;
use super::stored_value::{Kind, NewValue, ValueHeader};
use super::{ELEMENT_BYTES_MAX, Keyspace, objects};

/// Largest packed collection in bytes.
pub(crate) const PACKED_BYTES_MAX: usize = 512;

/// Numbers of bits that name a stripe: of a new object, and after each growth.
const STRIPE_BITS: [u8; 3] = [0, 3, 6];
/// Largest number of stripes.
const STRIPES_MAX: usize = 64;
/// Number of a stripe's elements after which the collection gets more stripes.
const STRIPE_ELEMENTS_MAX: i64 = 512;

const _: () = assert!(STRIPES_MAX == 1 << STRIPE_BITS[STRIPE_BITS.len() - 1], "a stripe has a place");

/// Reason why a collection is not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The key has a value of another type.
    WrongKind,
    Engine(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Purpose of an opened collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The elements of a key's collection. An absent key has no elements. After a write, [`Elements::finish`] is called.
pub(crate) struct Elements<'s, 'k, 'db> {
    keyspace: &'s mut Keyspace<'k, 'db>,
    key: &'s [u8],
    slot: Slot,
    kind: Kind,
    form: Form,
}

/// Place of the elements.
enum Form {
    Packed { bytes: Vec<u8>, has_changed: bool },
    Rows(ElementRows),
}

/// The rows of a larger collection.
struct ElementRows {
    object: u64,
    /// Number of bits that name a stripe.
    stripe_bits: u8,
    /// True if the key's row is to be written.
    has_new_header: bool,
    /// The changed stripes, each once.
    changed: Vec<StripeChange>,
}

/// Change of a stripe by this transaction.
struct StripeChange {
    stripe: u32,
    /// Number of elements that came, less the elements that went.
    added: i64,
}

impl ElementRows {
    fn new(object: u64, stripe_bits: u8) -> Self {
        Self { object, stripe_bits, has_new_header: false, changed: Vec::new() }
    }

    /// Notes a written element.
    fn note(&mut self, hash: u64, added: i64) {
        let stripe = stripe_of(hash, self.stripe_bits);
        match self.changed.iter_mut().find(|change| change.stripe == stripe) {
            Some(change) => change.added += added,
            None => self.changed.push(StripeChange { stripe, added }),
        }
        debug_assert!(self.changed.len() <= STRIPES_MAX, "each stripe is noted once");
    }
}

/// Stripe of a hash: the first bits.
fn stripe_of(hash: u64, stripe_bits: u8) -> u32 {
    hash.checked_shr(u64::BITS - u32::from(stripe_bits)).unwrap_or(0) as u32
}

impl<'s, 'k, 'db> Elements<'s, 'k, 'db> {
    /// Opens the collection of a key.
    ///
    /// # Errors
    /// [`OpenError::WrongKind`] if the key has a value of another type.
    pub(crate) fn open(
        keyspace: &'s mut Keyspace<'k, 'db>,
        key: &'s [u8],
        kind: Kind,
        access: Access,
    ) -> Result<Self, OpenError> {
        let ValueSlot { slot, value } = match access {
            Access::Read => keyspace.read_slot(key)?,
            Access::Write => keyspace.value_slot(key)?,
        };
        let form = match value {
            None => Form::Packed { bytes: Vec::new(), has_changed: false },
            Some(value) if value.header.kind != kind => return Err(OpenError::WrongKind),
            Some(value) => match value.header.object {
                None => Form::Packed { bytes: value.bytes, has_changed: false },
                Some(object) => {
                    Form::Rows(ElementRows::new(object, value.bytes.first().copied().unwrap_or(0)))
                }
            },
        };
        Ok(Self { keyspace, key, slot, kind, form })
    }

    /// The value of an element.
    pub(crate) fn get(&mut self, element: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::find(bytes, element).map(|pair| pair.value.to_vec())),
            Form::Rows(rows) => {
                let place = (rows.object, self.keyspace.model.key_hash(element), element);
                let value = self.keyspace.tx.get(&self.keyspace.model.elements, &place)?;
                self.keyspace.copied_bytes += value.as_ref().map_or(0, Vec::len);
                Ok(value)
            }
        }
    }

    /// True if the element is there.
    pub(crate) fn contains(&mut self, element: &[u8]) -> Result<bool> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::find(bytes, element).is_some()),
            Form::Rows(rows) => {
                let place = (rows.object, self.keyspace.model.key_hash(element), element);
                self.keyspace.tx.contains(&self.keyspace.model.elements, &place)
            }
        }
    }

    /// Writes the value of an element. True if the element is new.
    pub(crate) fn insert(&mut self, element: &[u8], value: &[u8]) -> Result<bool> {
        if let Form::Packed { bytes, has_changed } = &mut self.form {
            *has_changed = true;
            let place = packed::find(bytes, element).map(|pair| pair.place);
            let is_new = place.is_none();
            replace(bytes, place, element, value);
            if bytes.len() > PACKED_BYTES_MAX {
                self.unpack()?;
            }
            return Ok(is_new);
        }
        let is_new = !self.contains(element)?;
        self.write_row(element, value, is_new)?;
        Ok(is_new)
    }

    /// Writes the row of an element.
    fn write_row(&mut self, element: &[u8], value: &[u8], is_new: bool) -> Result<()> {
        let Form::Rows(rows) = &mut self.form else {
            debug_assert!(false, "a packed collection has no rows");
            return Ok(());
        };
        let (tx, model) = (&mut *self.keyspace.tx, self.keyspace.model);
        let hash = model.key_hash(element);
        rows.note(hash, i64::from(is_new));
        tx.put(&model.elements, &(rows.object, hash, element), value)
    }

    /// Removes an element. True if the element was there.
    pub(crate) fn remove(&mut self, element: &[u8]) -> Result<bool> {
        match &mut self.form {
            Form::Packed { bytes, has_changed } => {
                let place = packed::find(bytes, element).map(|pair| pair.place);
                let is_there = place.is_some();
                if let Some(place) = place {
                    *has_changed = true;
                    bytes.drain(place);
                }
                Ok(is_there)
            }
            // No row has such an element, and the engine refuses the key.
            Form::Rows(_) if element.len() > ELEMENT_BYTES_MAX => Ok(false),
            Form::Rows(rows) => {
                let (tx, model) = (&mut *self.keyspace.tx, self.keyspace.model);
                let hash = model.key_hash(element);
                let is_there = tx.delete(&model.elements, &(rows.object, hash, element))?;
                if is_there {
                    rows.note(hash, -1);
                }
                Ok(is_there)
            }
        }
    }

    /// Number of elements.
    pub(crate) fn count(&mut self) -> Result<u64> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::pair_count(bytes) as u64),
            Form::Rows(rows) => {
                let unwritten: i64 = rows.changed.iter().map(|change| change.added).sum();
                let object = rows.object;
                Ok(u64::try_from(self.written_count(object)? + unwritten).unwrap_or(0))
            }
        }
    }

    /// Number of elements that the rows of the stripes have. The commit checks that all rows are of one moment.
    fn written_count(&mut self, object: u64) -> Result<i64> {
        let mut sum = 0;
        self.keyspace.tx.scan(&self.keyspace.model.stripes, Prefix((object,)), |_, (count, _)| {
            sum += count;
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    /// Visits the elements and their values until `visit` breaks. A packed collection has the order of insertion, and
    /// ignores the hash and gives hashes 0. A larger collection has the order of hashes, from a hash on.
    pub(crate) fn visit(
        &mut self,
        from_hash: u64,
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match &self.form {
            Form::Packed { bytes, .. } => {
                let _ = packed::pairs(bytes).try_for_each(|pair| visit(0, pair.element, pair.value));
                Ok(())
            }
            Form::Rows(rows) => {
                let bounds = (rows.object, from_hash, Vec::new())..(rows.object + 1, 0, Vec::new());
                let Keyspace { tx, model, copied_bytes, .. } = &mut *self.keyspace;
                tx.scan(&model.elements, bounds, |(_, hash, element), value| {
                    *copied_bytes += element.len() + value.len();
                    visit(hash, &element, value)
                })
            }
        }
    }

    /// Moves the elements of a packed collection into rows.
    fn unpack(&mut self) -> Result<()> {
        let object = objects::new_number(self.keyspace.tx, self.keyspace.model, self.keyspace.stripe)?;
        let mut rows = ElementRows::new(object, STRIPE_BITS[0]);
        rows.has_new_header = true;
        let form = std::mem::replace(&mut self.form, Form::Rows(rows));
        if let Form::Packed { bytes, .. } = form {
            packed::pairs(&bytes).try_for_each(|pair| self.write_row(pair.element, pair.value, true))?;
        }
        Ok(())
    }

    /// Writes the changes of the collection's own rows: the row of the key, or the stripes. A collection without
    /// elements goes with its key.
    pub(crate) fn finish(mut self) -> Result<()> {
        match std::mem::replace(&mut self.form, Form::Packed { bytes: Vec::new(), has_changed: false }) {
            Form::Packed { has_changed: false, .. } => Ok(()),
            Form::Packed { bytes, .. } if bytes.is_empty() => self.keyspace.remove(&self.slot, self.key),
            Form::Packed { bytes, .. } => {
                let header = self.header(None);
                self.keyspace.write(&self.slot, self.key, NewValue { header, bytes: &bytes })
            }
            Form::Rows(rows) if rows.changed.is_empty() => {
                debug_assert!(!rows.has_new_header, "a new object has elements");
                Ok(())
            }
            Form::Rows(rows) => self.finish_rows(rows),
        }
    }

    fn finish_rows(&mut self, mut rows: ElementRows) -> Result<()> {
        let (mut is_empty, mut is_full) = (false, false);
        for StripeChange { stripe, added } in std::mem::take(&mut rows.changed) {
            let (tx, model) = (&mut *self.keyspace.tx, self.keyspace.model);
            let place = (rows.object, stripe);
            let (count, changes) = tx.get(&model.stripes, &place)?.unwrap_or((0, 0));
            let count = count + added;
            // No assertion compares the count: only the commit checks that element and stripe are of one moment.
            tx.put(&model.stripes, &place, &(count, changes + 1))?;
            is_empty |= count <= 0;
            is_full |= added > 0 && count > STRIPE_ELEMENTS_MAX;
        }
        if is_empty && self.written_count(rows.object)? <= 0 {
            if rows.has_new_header {
                // No header has the object.
                objects::abandon(self.keyspace.tx, self.keyspace.model, rows.object)?;
            }
            return self.keyspace.remove(&self.slot, self.key);
        }
        if is_full && rows.stripe_bits < STRIPE_BITS[STRIPE_BITS.len() - 1] {
            self.divide(&mut rows)?;
        }
        if rows.has_new_header {
            let header = self.header(Some(rows.object));
            self.keyspace.write(&self.slot, self.key, NewValue { header, bytes: &[rows.stripe_bits] })?;
        }
        Ok(())
    }

    /// Gives a larger collection more stripes: each element counts in its new stripe.
    fn divide(&mut self, rows: &mut ElementRows) -> Result<()> {
        let count = self.written_count(rows.object)?;
        let enough = |bits: &u8| *bits > rows.stripe_bits && count >> bits <= STRIPE_ELEMENTS_MAX;
        let most = STRIPE_BITS[STRIPE_BITS.len() - 1];
        rows.stripe_bits = STRIPE_BITS.into_iter().find(enough).unwrap_or(most);
        rows.has_new_header = true;
        let (object, bits) = (rows.object, rows.stripe_bits);
        let mut counts = [0_i64; STRIPES_MAX];
        let Keyspace { tx, model, .. } = &mut *self.keyspace;
        tx.scan_keys(&model.elements, Prefix((object,)), |(_, hash, _)| {
            counts[stripe_of(hash, bits) as usize] += 1;
            ControlFlow::Continue(())
        })?;
        for (stripe, count) in (0..1_u32 << bits).zip(counts) {
            let changes = tx.get(&model.stripes, &(object, stripe))?.map_or(0, |(_, changes)| changes);
            tx.put(&model.stripes, &(object, stripe), &(count, changes + 1))?;
        }
        Ok(())
    }

    /// Header of the collection. The expiry stays.
    fn header(&self, object: Option<u64>) -> ValueHeader {
        let expiry_millis = self.slot.header.and_then(|header| header.expiry_millis);
        ValueHeader { kind: self.kind, expiry_millis, object }
    }
}

/// Replaces the pair at a place, or appends a pair.
fn replace(bytes: &mut Vec<u8>, place: Option<Range<usize>>, element: &[u8], value: &[u8]) {
    let mut pair = Vec::with_capacity(element.len() + value.len() + 4);
    packed::push(&mut pair, element);
    packed::push(&mut pair, value);
    match place {
        Some(place) => drop(bytes.splice(place, pair)),
        None => bytes.extend_from_slice(&pair),
    }
}

#[cfg(test)]
mod tests {
    use super::stripe_of;

    #[test]
    fn a_stripe_is_named_by_the_first_bits_of_the_hash() {
        assert_eq!([0, u64::MAX].map(|hash| stripe_of(hash, 0)), [0, 0]);
        assert_eq!([0, 1 << 61, u64::MAX].map(|hash| stripe_of(hash, 3)), [0, 1, 7]);
    }
}
