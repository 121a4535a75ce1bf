//! LZ4 over the entries of a block, for logs and checkpoints that ask for it (Silo §5.7 and SiloR §6.2 found that it does not
//! pay). Such blocks carry a flag.
//!
//! ```text
//! compressed payload := length of the entries u32, one LZ4 block
//! ```
//! Invariant: memory for decompressed entries is taken only up to what the caller says that a block can hold, and to what
//! LZ4 can make of so many bytes, whatever length is written there.
//!
//! Neighbours: the logger's `segments` and the checkpoint's `write` compress, `recovery::replay` and `checkpoint::read`
//! decompress.

use ensile_base::limits::LOG_BUFFER_BYTES;
use lz4_flex::block;

/// Bytes of the length in front.
const LENGTH_BYTES: usize = 4;
/// What LZ4 makes of one byte, at most: a byte of a match's length stands for so many.
const BYTES_OF_ONE_MAX: usize = 255;
/// Room that a compressor keeps from block to block; what a larger block takes is given back.
pub(crate) const ROOM_KEPT_BYTES: usize = room_for(LOG_BUFFER_BYTES);

/// Bytes that the compression of so many may take beside them.
pub(crate) const fn room_for(entries_bytes: usize) -> usize {
    LENGTH_BYTES + block::get_maximum_output_size(entries_bytes)
}

/// Compresses blocks, in memory that it keeps.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    scratch: Vec<u8>,
}

impl Compressor {
    /// Compresses the entries of a block, which stand behind its header to its end. False if that would not make them
    /// shorter: they stay as they were.
    pub(crate) fn compress(&mut self, block: &mut Vec<u8>, header_bytes: usize) -> bool {
        let entries = &block[header_bytes..];
        self.scratch.resize(room_for(entries.len()), 0);
        let (length, room) = self.scratch.split_at_mut(LENGTH_BYTES);
        length.copy_from_slice(&(entries.len() as u32).to_le_bytes());
        let written = block::compress_into(entries, room).expect("the room is the most that LZ4 needs");
        let shorter = &self.scratch[..LENGTH_BYTES + written];
        let pays = shorter.len() < entries.len();
        if pays {
            block.truncate(header_bytes);
            block.extend_from_slice(shorter);
        }
        if self.scratch.len() > ROOM_KEPT_BYTES {
            self.scratch.truncate(ROOM_KEPT_BYTES);
            self.scratch.shrink_to_fit();
        }
        pays
    }
}

/// Puts the entries of a compressed payload, `most` bytes at most, into `entries`; `None` if it is not one.
pub(crate) fn decompress(payload: &[u8], most: usize, entries: &mut Vec<u8>) -> Option<()> {
    let (length, compressed) = block::uncompressed_size(payload).ok()?;
    if length > most.min(compressed.len().saturating_mul(BYTES_OF_ONE_MAX)) {
        return None;
    }
    entries.resize(length, 0);
    (block::decompress_into(compressed, entries).ok()? == length).then_some(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    //! What goes in comes out, and a forged length takes no memory.

    use super::{Compressor, ROOM_KEPT_BYTES, decompress};
    use ensile_base::random::Random;

    const HEADER: &[u8] = b"a header";

    fn compressed(entries: &[u8]) -> Option<Vec<u8>> {
        let mut compressor = Compressor::default();
        let mut block = [HEADER, entries].concat();
        let pays = compressor.compress(&mut block, HEADER.len());
        assert!(compressor.scratch.capacity() <= ROOM_KEPT_BYTES);
        let payload = block.strip_prefix(HEADER).expect("the header stays").to_vec();
        if !pays {
            assert_eq!(payload, entries, "what does not become shorter stays");
        }
        pays.then_some(payload)
    }

    #[test]
    fn what_is_compressed_comes_back_and_noise_stays_as_it_is() {
        let mut noise = vec![0; 300_000];
        Random::seeded(1).fill(&mut noise);
        assert_eq!(compressed(&noise), None);
        assert_eq!(compressed(&[]), None);
        for bytes in [40, 1_000, 300_000, 2_000_000] {
            let entries: Vec<u8> = (0..bytes).map(|at| (at / 100) as u8).collect();
            let payload = compressed(&entries).expect("it becomes shorter");
            let mut back = vec![7; 12];
            assert_eq!(decompress(&payload, bytes, &mut back), Some(()));
            assert_eq!(back, entries);
            assert_eq!(decompress(&payload, bytes - 1, &mut back), None, "longer than a block can be");
        }
    }

    #[test]
    fn a_forged_length_takes_no_memory() {
        let payload = compressed(&[5; 4_000]).expect("it becomes shorter");
        let most = payload.len() * super::BYTES_OF_ONE_MAX;
        for forged in [0, 1, 3_999, 4_001, most as u32, u32::MAX] {
            let forged = [&forged.to_le_bytes(), &payload[4..]].concat();
            let mut back = Vec::new();
            assert_eq!(decompress(&forged, usize::MAX, &mut back), None);
            assert!(back.capacity() <= most);
        }
        for cut in 0..payload.len() {
            assert_eq!(decompress(&payload[..cut], usize::MAX, &mut Vec::new()), None, "cut to {cut}");
        }
    }
}
