//! Which process this is: the one that opened a disk, or a child that was forked from it since?
//!
//! - `I4`: a word lies on a page that the kernel clears in a child at fork (`MADV_WIPEONFORK`). The process that opens
//!   a disk writes its life's number there and keeps a copy. A child finds 0, or the larger number that its own first
//!   opening wrote; so an inherited copy never matches. Asking is one load and no system call.
//! - Where the kernel has no such page, the process identifiers are compared instead, by a system call each time.
//!
//! - [`ProcessMarks`] are words of the same kind, which a database keeps for itself: nonzero they prove that this is
//!   the process that set them.
//!
//! Neighbours: [`crate::Disk::process`] hands it up; locks here and every public call above ask it first. `unsafe`
//! stands in this file only: it maps the page and reads words through pointers.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ensile_base::sync::Mutex;

/// Bytes of the mapping. The kernel clears whole pages, and maps no less than one.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// Words of [`ProcessMarks`].
const MARKS: usize = 2;

/// The word's value in a child that has opened nothing yet, and for ever where no page can be had.
const CLEARED: u64 = 0;

/// The word on the page that is cleared at fork, once this process or one that it was forked from has mapped it.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// What stands for a page where the kernel has none: it stays [`CLEARED`].
static NO_PAGE: [AtomicU64; MARKS] = [const { AtomicU64::new(CLEARED) }; MARKS];

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
    simulated: Option<Arc<Simulated>>,
}

/// A process of a simulator.
struct Simulated {
    word: AtomicU64,
    marks: Mutex<Vec<Weak<SimulatedMarks>>>,
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
        if ptr::eq(word, &NO_PAGE[0]) {
            return Self { word: NonNull::from(word), life: 1, pid: std::process::id(), simulated: None };
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
        let owner = Arc::new(Simulated { word: AtomicU64::new(1), marks: Mutex::default() });
        Self { word: NonNull::from(&owner.word), life: 1, pid: 0, simulated: Some(owner) }
    }

    /// From now on the simulated process's code runs in a child (`true`), or in the process itself again.
    ///
    /// # Panics
    /// If this process is not a simulated one.
    pub fn set_forked(&self, is_forked: bool) {
        let simulated = self.simulated.as_ref().expect("a simulated process");
        // Relaxed: the simulator orders its threads itself.
        simulated.word.store(if is_forked { CLEARED } else { self.life }, Ordering::Relaxed);
        let marks = simulated.marks.lock();
        for marks in marks.iter().filter_map(Weak::upgrade) {
            for (seen, kept) in marks.seen.iter().zip(&marks.kept) {
                // Relaxed, both: as for the word.
                seen.store(if is_forked { CLEARED } else { kept.load(Ordering::Relaxed) }, Ordering::Relaxed);
            }
        }
    }

    /// Words that are 0 in a forked child, whatever they were set to: for paths on which [`Process::is_this`] would be
    /// one comparison too many.
    #[must_use]
    pub fn marks(&self) -> ProcessMarks {
        let process = self.clone();
        if let Some(simulated) = &self.simulated {
            let owner = Arc::new(SimulatedMarks::default());
            let mut all = simulated.marks.lock();
            all.retain(|marks| marks.strong_count() > 0);
            all.push(Arc::downgrade(&owner));
            return ProcessMarks { words: NonNull::from(&owner.seen), process, simulated: Some(owner) };
        }
        let words = map().map_or(NonNull::from(&NO_PAGE), NonNull::cast);
        ProcessMarks { words, process, simulated: None }
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

/// Two words that are 0 in every child that is forked while they stand. They prove that this is still the process that
/// set them; a 0 proves nothing: then [`ProcessMarks::process`] decides. Where the kernel cannot clear pages they are
/// always 0.
pub struct ProcessMarks {
    words: NonNull<[AtomicU64; MARKS]>,
    process: Process,
    simulated: Option<Arc<SimulatedMarks>>,
}

#[derive(Default)]
struct SimulatedMarks {
    seen: [AtomicU64; MARKS],
    /// What the process itself sees.
    kept: [AtomicU64; MARKS],
}

// SAFETY: `words` points to atomics, which any thread may read and set, and which outlive this value: see `words`.
unsafe impl Send for ProcessMarks {}
// SAFETY: nothing is changed through a shared `ProcessMarks` but those atomics.
unsafe impl Sync for ProcessMarks {}

impl ProcessMarks {
    #[inline]
    fn words(&self) -> &[AtomicU64; MARKS] {
        // SAFETY: the words are a static, or on a page that this value alone unmaps, or in the `Arc` that it holds.
        unsafe { self.words.as_ref() }
    }

    /// The value of the first or second word (0 or 1).
    #[inline]
    #[must_use]
    pub fn get(&self, word: usize) -> u64 {
        // Relaxed: the kernel clears it before the child's first instruction, and it says nothing of other memory.
        self.words()[word].load(Ordering::Relaxed)
    }

    /// Sets the first or second word (0 or 1). A word of a page that is not there stays 0.
    pub fn set(&self, word: usize, value: u64) {
        if ptr::eq(self.words(), &NO_PAGE) {
            return;
        }
        if let Some(simulated) = &self.simulated {
            // Relaxed: the simulator orders its threads itself.
            simulated.kept[word].store(value, Ordering::Relaxed);
        }
        if self.process.is_this() {
            // Relaxed: as for `get`.
            self.words()[word].store(value, Ordering::Relaxed);
        }
    }

    /// Whose they are.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl fmt::Debug for ProcessMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMarks").field("words", self.words()).field("process", &self.process).finish()
    }
}

impl Drop for ProcessMarks {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if self.simulated.is_none() && !ptr::eq(self.words(), &NO_PAGE) {
            // SAFETY: the page was mapped for this value, whose last use this is.
            let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

/// The word to ask. No lock is taken: a fork in the midst of it leaves nothing that a child would wait for.
fn page() -> &'static AtomicU64 {
    // Acquire: pairs with the exchange below, so that the mapping's advice has been given before the page is used.
    let mut found = PAGE.load(Ordering::Acquire);
    if found.is_null() {
        let made = map().map_or((&raw const NO_PAGE[0]).cast_mut(), |page| page.cast().as_ptr());
        // AcqRel: Release publishes the advised page; Acquire, on both outcomes, pairs with the exchange that won.
        found = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            // Another thread was first. The page made here stays mapped and unused: this happens once a process at
            // most.
            Err(first) => first,
        };
    }
    // SAFETY: it points to `NO_PAGE`, or to the aligned and zeroed first word of a mapping that is never unmapped.
    unsafe { &*found }
}

/// A page of zeros that is zeros again in every child.
#[cfg(target_os = "linux")]
fn map() -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
    let mapped =
        unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the mapping was made above, and nothing else knows it.
    if unsafe { madvise(mapped, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the mapping was made above, and no pointer to it is left.
        let _ = unsafe { munmap(mapped, PAGE_BYTES) };
        return None;
    }
    NonNull::new(mapped.cast())
}

#[cfg(not(target_os = "linux"))]
fn map() -> Option<NonNull<u8>> {
    None
}

#[cfg(test)]
mod tests;
