//! Checks of users' passwords on a thread of their own, as a check takes milliseconds and a loop never waits.
//!
//! ```text
//! AUTH -> job, the request is set aside -> the thread checks -> wake-up of the loop -> AUTH again: the verdict
//! ```
//! Invariants:
//! - A client has one job at a time. A job of a client that has gone is passed over.
//! - The thread takes the jobs in their order, so many wrong passwords take one core at most.
//!
//! Neighbours: [`super::Users`] adds jobs; a test takes the thread's steps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;

use ensile_base::sync::{Condvar, Mutex, OnceLock};

use super::password::PasswordHash;

/// Verdict over a password; empty until the check ends.
type PasswordVerdict = Arc<OnceLock<bool>>;

/// A check that a client waits for.
#[derive(Debug)]
pub(crate) struct Verification {
    verdict: PasswordVerdict,
    /// Length of the given password in bytes.
    bytes: usize,
}

impl Verification {
    /// True for a right password; `None` until the check ends.
    pub(crate) fn verdict(&self) -> Option<bool> {
        self.verdict.get().copied()
    }

    /// Memory of the check in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + size_of::<Job>()
    }
}

/// A password to check.
struct Job {
    hash: PasswordHash,
    password: Box<[u8]>,
    verdict: PasswordVerdict,
    /// Waker of the client's loop.
    waker: Waker,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    has_ended: bool,
}

#[derive(Default)]
struct JobQueue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

impl JobQueue {
    /// Takes the next job. `None` at the end.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.has_ended {
                return None;
            }
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            jobs = self.changed.wait(jobs);
        }
    }
}

/// Carries a job out, unless its client has gone.
fn carry_out(job: Job) {
    let Job { hash, password, verdict, waker } = job;
    if Arc::strong_count(&verdict) > 1 {
        let _ = verdict.set(hash.is_of(&password));
        waker.wake();
    }
}

/// The thread that checks passwords.
pub(crate) struct Verifier {
    queue: Arc<JobQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// A verifier without a thread.
    pub(crate) fn new() -> Self {
        Self { queue: Arc::default(), thread: Mutex::new(None) }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(&self) -> ensile::Result<()> {
        let queue = Arc::clone(&self.queue);
        let check = move || {
            while let Some(job) = queue.next() {
                carry_out(job);
            }
        };
        let spawned = std::thread::Builder::new().name("ensile-passwords".to_owned()).spawn(check);
        let thread = spawned.map_err(|error| {
            ensile::Error::Misuse(format!("the thread for passwords does not start: {error}"))
        })?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Begins the check of a password.
    pub(crate) fn begin(&self, hash: &PasswordHash, password: &[u8], waker: &Waker) -> Verification {
        let verdict = PasswordVerdict::default();
        self.queue.jobs.lock().waiting.push_back(Job {
            hash: hash.clone(),
            password: password.into(),
            verdict: Arc::clone(&verdict),
            waker: waker.clone(),
        });
        self.queue.changed.notify_one();
        Verification { verdict, bytes: password.len() }
    }

    /// Carries out the jobs that wait, on this thread.
    #[cfg(feature = "simulation")]
    pub(crate) fn step(&self) {
        let jobs = std::mem::take(&mut self.queue.jobs.lock().waiting);
        jobs.into_iter().for_each(carry_out);
    }

    /// Stops the thread, and waits for its last check.
    pub(crate) fn stop(&self) {
        self.queue.jobs.lock().has_ended = true;
        self.queue.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}
