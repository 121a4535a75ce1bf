//! The entries of a data or rows block: `tid u64 · body length u32 · body`, contiguous.
//!
//! Neighbours: log buffers and checkpoint blocks frame the entries; `recovery` parses the entries for replay and load.

use ensile_base::Tid;

use super::{u32_at, u64_at};

/// Bytes before an entry's body.
pub(crate) const ENTRY_FRAME_BYTES: usize = 12;

/// Appends an entry to the bytes of a payload; `body` appends the entry's body. Returns the body's length.
#[inline]
pub(crate) fn push_entry(bytes: &mut Vec<u8>, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) -> usize {
    let at = bytes.len();
    let mut frame = [0; ENTRY_FRAME_BYTES];
    frame[..8].copy_from_slice(&tid.bits().to_le_bytes());
    bytes.extend_from_slice(&frame);
    body(bytes);
    let length = bytes.len().checked_sub(at + ENTRY_FRAME_BYTES).expect("the body only adds bytes");
    bytes[at + 8..at + ENTRY_FRAME_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    length
}

/// Iterator over the entries of a payload, as pairs of TID and body. A broken frame gives `Err`.
pub(crate) struct FramedEntries<'a> {
    rest: &'a [u8],
}

impl<'a> FramedEntries<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }
}

/// Error for an entry that does not fit the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

impl<'a> Iterator for FramedEntries<'a> {
    type Item = Result<(Tid, &'a [u8]), BadFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((frame, rest)) = self.rest.split_at_checked(ENTRY_FRAME_BYTES) else {
            self.rest = &[];
            return Some(Err(BadFrame));
        };
        let bits = u64_at(frame, 0);
        let Some((body, rest)) = rest.split_at_checked(u32_at(frame, 8) as usize) else {
            self.rest = &[];
            return Some(Err(BadFrame));
        };
        debug_assert!(rest.len() + ENTRY_FRAME_BYTES <= self.rest.len(), "each entry takes its frame");
        self.rest = rest;
        let tid = Tid::from_word(bits);
        Some(if tid.bits() == bits { Ok((tid, body)) } else { Err(BadFrame) })
    }
}

/// Passes each entry of a payload to `take`, and checks that there are `count` entries, as the header says. The error
/// is the detail of the damage, or the error of `take`.
pub(crate) fn try_for_each<'p>(
    payload: &'p [u8],
    count: u32,
    mut take: impl FnMut(Tid, &'p [u8]) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut found = 0_u64;
    for entry in FramedEntries::new(payload) {
        let (tid, body) = entry.map_err(|_| "an entry does not fit its block")?;
        found += 1;
        take(tid, body)?;
    }
    if found == u64::from(count) {
        Ok(())
    } else {
        Err("the block holds fewer or more entries than its header says")
    }
}
