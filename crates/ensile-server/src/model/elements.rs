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
//! - Y1: the number of a stripe's elements is exact. An element's write changes the number of changes of its stripe,
//!   also if the number of elements stays, so a transaction that has read all stripes has read all elements (`WATCH`).
//! - Clients that write elements of different stripes do not conflict, unless a stripe is new or empty.
//! - Y3: a key without elements is absent.
//! - A collection with rows stays a collection with rows.
//!
//! Neighbours: the commands of hashes, sets and sorted sets; `packed` has the form of small collections;
//! `random_elements` draws.

use std::ops::{ControlFlow, Range};

use ensile::{Error, Prefix, Readable, Result};
use ensile_base::random::Random;

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
    /// Expiry of the key after a write, in milliseconds since 1970.
    expiry_millis: Option<i64>,
    collection: Collection,
}

/// A key's collection as its commands read it. Several collections can be read in turns.
pub(crate) struct Collection {
    pub(super) form: Form,
}

/// Place of the elements.
pub(super) enum Form {
    Packed { bytes: Vec<u8>, has_changed: bool },
    Rows(ElementRows),
}

/// The rows of a larger collection.
pub(super) struct ElementRows {
    pub(super) object: u64,
    /// Number of bits that name a stripe.
    pub(super) stripe_bits: u8,
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
            None => Form::EMPTY,
            Some(value) if value.header.kind != kind => return Err(OpenError::WrongKind),
            Some(value) => match value.header.object {
                None => Form::Packed { bytes: value.bytes, has_changed: false },
                Some(object) => {
                    Form::Rows(ElementRows::new(object, value.bytes.first().copied().unwrap_or(0)))
                }
            },
        };
        let expiry_millis = slot.header.and_then(|header| header.expiry_millis);
        Ok(Self { keyspace, key, slot, kind, expiry_millis, collection: Collection { form } })
    }

    /// A new collection without elements in the place of a key's value of any type. [`Elements::finish`] writes the
    /// key, or removes the key if the collection stays empty.
    pub(crate) fn replace(keyspace: &'s mut Keyspace<'k, 'db>, key: &'s [u8], kind: Kind) -> Result<Self> {
        let slot = keyspace.slot(key)?;
        let collection = Collection { form: Form::Packed { bytes: Vec::new(), has_changed: true } };
        Ok(Self { keyspace, key, slot, kind, expiry_millis: None, collection })
    }

    /// The collection alone, for reads beside other collections.
    pub(crate) fn into_collection(self) -> Collection {
        debug_assert!(!self.collection.has_changed(), "changes are finished");
        self.collection
    }

    /// The value of an element.
    pub(crate) fn get(&mut self, element: &[u8]) -> Result<Option<Vec<u8>>> {
        self.collection.get(self.keyspace, element)
    }

    /// True if the element is there.
    pub(crate) fn contains(&mut self, element: &[u8]) -> Result<bool> {
        self.collection.contains(self.keyspace, element)
    }

    /// Number of elements.
    pub(crate) fn count(&mut self) -> Result<u64> {
        self.collection.count(self.keyspace)
    }

    /// As [`Collection::visit`].
    pub(crate) fn visit(
        &mut self,
        from_hash: u64,
        visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.collection.visit(self.keyspace, from_hash, visit)
    }

    /// As [`Collection::random`].
    pub(crate) fn random(&mut self, random: &mut Random) -> Result<Option<Vec<u8>>> {
        self.collection.random(self.keyspace, random)
    }

    /// The collection and the keyspace, for reads.
    pub(crate) fn parts(&mut self) -> (&Collection, &mut Keyspace<'k, 'db>) {
        (&self.collection, self.keyspace)
    }

    /// Writes the value of an element. True if the element is new.
    pub(crate) fn insert(&mut self, element: &[u8], value: &[u8]) -> Result<bool> {
        if self.add(element, value)? {
            return Ok(true);
        }
        self.overwrite(element, value)?;
        Ok(false)
    }

    /// Writes the value of an element that is there.
    pub(super) fn overwrite(&mut self, element: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.collection.form {
            Form::Packed { bytes, has_changed } => {
                *has_changed = true;
                let place = packed::find(bytes, element).map(|pair| pair.place);
                debug_assert!(place.is_some(), "an element that is not new has its pair");
                replace(bytes, place, element, value);
                if bytes.len() > PACKED_BYTES_MAX {
                    self.unpack()?;
                }
            }
            Form::Rows(rows) => {
                let (tx, model) = (&mut *self.keyspace.tx, self.keyspace.model);
                let hash = model.key_hash(element);
                rows.note(hash, 0);
                tx.put(&model.elements, &(rows.object, hash, element), value)?;
            }
        }
        Ok(())
    }

    /// Writes an element with its value, unless the element is there. True if the element is new.
    pub(crate) fn add(&mut self, element: &[u8], value: &[u8]) -> Result<bool> {
        debug_assert!(element.len() <= ELEMENT_BYTES_MAX, "the command has checked the length");
        if let Form::Packed { bytes, has_changed } = &mut self.collection.form {
            if packed::find(bytes, element).is_some() {
                return Ok(false);
            }
            *has_changed = true;
            replace(bytes, None, element, value);
            if bytes.len() > PACKED_BYTES_MAX {
                self.unpack()?;
            }
            return Ok(true);
        }
        self.add_row(element, value)
    }

    /// Writes the row of an element, unless the row is there. True if the row is new.
    fn add_row(&mut self, element: &[u8], value: &[u8]) -> Result<bool> {
        let Form::Rows(rows) = &mut self.collection.form else {
            debug_assert!(false, "a packed collection has no rows");
            return Ok(false);
        };
        let (tx, model) = (&mut *self.keyspace.tx, self.keyspace.model);
        let hash = model.key_hash(element);
        match tx.insert(&model.elements, &(rows.object, hash, element), value) {
            Ok(()) => {
                rows.note(hash, 1);
                Ok(true)
            }
            Err(Error::KeyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes an element. True if the element was there.
    pub(crate) fn remove(&mut self, element: &[u8]) -> Result<bool> {
        match &mut self.collection.form {
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

    /// The keyspace, for the rows that a type has beside the elements.
    pub(super) fn keyspace(&mut self) -> &mut Keyspace<'k, 'db> {
        self.keyspace
    }

    /// Notes new elements for clients that wait for the key.
    pub(super) fn note_pushed(&mut self, count: usize) {
        self.keyspace.note_pushed(self.kind, self.key, count);
    }

    /// Number under which the elements have rows; `None` for a packed collection.
    pub(super) fn object(&self) -> Option<u64> {
        match &self.collection.form {
            Form::Packed { .. } => None,
            Form::Rows(rows) => Some(rows.object),
        }
    }

    /// The bytes of a packed collection; empty for a larger collection.
    pub(super) fn packed_bytes(&self) -> &[u8] {
        match &self.collection.form {
            Form::Packed { bytes, .. } => bytes,
            Form::Rows(_) => &[],
        }
    }

    /// Removes all elements, and the key.
    pub(crate) fn clear(self) -> Result<()> {
        debug_assert!(!self.collection.has_changed(), "a change before would be in vain");
        self.keyspace.remove(&self.slot, self.key)
    }

    /// Moves the elements of a packed collection into rows.
    fn unpack(&mut self) -> Result<()> {
        let object = objects::new_number(self.keyspace.tx, self.keyspace.model, self.keyspace.stripe)?;
        let mut rows = ElementRows::new(object, STRIPE_BITS[0]);
        rows.has_new_header = true;
        let form = std::mem::replace(&mut self.collection.form, Form::Rows(rows));
        if let Form::Packed { bytes, .. } = form {
            for pair in packed::pairs(&bytes) {
                let is_new = self.add_row(pair.element, pair.value)?;
                debug_assert!(is_new, "a new object has no rows, and a packed element has one pair");
            }
        }
        Ok(())
    }

    /// Writes the changes of the collection's own rows: the row of the key, or the stripes. A collection without
    /// elements goes with its key.
    pub(crate) fn finish(mut self) -> Result<()> {
        match std::mem::replace(&mut self.collection.form, Form::EMPTY) {
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
        if is_empty && written_count(self.keyspace, rows.object)? <= 0 {
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
        let count = written_count(self.keyspace, rows.object)?;
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

    /// Header of the collection. The expiry of a changed collection stays.
    fn header(&self, object: Option<u64>) -> ValueHeader {
        ValueHeader { kind: self.kind, expiry_millis: self.expiry_millis, object }
    }
}

impl Form {
    /// The elements of an absent key.
    const EMPTY: Self = Self::Packed { bytes: Vec::new(), has_changed: false };
}

impl Collection {
    fn has_changed(&self) -> bool {
        match &self.form {
            Form::Packed { has_changed, .. } => *has_changed,
            Form::Rows(rows) => !rows.changed.is_empty(),
        }
    }

    /// True if the key is absent.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(&self.form, Form::Packed { bytes, .. } if bytes.is_empty())
    }

    /// The value of an element.
    pub(crate) fn get(&self, keyspace: &mut Keyspace<'_, '_>, element: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::find(bytes, element).map(|pair| pair.value.to_vec())),
            Form::Rows(_) if element.len() > ELEMENT_BYTES_MAX => Ok(None),
            Form::Rows(rows) => {
                let place = (rows.object, keyspace.model.key_hash(element), element);
                let value = keyspace.tx.get(&keyspace.model.elements, &place)?;
                keyspace.copied_bytes += value.as_ref().map_or(0, Vec::len);
                Ok(value)
            }
        }
    }

    /// True if the element is there.
    pub(crate) fn contains(&self, keyspace: &mut Keyspace<'_, '_>, element: &[u8]) -> Result<bool> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::find(bytes, element).is_some()),
            Form::Rows(_) if element.len() > ELEMENT_BYTES_MAX => Ok(false),
            Form::Rows(rows) => {
                let place = (rows.object, keyspace.model.key_hash(element), element);
                keyspace.tx.contains(&keyspace.model.elements, &place)
            }
        }
    }

    /// Number of elements.
    pub(crate) fn count(&self, keyspace: &mut Keyspace<'_, '_>) -> Result<u64> {
        match &self.form {
            Form::Packed { bytes, .. } => Ok(packed::pair_count(bytes) as u64),
            Form::Rows(rows) => {
                let unwritten: i64 = rows.changed.iter().map(|change| change.added).sum();
                Ok(u64::try_from(written_count(keyspace, rows.object)? + unwritten).unwrap_or(0))
            }
        }
    }

    /// Visits the elements and their values until `visit` breaks. A packed collection has the order of insertion, and
    /// ignores the hash and gives hashes 0. A larger collection has the order of hashes, from a hash on.
    pub(crate) fn visit(
        &self,
        keyspace: &mut Keyspace<'_, '_>,
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
                let Keyspace { tx, model, copied_bytes, .. } = keyspace;
                tx.scan(&model.elements, bounds, |(_, hash, element), value| {
                    *copied_bytes += element.len() + value.len();
                    visit(hash, &element, value)
                })
            }
        }
    }

    /// As [`Collection::visit`] from the begin on, for elements without their values.
    pub(crate) fn visit_names(
        &self,
        keyspace: &mut Keyspace<'_, '_>,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match &self.form {
            Form::Packed { bytes, .. } => {
                let _ = packed::pairs(bytes).try_for_each(|pair| visit(pair.element));
                Ok(())
            }
            Form::Rows(rows) => {
                let Keyspace { tx, model, copied_bytes, .. } = keyspace;
                tx.scan_keys(&model.elements, Prefix((rows.object,)), |(_, _, element)| {
                    *copied_bytes += element.len();
                    visit(&element)
                })
            }
        }
    }
}

/// Number of elements that the rows of the stripes have. The commit checks that all rows are of one moment.
pub(super) fn written_count(keyspace: &mut Keyspace<'_, '_>, object: u64) -> Result<i64> {
    let mut sum = 0;
    keyspace.tx.scan(&keyspace.model.stripes, Prefix((object,)), |_, (count, _)| {
        sum += count;
        ControlFlow::Continue(())
    })?;
    Ok(sum)
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
