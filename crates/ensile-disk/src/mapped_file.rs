//! The bytes of a file as words of memory: an executed store belongs to the operating system, without a call.
//!
//! - *The process dies in any way:* the file has a prefix of each thread's stores in program order. If a thread saw a
//!   store of another thread and then stored itself, the file has the first store if it has the second.
//! - *The power fails:* a page may be left with any of its earlier contents.
//! - No store can fail or raise SIGBUS while the file keeps its length and its space ([`crate::DiskFile::map`]). A
//!   store may wait for the system just after a write-out of the page.
//! - A forked child shares the words. A caller checks its process before a store (I4).
//!
//! Neighbours: made by `real_disk`, and by a simulator through [`SimulatedWords`]. `unsafe` stands here as in
//! `process`, and for instructions that the processor was asked for.

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ensile_base::checksum::crc32c_append;

const WORD_BYTES: usize = 8;
/// Bytes of a page, the least that a system maps.
const PAGE_BYTES: usize = 4096;

/// Words of a simulated file.
pub trait SimulatedWords: Send + Sync + fmt::Debug {
    /// Stores the words in order, one behind the other, from word `at` on.
    fn store(&self, at: usize, words: &mut dyn Iterator<Item = u64>);
}

/// A file's words, mapped until the drop of this value.
pub struct MappedWords {
    /// Words of the machine's memory; dangling in a simulation.
    words: NonNull<AtomicU64>,
    count: usize,
    simulated: Option<Arc<dyn SimulatedWords>>,
    /// True if the words are in memory, and the processor has instructions for their checksum.
    #[cfg(target_arch = "x86_64")]
    sums: bool,
}

/// The checksum (CRC-32C) of bytes that were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSum {
    /// Checksum of the whole words: the checksum of later bytes continues from here.
    pub words: u32,
    /// Checksum of the bytes, including the last part of a word.
    pub bytes: u32,
}

