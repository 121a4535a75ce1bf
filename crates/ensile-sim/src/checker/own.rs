//! A transaction's view of its own writes.
//!
//! Neighbours: `reads` asks here before a look at other transactions' writes.

use super::writes::{ABSENT, NONE};
use crate::history::Value;

/// A transaction's own view of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnView<'o> {
    /// The transaction has not written the key.
    None,
    /// A register written, or a key deleted, by the transaction.
    Register(Value),
    /// A list that the transaction appended to; `cleared` if the transaction had deleted the key before.
    List { cleared: bool, own: &'o [Value] },
}

#[derive(Default)]
struct Written {
    value: Value,
    is_list: bool,
    cleared: bool,
    elements: Vec<Value>,
}

/// The writes so far of the current transaction.
pub(super) struct OwnWrites {
    transaction: u32,
    /// Per key: the last transaction here that wrote the key, and the index in `written`.
    slots: Vec<(u32, u32)>,
    written: Vec<Written>,
}

impl OwnWrites {
    pub(super) fn new(keys: usize) -> Self {
        Self { transaction: NONE, slots: vec![(NONE, 0); keys], written: Vec::new() }
    }

    /// Starts another transaction.
    pub(super) fn begin(&mut self, transaction: u32) {
        self.transaction = transaction;
        self.written.clear();
    }

    fn slot(&mut self, key: u32) -> &mut Written {
        let slot = &mut self.slots[key as usize];
        if slot.0 != self.transaction {
            *slot = (self.transaction, self.written.len() as u32);
            self.written.push(Written::default());
        }
        &mut self.written[slot.1 as usize]
    }

    pub(super) fn write(&mut self, key: u32, value: Value) {
        let written = self.slot(key);
        written.value = value;
        written.is_list = false;
        written.elements.clear();
    }

    pub(super) fn append(&mut self, key: u32, element: Value) {
        let fresh = self.slots[key as usize].0 != self.transaction;
        let written = self.slot(key);
        if !written.is_list {
            written.is_list = true;
            written.cleared = !fresh && written.value == ABSENT;
        }
        written.elements.push(element);
    }

    pub(super) fn view(&self, key: u32) -> OwnView<'_> {
        let (transaction, slot) = self.slots[key as usize];
        if transaction != self.transaction {
            return OwnView::None;
        }
        let written = &self.written[slot as usize];
        if written.is_list {
            OwnView::List { cleared: written.cleared, own: &written.elements }
        } else {
            OwnView::Register(written.value)
        }
    }
}
