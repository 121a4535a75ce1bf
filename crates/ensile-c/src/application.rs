//! An application whose call-backs are C functions.
//!
//! Invariants:
//! - A call-back's writer works until the call-back returns, and no longer.
//! - A call-back's bytes are there until the call-back returns.
//!
//! Neighbours: `objects` opens with the application; recovery and checkpoints of `ensile-objects` call in, from several
//! threads.

use std::ffi::c_void;

use ensile_objects::{Application, CallBackResult, ObjectWriter};

use crate::ABI_VERSION;
use crate::boundary::{ForeignBytes, NO_OBJECT};
use crate::code::{Code, ErrorText, Failure};
use crate::writer::{ForeignWriter, LentWriter};

type LoadOne = unsafe extern "C" fn(*mut c_void, u64, ForeignBytes, *mut ErrorText) -> i32;
type ReplayOne =
    unsafe extern "C" fn(*mut c_void, u64, u32, *const ForeignBytes, usize, *mut ErrorText) -> i32;
type WriteCheckpoint =
    unsafe extern "C" fn(*mut c_void, u64, *mut ForeignWriter, *mut u64, *mut ErrorText) -> i32;
type LoadOlder = unsafe extern "C" fn(*mut c_void, u32, u64, ForeignBytes, *mut ErrorText) -> i32;
type ReplayOlder =
    unsafe extern "C" fn(*mut c_void, u32, u64, u32, *const ForeignBytes, usize, *mut ErrorText) -> i32;
type NextObject = unsafe extern "C" fn(*mut c_void, u64, *mut u64, *mut ErrorText) -> i32;
type SaveOne = unsafe extern "C" fn(*mut c_void, u64, *mut ForeignWriter, *mut ErrorText) -> i32;

/// `ensile_application`: the header describes the call-backs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them")]
pub struct ForeignApplication {
    pub abi_version: u32,
    pub version: u32,
    pub user: *mut c_void,
    pub load_one: Option<LoadOne>,
    pub replay_one: Option<ReplayOne>,
    pub load_older: Option<LoadOlder>,
    pub replay_older: Option<ReplayOlder>,
    pub checkpoint: Option<WriteCheckpoint>,
    pub next_object: Option<NextObject>,
    pub save_one: Option<SaveOne>,
}

/// Enumeration of an application's objects.
#[derive(Clone, Copy, Debug)]
enum Enumeration {
    /// The application enumerates by itself.
    ByCallBack(WriteCheckpoint),
    /// An iterator enumerates.
    ByIterator(NextObject, SaveOne),
}

/// An application's checked call-backs.
#[derive(Debug)]
pub(crate) struct CallBacks {
    user: *mut c_void,
    version: u16,
    load_one: LoadOne,
    replay_one: ReplayOne,
    load_older: Option<LoadOlder>,
    replay_older: Option<ReplayOlder>,
    enumeration: Enumeration,
}

// SAFETY: the header asks for call-backs that may be called, with `user`, from any thread.
unsafe impl Send for CallBacks {}
// SAFETY: the header asks for call-backs that may be called, with `user`, from several threads at once.
unsafe impl Sync for CallBacks {}

impl CallBacks {
    /// The call-backs of a caller's table.
    ///
    /// # Safety
    /// `table` is null, or points to an `ensile_application` whose call-backs do as the header says, from now on until
    /// the objects are closed.
    pub(crate) unsafe fn from_table(table: *const ForeignApplication) -> Result<Self, Failure> {
        if table.is_null() || !table.is_aligned() {
            return Err(Failure::invalid("the application is NULL, or not aligned"));
        }
        // Alone and first: a table of another version may be shorter.
        // SAFETY: every version begins with its number.
        let abi_version = unsafe { table.cast::<u32>().read() };
        if abi_version != ABI_VERSION {
            let why = format!(
                "the program was built with version {abi_version} of ensile/objects.h, and this library is of version \
                 {ABI_VERSION}: build it with the library's own header"
            );
            return Err(Failure::new(Code::AbiMismatch, why));
        }
        // SAFETY: the pointer is to a table of this version.
        let table = unsafe { table.read() };
        let missing = |what| Failure::invalid(format!("the application's {what} is NULL"));
        let enumeration = match (table.checkpoint, table.next_object, table.save_one) {
            (Some(checkpoint), None, None) => Enumeration::ByCallBack(checkpoint),
            (None, Some(next), Some(save)) => Enumeration::ByIterator(next, save),
            _ => {
                let why = "give `checkpoint`, or `next_object` and `save_one` in its place";
                return Err(Failure::invalid(why));
            }
        };
        let version = u16::try_from(table.version).map_err(|_| {
            let version = table.version;
            Failure::invalid(format!("the application's version is {version}, and {} at most", u16::MAX))
        })?;
        Ok(Self {
            user: table.user,
            version,
            load_older: table.load_older,
            replay_older: table.replay_older,
            load_one: table.load_one.ok_or_else(|| missing("load_one"))?,
            replay_one: table.replay_one.ok_or_else(|| missing("replay_one"))?,
            enumeration,
        })
    }