// SAFETY: the words are atomics for any thread, and stay mapped as long as the value.
unsafe impl Send for MappedWords {}
// SAFETY: nothing is changed through a shared value but the atomics.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// The first `bytes` bytes of a file that has at least as many bytes, already written.
    pub(crate) fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        assert!(bytes > 0 && bytes.is_multiple_of(WORD_BYTES), "{bytes} bytes are no words");
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, rustix::mm::MapFlags::SHARED, file, 0)
        }?;
        let words = NonNull::new(mapped.cast()).expect("a mapping that was made has an address");
        let mapped = Self {
            words,
            count: bytes / WORD_BYTES,
            simulated: None,
            #[cfg(target_arch = "x86_64")]
            sums: std::arch::is_x86_feature_detected!("sse4.2"),
        };
        mapped.touch(bytes);
        Ok(mapped)
    }

    /// Words of a simulator.
    #[must_use]
    pub fn from_simulated(words: Arc<dyn SimulatedWords>, count: usize) -> Self {
        Self {
            words: NonNull::dangling(),
            count,
            simulated: Some(words),
            #[cfg(target_arch = "x86_64")]
            sums: false,
        }
    }

    /// Number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn memory(&self) -> &[AtomicU64] {
        debug_assert!(self.simulated.is_none(), "a simulated file has no memory");
        // SAFETY: the mapping has `count` words, is aligned to a page, and lasts as long as this value. Every bit
        // pattern is valid for an atomic, and this process uses only atomic operations here.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// Stores these bytes from word `at` on, filled up with zeros to a whole word. The order of the words among
    /// themselves is not promised.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn store_bytes(&self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len().div_ceil(WORD_BYTES);
        assert!(end <= self.count, "words up to {end} of {}", self.count);
        let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
        let last = (!rest.is_empty()).then(|| {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        });
        let mut words = whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last);
        if let Some(simulated) = &self.simulated {
            return simulated.store(at, &mut words);
        }
        let memory = &self.memory()[at..end];
        for (place, word) in memory.iter().zip(whole) {
            // Relaxed: published by the Release of a later `publish`, the partner.
            place.store(u64::from_le_bytes(*word).to_le(), Ordering::Relaxed);
        }
        if let (Some(place), Some(word)) = (memory.last(), last) {
            // Relaxed: as for the words before, the later `publish` orders the store.
            place.store(word.to_le(), Ordering::Relaxed);
        }
    }

    /// As [`store_bytes`](Self::store_bytes), and returns the checksum. `before` is the checksum of the bytes before;
    /// zero if there are none.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn store_summed(&self, at: usize, bytes: &[u8], before: u32) -> StoredSum {
        #[cfg(target_arch = "x86_64")]
        if self.sums {
            let end = at + bytes.len().div_ceil(WORD_BYTES);
            assert!(end <= self.count, "words up to {end} of {}", self.count);
            // SAFETY: the processor has these instructions: `of_file` checked when the words were mapped.
            return unsafe { store_summed_by_sse(&self.memory()[at..end], bytes, before) };
        }
        self.store_bytes(at, bytes);
        let (whole, rest) = bytes.split_at(bytes.len() / WORD_BYTES * WORD_BYTES);
        let words = crc32c_append(before, whole);
        StoredSum { words, bytes: crc32c_append(words, rest) }
    }

    /// Stores a word behind the earlier stores of this thread.
    #[inline]
    pub fn publish(&self, at: usize, word: u64) {
        if let Some(simulated) = &self.simulated {
            return simulated.store(at, &mut std::iter::once(word));
        }
        // Release: the bytes that the word describes are stored before the word. A reader that finds the word in the
        // file of a dead process finds the bytes.
        self.memory()[at].store(word.to_le(), Ordering::Release);
    }

    /// Stores a word before the later stores of this thread.
    #[inline]
    pub fn retract(&self, at: usize, word: u64) {
        self.publish(at, word);
        // Release: no later store to these words comes before the store above (partner: the read of a dead process's
        // file, which finds the later store only with this store).
        fence(Ordering::Release);
    }

    /// Makes later sums work as on a processor without checksum instructions.
    #[cfg(test)]
    fn forget_instructions(&mut self) {
        #[cfg(target_arch = "x86_64")]
        {
            self.sums = false;
        }
    }

    /// Writes to each page of the first `bytes` bytes without a change, so that the next stores there find the page
    /// writable. For a thread that may wait, and that has the words for itself.
    pub fn touch(&self, bytes: usize) {
        if self.simulated.is_some() {
            return;
        }
        for word in self.memory()[..bytes.div_ceil(WORD_BYTES)].iter().step_by(PAGE_BYTES / WORD_BYTES) {
            // Relaxed: adds nothing; only the page fault is wanted.
            word.fetch_add(0, Ordering::Relaxed);
        }
    }
}

/// See [`MappedWords::store_summed`]. Each word is loaded once, stored, and added to the sum.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn store_summed_by_sse(memory: &[AtomicU64], bytes: &[u8], before: u32) -> StoredSum {
    use std::arch::x86_64::_mm_crc32_u64;

    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let mut state = u64::from(!before);
    for (place, word) in memory.iter().zip(whole) {
        let word = u64::from_le_bytes(*word);
        // Relaxed: published by the Release of a later `publish`, the partner.
        place.store(word, Ordering::Relaxed);
        state = _mm_crc32_u64(state, word);
    }
    let words = !(state as u32);
    let Some(place) = memory.last().filter(|_| !rest.is_empty()) else {
        return StoredSum { words, bytes: words };
    };
    let bits = u8::BITS * rest.len() as u32;
    let word = match bytes.last_chunk() {
        Some(last) => u64::from_le_bytes(*last) >> (u64::BITS - bits),
        None => rest.iter().rev().fold(0, |word, byte| word << u8::BITS | u64::from(*byte)),
    };
    // Relaxed: as for the words before, the later `publish` orders the store.
    place.store(word, Ordering::Relaxed);
    // A state of zero stays zero over zeros. So the rest stands at the end of a word behind zeros, together with the
    // overlapping bits of the state; the other bits of the state move down.
    let state = _mm_crc32_u64(0, (word ^ state) << (u64::BITS - bits)) ^ (state >> bits);
    StoredSum { words, bytes: !(state as u32) }
}

impl fmt::Debug for MappedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedWords").field("count", &self.count).field("simulated", &self.simulated).finish()
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        if self.simulated.is_none() {
            // SAFETY: the mapping was made for the value, and the drop is the value's last use. A forked child has a
            // mapping of its own.
            let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), self.count * WORD_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests;
