//! Identity of the running process: the process that opened a disk, or a child forked since (I4).
//!
//! A word lies on a page that the kernel clears in a child at fork (`MADV_WIPEONFORK`). The process that opens a disk
//! writes its life's number there and keeps a copy. A child finds 0, or the larger number that its own first opening
//! wrote; so an inherited copy never matches. A check is one load and no system call. If the kernel has no such page,
//! the process identifiers are compared instead. [`ProcessMarks`] are words of the same kind for a database.
//!
//! Neighbours: [`crate::Disk::process`] returns the value; locks here and every public call above check the process
//! first. `unsafe` maps the page and reads words through pointers.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ensile_base::sync::Mutex;

/// Bytes of the mapping. The kernel clears whole pages, and maps at least a page.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// Number of words of [`ProcessMarks`].
const MARKS: usize = 3;

/// Value of the word in a child that has opened nothing yet, and for ever if no page can be had.
const CLEARED: u64 = 0;

/// Word on the page that the kernel clears at fork. Null until this process or an ancestor has mapped the page.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Stand-in for a page if the kernel has none: the words stay [`CLEARED`].
static NO_PAGE: [AtomicU64; MARKS] = [const { AtomicU64::new(CLEARED) }; MARKS];

/// Number of lives begun by the process and its ancestors. The number lies in ordinary memory, and a child inherits the
/// number: a child's number is larger than the inherited numbers.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// The process that made the value, as opposed to a child that inherited the value by `fork`. A clone stands for the
/// same process.
#[derive(Clone)]
pub struct Process {
    word: NonNull<AtomicU64>,
    life: u64,
    /// Process identifier if no page can be had; else 0, the identifier of no process.
    pid: u32,
    /// Owner of a simulated process's word.
    simulated: Option<Arc<Simulated>>,
}

/// A process of a simulator.
struct Simulated {
    word: AtomicU64,
    marks: Mutex<Vec<Weak<SimulatedMarks>>>,
}

// SAFETY: `word` points to an atomic. Threads may read the atomic, and the atomic outlives the value: see `is_this`.
unsafe impl Send for Process {}
// SAFETY: nothing is changed through a shared `Process` but the atomic.
unsafe impl Sync for Process {}

impl Process {
    /// The process that runs this code.
    #[must_use]
    pub fn current() -> Self {
        let word = page();
        if ptr::eq(word, &NO_PAGE[0]) {
            return Self { word: NonNull::from(word), life: 1, pid: std::process::id(), simulated: None };
        }
        // Relaxed: the numbers need only differ along one line of descent; fork orders the store.
        let mut life = word.load(Ordering::Relaxed);
        if life == CLEARED {
            // Relaxed: only the number's uniqueness counts; no partner.
            let number = LIVES.fetch_add(1, Ordering::Relaxed) + 1;
            // Relaxed: only the word is passed on; every thread that finds a number set uses the number found.
            life = match word.compare_exchange(CLEARED, number, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => number,
                Err(other) => other,
            };
        }
        Self { word: NonNull::from(word), life, pid: 0, simulated: None }
    }

    /// A process for a simulator. The simulator decides by [`Process::set_forked`] when code runs in a child.
    #[must_use]
    pub fn new_simulated() -> Self {
        let owner = Arc::new(Simulated { word: AtomicU64::new(1), marks: Mutex::default() });
        Self { word: NonNull::from(&owner.word), life: 1, pid: 0, simulated: Some(owner) }
    }

    /// Makes the simulated process's code run in a child (`true`), or in the process itself again.
    ///
    /// # Panics
    /// If this process is not simulated.
    pub fn set_forked(&self, is_forked: bool) {
        let simulated = self.simulated.as_ref().expect("a simulated process");
        // Relaxed: the simulator orders the threads.
        simulated.word.store(if is_forked { CLEARED } else { self.life }, Ordering::Relaxed);
        let marks = simulated.marks.lock();
        for marks in marks.iter().filter_map(Weak::upgrade) {
            for (seen, kept) in marks.seen.iter().zip(&marks.kept) {
                // Relaxed, both: as for the word.
                seen.store(if is_forked { CLEARED } else { kept.load(Ordering::Relaxed) }, Ordering::Relaxed);
            }
        }
    }

    /// Words that are 0 in a forked child, even after a set. Marks are for paths where [`Process::is_this`] would be a
    /// comparison too many.
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

    /// True if the caller runs in the process of the value, and not in a forked child.
    #[inline]
    #[must_use]
    pub fn is_this(&self) -> bool {
        // SAFETY: the word is a static, or on a page that is never unmapped, or in the `Arc` of the value.
        let word = unsafe { self.word.as_ref() };
        // Relaxed: the kernel clears the word before the child's first instruction. Within a process the word never
        // changes from the number in the value.
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

/// Words that are 0 in every child forked after their creation. A nonzero word proves that the caller runs in the
/// process that set the word. A 0 proves nothing: [`ProcessMarks::process`] decides. If the kernel cannot clear pages,
/// the words are always 0.
pub struct ProcessMarks {
    words: NonNull<[AtomicU64; MARKS]>,
    process: Process,
    simulated: Option<Arc<SimulatedMarks>>,
}

#[derive(Default)]
struct SimulatedMarks {
    seen: [AtomicU64; MARKS],
    /// Values in the process itself.
    kept: [AtomicU64; MARKS],
}

// SAFETY: `words` points to atomics. Threads may read and set the atomics, and the atomics outlive the value: see
// `words`.
unsafe impl Send for ProcessMarks {}
// SAFETY: nothing is changed through a shared `ProcessMarks` but the atomics.
unsafe impl Sync for ProcessMarks {}

impl ProcessMarks {
    #[inline]
    fn words(&self) -> &[AtomicU64; MARKS] {
        // SAFETY: the words are a static, or on a page that only the value's drop unmaps, or in the `Arc` of the value.
        unsafe { self.words.as_ref() }
    }

    /// The value of a word, by its number from 0.
    #[inline]
    #[must_use]
    pub fn get(&self, word: usize) -> u64 {
        // Relaxed: the kernel clears the word before the child's first instruction, and the word says nothing of other
        // memory.
        self.words()[word].load(Ordering::Relaxed)
    }

    /// Sets a word, by its number from 0. Without a page the words stay 0.
    pub fn set(&self, word: usize, value: u64) {
        if ptr::eq(self.words(), &NO_PAGE) {
            return;
        }
        if let Some(simulated) = &self.simulated {
            // Relaxed: the simulator orders the threads.
            simulated.kept[word].store(value, Ordering::Relaxed);
        }
        if self.process.is_this() {
            // Relaxed: as for `get`.
            self.words()[word].store(value, Ordering::Relaxed);
        }
    }

    /// Process of the marks.
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
            // SAFETY: the page was mapped for the value, and the drop is the value's last use.
            let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

/// The word of the check. No lock is taken: a fork in the midst of the call leaves no lock for a child to wait for.
fn page() -> &'static AtomicU64 {
    // Acquire: pairs with the exchange below, so that the mapping's advice has been given before the page is used.
    let mut found = PAGE.load(Ordering::Acquire);
    if found.is_null() {
        let made = map().map_or((&raw const NO_PAGE[0]).cast_mut(), |page| page.cast().as_ptr());
        // AcqRel: Release publishes the advised page; Acquire, on both outcomes, pairs with the exchange that won.
        found = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            // Another thread was first. The page made here stays mapped and unused, at most once a process.
            Err(first) => first,
        };
    }
    // SAFETY: `found` points to `NO_PAGE`, or to the aligned and zeroed first word of a mapping that is never unmapped.
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