    /// Checks that a second table can be a copy of this application.
    pub(crate) fn check_copy(&self, copy: &Self) -> Result<(), Failure> {
        if copy.version != self.version {
            let (version, other) = (self.version, copy.version);
            let why = format!("the application is of version {version}, and its copy of version {other}");
            return Err(Failure::invalid(why));
        }
        if !self.user.is_null() && copy.user == self.user {
            return Err(Failure::invalid("the copy's `user` is the application's: make a second instance"));
        }
        Ok(())
    }

    /// The error for an older version without a call-back of the application.
    fn no_up_cast(&self, call_back: &str, version: u16) -> Box<str> {
        let newest = self.version;
        format!(
            "it is of version {version}; this program writes version {newest}, and its {call_back} is NULL"
        )
        .into()
    }

    /// Writes objects by the application's iterator, until there is no room.
    fn iterate(
        &self,
        next_object: NextObject,
        save_one: SaveOne,
        mut from: u64,
        out: &mut ObjectWriter<'_>,
    ) -> Result<Option<u64>, Box<str>> {
        loop {
            let mut object = NO_OBJECT;
            // SAFETY: the function is a call-back of the application, called as the header says.
            call_back(|why| unsafe { next_object(self.user, from, &raw mut object, why) })?;
            if object == NO_OBJECT {
                return Ok(None);
            }
            if object < from {
                return Err(format!("the iterator went back from {from} to {object}").into());
            }
            let lent = LentWriter::new(out);
            // SAFETY: the function is a call-back of the application, called as the header says.
            call_back(|why| unsafe { save_one(self.user, object, lent.address(), why) })?;
            from = object + 1;
            if lent.is_full() {
                return Ok(Some(from));
            }
        }
    }
}

impl Application for CallBacks {
    fn version(&self) -> u16 {
        self.version
    }

    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        let next = match self.enumeration {
            Enumeration::ByCallBack(checkpoint) => {
                let mut next = NO_OBJECT;
                let lent = LentWriter::new(out);
                // SAFETY: the function is a call-back of the application, called as the header says.
                call_back(|why| unsafe { checkpoint(self.user, from, lent.address(), &raw mut next, why) })
                    .map(|()| (next != NO_OBJECT).then_some(next))
            }
            Enumeration::ByIterator(next, save) => self.iterate(next, save, from, out),
        };
        next.unwrap_or_else(|why| {
            out.refuse(why);
            None
        })
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        // SAFETY: the function is a call-back of the application, called as the header says.
        call_back(|why| unsafe { (self.load_one)(self.user, object, bytes.into(), why) })
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        let list: Vec<ForeignBytes> = parameters.iter().map(|bytes| (*bytes).into()).collect();
        let (first, count) = (list.as_ptr(), list.len());
        // SAFETY: the function is a call-back of the application, called as the header says.
        call_back(|why| unsafe { (self.replay_one)(self.user, object, operation, first, count, why) })
    }

    fn load_older(&self, version: u16, object: u64, bytes: &[u8]) -> CallBackResult {
        let load_older = self.load_older.ok_or_else(|| self.no_up_cast("load_older", version))?;
        // SAFETY: the function is a call-back of the application, called as the header says.
        call_back(|why| unsafe { load_older(self.user, version.into(), object, bytes.into(), why) })
    }

    fn replay_older(
        &self,
        version: u16,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
    ) -> CallBackResult {
        let replay_older = self.replay_older.ok_or_else(|| self.no_up_cast("replay_older", version))?;
        let list: Vec<ForeignBytes> = parameters.iter().map(|bytes| (*bytes).into()).collect();
        let (first, count, version) = (list.as_ptr(), list.len(), version.into());
        // SAFETY: the function is a call-back of the application, called as the header says.
        call_back(|why| unsafe { replay_older(self.user, version, object, operation, first, count, why) })
    }
}

/// Calls back.
fn call_back(call: impl FnOnce(*mut ErrorText) -> i32) -> CallBackResult {
    let mut why = ErrorText::new();
    let outcome = call(&raw mut why);
    if outcome == 0 {
        return Ok(());
    }
    // The application may have written to the last byte.
    let said = why.text();
    Err(if said.is_empty() { format!("a call-back returned {outcome}, and did not say why") } else { said }
        .into())
}
