//! The tests' objects: their operations do not commute, and one that is applied twice shows.

use std::cell::RefCell;

use ensile_objects::{CodecResult, Persistent};

/// A sum, and how many operations made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sum: u64,
    pub(crate) operations: u64,
    pub(crate) padding: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Makes the object if it is not there. Does not commute: what was there is doubled first.
    Add(u64),
    /// Removes an object, or makes one: what it does depends on what is there.
    Toggle,
    /// Makes the object this long.
    Grow(u32),
    /// Panics behind half a change, if it is told to.
    Panic,
    /// Adds what the thread says: not deterministic.
    AddFromThread,
}

thread_local! {
    /// Called in the midst of each operation, under its object's lock.
    static IN_OPERATION: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
    pub(crate) static PANICS: RefCell<bool> = const { RefCell::new(false) };
    static FROM_THREAD: RefCell<u64> = const { RefCell::new(0) };
}

/// Calls this in the midst of each operation of this thread, from now on.
pub(crate) fn in_operations(hook: Option<Box<dyn Fn()>>) {
    IN_OPERATION.with(|current| *current.borrow_mut() = hook);
}

impl Tally {
    fn new() -> Self {
        Self { sum: 0, operations: 0, padding: Vec::new() }
    }
}

/// What an operation makes of an object, without hooks.
pub(crate) fn changed(tally: &mut Option<Tally>, change: &Change) -> u64 {
    if *change == Change::Toggle && tally.take().is_some() {
        return 0;
    }
    let tally = tally.get_or_insert_with(Tally::new);
    tally.operations += 1;
    match change {
        Change::Add(by) => tally.sum = tally.sum.wrapping_mul(2).wrapping_add(*by),
        Change::Grow(bytes) => tally.padding = vec![tally.operations as u8; *bytes as usize],
        Change::Panic => {
            tally.sum = u64::MAX;
            assert!(!PANICS.with(|panics| *panics.borrow()), "told to");
        }
        Change::AddFromThread => {
            tally.sum += FROM_THREAD.with(|number| {
                *number.borrow_mut() += 1;
                *number.borrow()
            });
        }
        Change::Toggle => {}
    }
    tally.sum
}

impl Persistent for Tally {
    type Operation = Change;
    type Output = u64;
    const VERSION: u16 = 2;
    const OPERATION_VERSION: u16 = 1;

    fn apply(tally: &mut Option<Self>, change: &Change) -> u64 {
        IN_OPERATION.with(|hook| {
            if let Some(hook) = &*hook.borrow() {
                hook();
            }
        });
        changed(tally, change)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.operations.to_le_bytes());
        out.extend_from_slice(&self.padding);
    }

    /// Version 1 had no count.
    fn decode(version: u16, bytes: &[u8]) -> CodecResult<Self> {
        let (sum, rest) = bytes.split_first_chunk().ok_or("no sum")?;
        let sum = u64::from_le_bytes(*sum);
        if version == 1 {
            return Ok(Self { sum, ..Self::new() });
        }
        let (operations, padding) = rest.split_first_chunk().ok_or("no count")?;
        Ok(Self { sum, operations: u64::from_le_bytes(*operations), padding: padding.to_vec() })
    }

    fn encode_operation(change: &Change, out: &mut Vec<u8>) {
        let (kind, number) = match change {
            Change::Add(by) => (0, *by),
            Change::Toggle => (1, 0),
            Change::Grow(bytes) => (2, u64::from(*bytes)),
            Change::Panic => (3, 0),
            Change::AddFromThread => (4, 0),
        };
        out.push(kind);
        out.extend_from_slice(&number.to_le_bytes());
    }

    fn decode_operation(_version: u16, bytes: &[u8]) -> CodecResult<Change> {
        let (kind, number) = bytes.split_first().ok_or("no kind")?;
        let number = u64::from_le_bytes(number.try_into().map_err(|_| "no number")?);
        Ok(match kind {
            0 => Change::Add(number),
            1 => Change::Toggle,
            2 => Change::Grow(number as u32),
            3 => Change::Panic,
            4 => Change::AddFromThread,
            _ => return Err("no such change".into()),
        })
    }
}
