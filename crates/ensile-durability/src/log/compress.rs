//! LZ4 over the entries of a block, for logs that ask for it (Silo §5.7 and SiloR §6 found that it does not pay). Such blocks
//! carry a flag.
//!
//! ```text
//! compressed payload := length of the entries u32, one LZ4 block
//! ```
//! Neighbours: the logger's `segments` compresses, recovery's `replay` decompresses.

use lz4_flex::block;

use super::buffer::Buffer;

/// Compresses blocks, in memory that it keeps.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    scratch: Vec<u8>,
}

impl Compressor {
    /// Compresses the buffer's entries. False if that would not make them shorter: they stay as they were.
    pub(crate) fn compress(&mut self, buffer: &mut Buffer) -> bool {
        let entries = buffer.payload();
        let length = (entries.len() as u32).to_le_bytes();
        self.scratch.resize(length.len() + block::get_maximum_output_size(entries.len()), 0);
        let (head, room) = self.scratch.split_at_mut(length.len());
        head.copy_from_slice(&length);
        let written = block::compress_into(entries, room).expect("the room is the most that LZ4 needs");
        let shorter = &self.scratch[..length.len() + written];
        let pays = shorter.len() < entries.len();
        if pays {
            buffer.shorten_payload(shorter);
        }
        pays
    }
}

/// The entries of a compressed payload.
pub(crate) fn decompress(payload: &[u8]) -> Option<Vec<u8>> {
    block::decompress_size_prepended(payload).ok()
}
