//! The objects of the experiments on checkpoints: properties of about a hundred bytes, as in UPS. An operation is
//! cheap or takes ten times as long.
//!
//! Neighbours: [`super::target`] and [`super::adaptive`] load the objects.

use ensile_objects::{CodecResult, Persistent};

/// Bytes of an object that operations change.
const BYTES: usize = 96;
/// Rounds of mixing in a cheap operation: about 0.5 microseconds.
pub(super) const CHEAP_ROUNDS: u32 = 250;
/// Rounds of mixing in an expensive operation: about 5 microseconds.
pub(super) const DEAR_ROUNDS: u32 = 2_500;

/// A property.
#[derive(Debug)]
pub(super) struct Property {
    mixed: u64,
    changes: u64,
    bytes: [u8; BYTES],
}

/// A change of a property: the mixed-in number and the number of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixing {
    pub(super) with: u64,
    pub(super) rounds: u32,
}

/// Length of an operation in the log, in bytes: about the length of an operation of UPS.
const OPERATION_BYTES: usize = 40;

impl Persistent for Property {
    type Operation = Mixing;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(property: &mut Option<Self>, mixing: &Mixing) -> u64 {
        let property = property.get_or_insert(Self { mixed: 1, changes: 0, bytes: [0; BYTES] });
        for _ in 0..mixing.rounds {
            // A step of Marsaglia's xorshift. A step depends on the step before.
            property.mixed ^= property.mixed << 13;
            property.mixed ^= property.mixed >> 7;
            property.mixed ^= property.mixed << 17;
        }
        property.mixed = (property.mixed ^ mixing.with).max(1);
        let at = property.changes as usize % (BYTES / 8) * 8;
        property.bytes[at..at + 8].copy_from_slice(&property.mixed.to_le_bytes());
        property.changes += 1;
        property.changes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mixed.to_le_bytes());
        out.extend_from_slice(&self.changes.to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        let (mixed, rest) = bytes.split_first_chunk().ok_or("a property is mixed")?;
        let (changes, rest) = rest.split_first_chunk().ok_or("a property counts its changes")?;
        let bytes = rest.try_into().map_err(|_| "a property of another length")?;
        Ok(Self { mixed: u64::from_le_bytes(*mixed), changes: u64::from_le_bytes(*changes), bytes })
    }

    fn encode_operation(mixing: &Mixing, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&mixing.with.to_le_bytes());
        out.extend_from_slice(&mixing.rounds.to_le_bytes());
        out.resize(begin + OPERATION_BYTES, 0);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<Mixing> {
        let (with, rest) = bytes.split_first_chunk().ok_or("a change has a number")?;
        let rounds = rest.first_chunk().ok_or("a change has rounds")?;
        Ok(Mixing { with: u64::from_le_bytes(*with), rounds: u32::from_le_bytes(*rounds) })
    }
}
