//! The objects that `slach cost` calls. An object is a byte array and a counter of changes.
//!
//! Neighbours: [`super`] calls the objects.

use ensile_base::sync::{Mutex, MutexGuard};
use ensile_objects::{Application, CallBackResult, CodecResult, ObjectWriter, Persistent};

/// An object: the bytes of the last operation and the number of operations.
#[derive(Debug)]
pub(in crate::slach) struct Held<const BYTES: usize> {
    bytes: [u8; BYTES],
    changes: u64,
}

impl<const BYTES: usize> Held<BYTES> {
    pub(super) fn of(bytes: &[u8; BYTES]) -> Self {
        Self { bytes: *bytes, changes: 0 }
    }

    /// Runs an operation and returns the number of operations.
    pub(super) fn change(&mut self, bytes: &[u8; BYTES]) -> u64 {
        self.bytes = *bytes;
        self.changes += 1;
        self.changes
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&self.changes.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> CodecResult<Self> {
        let (bytes, changes) = bytes.split_first_chunk().ok_or("an object without its bytes")?;
        let changes = changes.try_into().map_err(|_| "an object without its count")?;
        Ok(Self { bytes: *bytes, changes: u64::from_le_bytes(changes) })
    }
}

impl<const BYTES: usize> Persistent for Held<BYTES> {
    type Operation = [u8; BYTES];
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, bytes: &[u8; BYTES]) -> u64 {
        object.get_or_insert_with(|| Self { bytes: *bytes, changes: 0 }).change(bytes)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.append(out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        Self::read(bytes)
    }

    fn encode_operation(bytes: &[u8; BYTES], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<[u8; BYTES]> {
        bytes.try_into().map_err(|_| "an operation of another length".into())
    }
}

/// Objects in the application's own memory.
pub(super) struct OwnObjects<const BYTES: usize>(Box<[Mutex<Held<BYTES>>]>);

/// Number of the only operation.
pub(super) const WRITTEN: u32 = 0;

impl<const BYTES: usize> OwnObjects<BYTES> {
    pub(super) fn new(objects: u64) -> Self {
        Self((0..objects).map(|_| Mutex::new(Held::of(&[0; BYTES]))).collect())
    }

    /// Guard of an object.
    pub(super) fn lock(&self, object: u64) -> MutexGuard<'_, Held<BYTES>> {
        self.0[object as usize].lock()
    }

    fn of(&self, object: u64) -> Result<MutexGuard<'_, Held<BYTES>>, &'static str> {
        if object < self.0.len() as u64 { Ok(self.lock(object)) } else { Err("there is no such object") }
    }
}

impl<const BYTES: usize> Application for OwnObjects<BYTES> {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        let mut bytes = Vec::new();
        for object in from..self.0.len() as u64 {
            bytes.clear();
            let held = self.lock(object);
            held.append(&mut bytes);
            if !out.ckpt(object, &bytes) {
                return Some(object + 1);
            }
        }
        None
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        *self.of(object)? = Held::read(bytes)?;
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        let (WRITTEN, [bytes]) = (operation, parameters) else { return Err("no such operation".into()) };
        let bytes: &[u8; BYTES] = (*bytes).try_into().map_err(|_| "an operation of another length")?;
        self.of(object)?.change(bytes);
        Ok(())
    }
}
