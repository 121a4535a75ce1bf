//! Which process this is: the one that opened a disk, or a child that was forked from it since?
//!
//! - `I4`: a word lies on a page that the kernel clears in a child at fork (`MADV_WIPEONFORK`). The process that opens a
//!   disk writes its life's number there and keeps a copy. A child finds 0, or the larger number that its own first
//!   opening wrote; so an inherited copy never matches. Asking is one load and no system call.
//! - Where the kernel has no such page, the process identifiers are compared instead, by a system call each time.
//!
//! Neighbours: [`crate::Disk::process`] hands it up; locks here and every public call above ask it first. `unsafe` stands
//! in this file only: it maps the page and reads words through pointers.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Bytes of the mapping. The kernel clears whole pages, and maps no less than one.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// The word's value in a child that has opened nothing yet, and for ever where no page can be had.
const CLEARED: u64 = 0;

/// The word on the page that is cleared at fork, once this process or one that it was forked from has mapped it.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// What stands for the page where the kernel has none: it stays [`CLEARED`].
static NO_PAGE: AtomicU64 = AtomicU64::new(CLEARED);

/// How many lives this process and those that it was forked from have begun. It lies in ordinary memory, which a child
/// inherits: a child's number is larger than each number that it inherited.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// The process that made this value, as opposed to a child that inherited it by `fork`. A clone says the same.
#[derive(Clone)]
pub struct Process {
    word: NonNull<AtomicU64>,
    life: u64,
    /// The process identifier if there is no page; else 0, which no process has.
    pid: u32,
    /// What a simulated process's word belongs to.
    simulated: Option<Arc<AtomicU64>>,
}

// SAFETY: `word` points to an atomic, which any thread may read, and which outlives this value: see `is_this`.
unsafe impl Send for Process {}
// SAFETY: nothing is changed through a shared `Process` but that atomic.
unsafe impl Sync for Process {}

impl Process {
    /// The process that runs this code.
    #[must_use]
    pub fn this() -> Self {
        let word = page();
        if ptr::eq(word, &raw const NO_PAGE) {
            let word = NonNull::from(&NO_PAGE);
            return Self { word, life: 1, pid: std::process::id(), simulated: None };
        }
        // Relaxed: the numbers differ along one line of descent, which is all that is asked of them; fork orders it.
        let mut life = word.load(Ordering::Relaxed);
        if life == CLEARED {
            // Relaxed: only the number's uniqueness counts; no partner.
            let number = LIVES.fetch_add(1, Ordering::Relaxed) + 1;
            // Relaxed: the word alone is handed over; every thread that finds one set uses that one.
            life = match word.compare_exchange(CLEARED, number, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => number,
                Err(other) => other,
            };
        }
        Self { word: NonNull::from(word), life, pid: 0, simulated: None }
    }

    /// A process of its own for a simulator, which decides by [`Process::set_forked`] when code runs in a child of it.
    #[must_use]
    pub fn simulated() -> Self {
        let owner = Arc::new(AtomicU64::new(1));
        Self { word: NonNull::from(&*owner), life: 1, pid: 0, simulated: Some(owner) }
    }

    /// From now on the simulated process's code runs in a child (`true`), or in the process itself again.
    ///
    /// # Panics
    /// If this process is not a simulated one.
    pub fn set_forked(&self, is_forked: bool) {
        let word = self.simulated.as_ref().expect("a simulated process");
        // Relaxed: the simulator orders its threads itself.
        word.store(if is_forked { CLEARED } else { self.life }, Ordering::Relaxed);
    }

    /// Does this code run in the process that made this value, and not in one forked from it?
    #[inline]
    #[must_use]
    pub fn is_this(&self) -> bool {
        // SAFETY: the word is a static, or on a page that is never unmapped, or in the `Arc` that this value holds.
        let word = unsafe { self.word.as_ref() };
        // Relaxed: the kernel clears the word before the child's first instruction; within one process it never changes
        // from the number that this value holds.
        word.load(Ordering::Relaxed) == self.life || (self.pid != 0 && self.has_pid())
    }

    #[cold]
    fn has_pid(&self) -> bool {
        std::process::id() == self.pid
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("life", &self.life).field("is_this", &self.is_this()).finish()
    }
}

/// The word to ask. No lock is taken: a fork in the midst of it leaves nothing that a child would wait for.
fn page() -> &'static AtomicU64 {
    // Acquire: pairs with the exchange below, so that the mapping's advice has been given before the page is used.
    let mut found = PAGE.load(Ordering::Acquire);
    if found.is_null() {
        let made = map();
        // AcqRel: Release publishes the advised page; Acquire, on both outcomes, pairs with the exchange that won.
        found = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            // Another thread was first. The page made here stays mapped and unused: this happens once a process at most.
            Err(first) => first,
        };
    }
    // SAFETY: it points to `NO_PAGE`, or to the aligned and zeroed first word of a mapping that is never unmapped.
    unsafe { &*found }
}

#[cfg(target_os = "linux")]
fn map() -> *mut AtomicU64 {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) };
    let Ok(mapped) = mapped else { return (&raw const NO_PAGE).cast_mut() };
    // SAFETY: the mapping was made above, and nothing else knows it.
    if unsafe { madvise(mapped, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the mapping was made above, and no pointer to it is left.
        let _ = unsafe { munmap(mapped, PAGE_BYTES) };
        return (&raw const NO_PAGE).cast_mut();
    }
    mapped.cast()
}

#[cfg(not(target_os = "linux"))]
fn map() -> *mut AtomicU64 {
    (&raw const NO_PAGE).cast_mut()
}

#[cfg(test)]
mod tests;
