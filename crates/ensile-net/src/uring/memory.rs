//! The memory that the kernel writes to while operations are in flight: provided buffers, the ring of buffers, and the
//! counter of wake-ups.
//!
//! Invariant: W6. A buffer is the kernel's from `give_back` until a completion names the buffer. Then the one
//! [`ArrivedBuffer`] with the buffer's number is lent to the transport, until `give_back` takes the value.
//!
//! Neighbours: [`super::ring`] registers the memory with the kernel and reports the buffers that completions name.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags};

/// Number of provided buffers of a ring, and the largest number of connections that are heard in a wait.
pub(super) const BUFFERS: u16 = 256;
/// Size of a buffer in bytes.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

const _: () =
    assert!(BUFFERS.is_power_of_two(), "a place in the kernel's ring is a number modulo its length");

/// Layout: the ring of buffers comes first, because the ring must begin with a page; then the counter, then the
/// buffers.
const PAGE_BYTES: usize = 4096;
const COUNTER_AT: usize = PAGE_BYTES;
const BUFFERS_AT: usize = 2 * PAGE_BYTES;
const BYTES: usize = BUFFERS_AT + BUFFERS as usize * BUFFER_BYTES;

const _: () = assert!(BUFFERS as usize * size_of::<BufRingEntry>() <= PAGE_BYTES, "it fits its page");

/// A lent buffer with arrived bytes, until `give_back` takes the value.
#[derive(Debug)]
#[must_use = "until it is given back, the kernel has one buffer less"]
pub(crate) struct ArrivedBuffer {
    number: u16,
    bytes: usize,
}

/// Memory that stays mapped until this value is dropped.
pub(super) struct SharedMemory {
    base: NonNull<u8>,
    /// Number of returned buffers so far, modulo 2^16: the next place in the ring.
    given: u16,
    /// Number of buffers that a completion has named and that are not given back.
    lent: u16,
}

impl SharedMemory {
    /// Maps the memory. All buffers are the kernel's as soon as the kernel knows the ring.
    pub(super) fn new() -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping at an address of the kernel's choice touches no memory in use.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, protection, MapFlags::PRIVATE)
        }?;
        let base = NonNull::new(mapped.cast()).expect("a mapping that was made has an address");
        let mut memory = Self { base, given: 0, lent: 0 };
        (0..BUFFERS).for_each(|number| memory.provide(number));
        Ok(memory)
    }

    pub(super) fn ring_address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }

    /// Eight aligned bytes for the number of wake-ups; only the kernel writes and reads these bytes.
    pub(super) fn counter(&self) -> *mut u8 {
        // SAFETY: the counter lies within the mapping.
        unsafe { self.base.as_ptr().add(COUNTER_AT) }
    }

    fn buffer(&self, number: u16) -> *mut u8 {
        assert!(number < BUFFERS, "the kernel names a buffer that it was given");
        // SAFETY: the buffers lie behind each other within the mapping, and the number is the number of a buffer.
        unsafe { self.base.as_ptr().add(BUFFERS_AT + number as usize * BUFFER_BYTES) }
    }

    fn provide(&mut self, number: u16) {
        let ring = self.base.cast::<BufRingEntry>();
        let place = (self.given % BUFFERS) as usize;
        let address = self.buffer(number).expose_provenance() as u64;
        // SAFETY: the place lies within the ring's page, which is mapped, aligned, and of zeros or an earlier entry.
        // The kernel reads the place only once the tail is behind the place, and has already read the earlier entry:
        // there are as many places as buffers, and this buffer was taken out. The entry's last field, which is the tail
        // in the first place, is not touched.
        let entry = unsafe { &mut *ring.as_ptr().add(place) };
        entry.set_addr(address);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(number);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the tail is two aligned bytes of the mapping, which the kernel reads and only this thread writes.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring.as_ptr()).cast_mut()) };
        // Release: the kernel, which reads the tail with Acquire, finds the entry before the tail.
        tail.store(self.given, Ordering::Release);
    }

    /// Buffer that a completion names.
    pub(super) fn lend_buffer(&mut self, number: u16, bytes: usize) -> ArrivedBuffer {
        assert!(number < BUFFERS && bytes <= BUFFER_BYTES, "{bytes} bytes in buffer {number}");
        self.lent += 1;
        debug_assert!(self.lent <= BUFFERS, "W6: a buffer is lent once");
        ArrivedBuffer { number, bytes }
    }

    pub(super) fn bytes(&self, buffer: &ArrivedBuffer) -> &[u8] {
        // SAFETY: the kernel has written these bytes and has reported the completion, and writes to the buffer again
        // only after `give_back`. `give_back` takes the one value with the buffer's number, which is borrowed here as
        // long as the bytes are.
        unsafe { std::slice::from_raw_parts(self.buffer(buffer.number), buffer.bytes) }
    }

    /// Number of buffers that are not the kernel's.
    pub(super) fn lent_buffers(&self) -> usize {
        usize::from(self.lent)
    }

    pub(super) fn give_back(&mut self, buffer: ArrivedBuffer) {
        debug_assert!(self.lent > 0, "W6: a lent buffer comes back once");
        self.lent -= 1;
        self.provide(buffer.number);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made for this value, this use is the value's last, and no operation is in flight: the
        // ring leaks the value otherwise.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}
