//! Threads inside the application's code: call-backs of logs and checkpoints, and user code of objects. Calls from user
//! code to a handle are refused. Wakers may call handles, except for waits that would wait for the waker, perhaps by a
//! chain of such waits (O8).
//!
//! Neighbours: `log::waiters`, `checkpoint::manager` and the objects mark a thread inside such code. Engine and objects
//! refuse calls from user code, and ask for a permit before a close; `checkpoint::request` asks before a wait.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::task::Waker;

use ensile_base::sync::{Mutex, MutexGuard, OnceLock, thread_local};

use ensile_base::wakers::call_waker;

use crate::error::DurabilityError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBack {
    /// Waker of a future.
    Waker,
    /// Step of a checkpoint that encodes an object.
    CheckpointStep,
}

/// A log, identified by its address. The address stays valid, because the thread that runs the application's code keeps
/// the log open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogAddress(pub(crate) usize);

thread_local! {
    /// Call-backs around this thread's code: a call-back may end another log, and so run inside a call-back of the
    /// other log.
    static CALL_BACKS: RefCell<Vec<(CallBack, LogAddress)>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// Address of the log whose objects' user code this thread runs; [`NO_LOG`] for user code that no log waits for; 0
    /// outside user code.
    static USER_CODE_OF: Cell<usize> = const { Cell::new(0) };
}

thread_local! {
    /// Number of guards of an application's objects that this thread holds.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
}

/// Address of no log, for user code that no log waits for by itself.
const NO_LOG: usize = 1;

/// Waits that the application's code has begun, in all threads of the process.
static WAITS: OnceLock<Mutex<Vec<AwaitedLog>>> = OnceLock::new();

/// A wait for the close or a checkpoint of the log `awaited`, begun in code for which the log `waits` may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedLog {
    waits: LogAddress,
    awaited: LogAddress,
}

/// Marks this thread as inside a call-back until the drop.
#[derive(Debug)]
pub(crate) struct CallBackScope {
    /// Number of outer call-backs; `None` on an ending thread, which records no call-backs.
    outer: Option<usize>,
}

impl CallBackScope {
    pub(crate) fn begin(call_back: CallBack, log: LogAddress) -> Self {
        let begun = CALL_BACKS.try_with(|of| {
            let mut of = of.borrow_mut();
            of.push((call_back, log));
            of.len() - 1
        });
        Self { outer: begun.ok() }
    }

    /// True if the thread has recorded the call-back, so that a close inside the call-back finds it.
    pub(crate) fn is_kept(&self) -> bool {
        self.outer.is_some()
    }
}

impl Drop for CallBackScope {
    fn drop(&mut self) {
        let Some(outer) = self.outer else { return };
        // An ending thread drops its thread-local values after its calls: without the values the record is gone too.
        let _ = CALL_BACKS.try_with(|of| {
            let mut of = of.borrow_mut();
            debug_assert_eq!(of.len(), outer + 1, "call-backs within a call-back end before it does (O8)");
            of.truncate(outer);
        });
    }
}

/// Source of call-backs beside the logs, such as the commit gate of a database, identified by its address.
#[derive(Clone, Copy, Debug)]
pub struct CallBackOwner(LogAddress);

impl CallBackOwner {
    /// The source that stands at this address during its calls of wakers.
    #[must_use]
    pub fn at_address<T>(source: &T) -> Self {
        Self(LogAddress(std::ptr::from_ref(source).addr()))
    }

    /// Calls a waker of this source. A panic of the waker ends here. The caller holds no lock.
    pub fn call(self, waker: Waker) {
        let in_waker = CallBackScope::begin(CallBack::Waker, self.0);
        debug_assert!(self.is_in_waker() || !in_waker.is_kept(), "O8: a close in it sees that");
        call_waker(waker);
    }

    /// True if this thread runs in a waker called by this source.
    #[must_use]
    pub fn is_in_waker(self) -> bool {
        is_in(CallBack::Waker, self.0)
    }
}

/// True if this thread is in a call-back of this kind and log. A handle dropped with the thread-local values may ask
/// after the values are gone: the thread is then in no call-back.
pub(crate) fn is_in(call_back: CallBack, log: LogAddress) -> bool {
    CALL_BACKS.try_with(|of| of.borrow().contains(&(call_back, log))).unwrap_or(false)
}

/// Marks this thread as running user code of objects until the drop: handles refuse their calls (O8).
#[derive(Debug)]
#[must_use = "the mark ends with the value"]
pub struct UserCode {
    /// Log of the surrounding user code; or 0.
    outer: usize,
    _of_thread: OfThread,
}

/// Marker of a value that stays on its thread: the value counts in thread-local memory.
type OfThread = PhantomData<MutexGuard<'static, ()>>;

impl UserCode {
    /// Begins user code that no log waits for by itself, such as a replay. Within user code of a log, the log still
    /// waits for the code.
    #[inline]
    pub fn begin() -> Self {
        let outer = USER_CODE_OF.with(Cell::get);
        if outer == 0 {
            USER_CODE_OF.with(|of| of.set(NO_LOG));
        }
        Self { outer, _of_thread: PhantomData }
    }

    /// True if this thread runs user code of objects.
    #[inline]
    #[must_use]
    pub fn is_running() -> bool {
        USER_CODE_OF.with(Cell::get) != 0
    }

    /// Refuses a call from user code.
    ///
    /// # Errors
    /// [`DurabilityError::InCallBack`]: this thread runs user code of objects.
    #[inline]
    pub fn check_outside() -> Result<(), DurabilityError> {
        if Self::is_running() { Err(DurabilityError::InCallBack) } else { Ok(()) }
    }
}

/// As [`UserCode`], for a thread that the caller has found outside user code. Cheaper, because the value remembers no
/// outer log.
#[derive(Debug)]
#[must_use = "the mark ends with the value"]
pub struct OutermostUserCode(OfThread);

impl OutermostUserCode {
    #[inline]
    pub(crate) fn begin(LogAddress(log): LogAddress) -> Self {
        let outer = USER_CODE_OF.with(|of| of.replace(log));
        debug_assert_eq!(outer, 0, "the caller was checked");
        Self(PhantomData)
    }
}

impl Drop for OutermostUserCode {
    #[inline]
    fn drop(&mut self) {
        USER_CODE_OF.with(|of| of.set(0));
    }
}

impl Drop for UserCode {
    #[inline]
    fn drop(&mut self) {
        USER_CODE_OF.with(|of| of.set(self.outer));
    }
}

/// Counts a guard of an object on this thread until the drop. A checkpoint may wait for the guard (O8).
#[derive(Debug)]
#[must_use = "the guard counts until the drop"]
pub struct HeldGuard {
    _of_thread: OfThread,
}

impl HeldGuard {
    /// Counts a guard.
    #[inline]
    pub fn begin() -> Self {
        GUARDS.with(|guards| guards.set(guards.get() + 1));
        Self { _of_thread: PhantomData }
    }

    /// Refuses a wait for a checkpoint of objects.
    ///
    /// # Errors
    /// [`DurabilityError::InCallBack`]: this thread holds a guard.
    pub fn check_none() -> Result<(), DurabilityError> {
        if GUARDS.with(Cell::get) == 0 { Ok(()) } else { Err(DurabilityError::InCallBack) }
    }
}

impl Drop for HeldGuard {
    #[inline]
    fn drop(&mut self) {
        GUARDS.with(|guards| guards.set(guards.get() - 1));
    }
}

/// True if a checkpoint of this log, and therefore a close, waits for this thread: the thread is in a step, or in user
/// code, which may have an object's lock.
pub(crate) fn is_awaited(log: LogAddress) -> bool {
    is_in(CallBack::CheckpointStep, log) || USER_CODE_OF.with(Cell::get) == log.0
}

/// Logs that may have to wait for this thread's code, possibly repeated.
fn blocked_logs() -> Vec<LogAddress> {
    let call_backs = CALL_BACKS.try_with(|of| of.borrow().iter().map(|&(_, log)| log).collect::<Vec<_>>());
    let mut logs = call_backs.unwrap_or_default();
    logs.extend(Some(USER_CODE_OF.with(Cell::get)).filter(|&log| log > NO_LOG).map(LogAddress));
    logs
}

/// Permission to close a log, or to wait for a checkpoint of the log, until the drop.
#[derive(Debug)]
#[must_use = "it lasts as long as the wait"]
pub struct WaitPermit(
    /// Waits under this permit.
    Vec<AwaitedLog>,
);

/// Permits this thread to close this log, or to wait for a checkpoint of the log. A close from call-backs of the same
/// log is not checked here: its caller asks [`is_awaited`]. The wait is refused if it would wait for code that waits
/// for the caller.
pub(crate) fn permit_wait(log: LogAddress) -> Result<WaitPermit, DurabilityError> {
    let others = blocked_logs().into_iter().filter(|&waits| waits != log);
    let others: Vec<_> = others.map(|waits| AwaitedLog { waits, awaited: log }).collect();
    if others.is_empty() {
        return Ok(WaitPermit(others));
    }
    let mut waits = waits().lock();
    if others.iter().any(|of| waits_for(&waits, log, of.waits)) {
        return Err(DurabilityError::InCallBack);
    }
    waits.extend(&others);
    Ok(WaitPermit(others))
}

fn waits() -> &'static Mutex<Vec<AwaitedLog>> {
    WAITS.get_or_init(Mutex::default)
}

/// True if code of `log` waits for `other`, directly or by a chain of logs. The waits have no cycle.
fn waits_for(waits: &[AwaitedLog], log: LogAddress, other: LogAddress) -> bool {
    let mut its = waits.iter().filter(|of| of.waits == log);
    its.any(|of| of.awaited == other || waits_for(waits, of.awaited, other))
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut waits = waits().lock();
        for ended in &self.0 {
            let at = waits.iter().position(|of| of == ended).expect("it is there until now");
            waits.swap_remove(at);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
