//! An application in the terms of C: call-backs with a user pointer, and calls with codes and texts.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ensile_c::*;

/// Outcome of a call.
pub(crate) type Outcome = Result<(), (Code, String)>;

/// Makes a call with a place for its text.
pub(crate) fn call(body: impl FnOnce(*mut ErrorText) -> i32) -> Outcome {
    // Earlier contents must not show.
    let mut error = ErrorText { code: 99, message: [b'x'; MESSAGE_BYTES] };
    let code = body(&raw mut error);
    assert_eq!(error.code, code, "code and text belong together");
    match Code::from_number(code).expect("a code") {
        Code::Ok => {
            assert_eq!(error.text(), "");
            Ok(())
        }
        code => {
            assert!(error.text().len() > 10, "{code:?}: {}", error.text());
            Err((code, error.text()))
        }
    }
}

/// The code of a call that must fail.
pub(crate) fn refused(outcome: Outcome) -> Code {
    outcome.expect_err("is refused").0
}

/// Further action of a call-back.
pub(crate) type InCallBack = Box<dyn Fn(&Numbers, *mut ForeignWriter) + Send + Sync>;

/// Numbers, each with some bytes behind it.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) objects: Mutex<BTreeMap<u64, u64>>,
    /// Bytes behind each number in a checkpoint.
    pub(crate) padding: usize,
    /// Called in `load_one`, `replay_one` (without a writer) and the writing of each object.
    pub(crate) besides: Option<InCallBack>,
    /// Result of the call-backs.
    pub(crate) returns: i32,
    pub(crate) handle: Mutex<Option<Handle>>,
}

impl Numbers {
    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self, writer: *mut ForeignWriter) {
        self.besides.iter().for_each(|besides| besides(self, writer));
    }
}

/// A handle that threads may share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle(pub(crate) *mut ObjectsHandle);

// SAFETY: the header permits the use of handles from any thread.
unsafe impl Send for Handle {}
// SAFETY: the header permits the use of handles from several threads at once.
unsafe impl Sync for Handle {}

/// # Safety
/// `user` is a [`Numbers`] that lives.
unsafe fn of<'n>(user: *mut c_void) -> &'n Numbers {
    // SAFETY: the caller vouches for `user`.
    unsafe { &*user.cast::<Numbers>() }
}

unsafe extern "C" fn load_one(user: *mut c_void, object: u64, bytes: ForeignBytes, _: *mut ErrorText) -> i32 {
    // SAFETY: the library passes the table's `user`, and readable bytes.
    let (numbers, bytes) =
        unsafe { (of(user), std::slice::from_raw_parts(bytes.data.cast::<u8>(), bytes.size)) };
    numbers.called(ptr::null_mut());
    numbers.all().insert(object, u64::from_le_bytes(bytes[..8].try_into().expect("eight")));
    numbers.returns
}

unsafe extern "C" fn replay_one(
    user: *mut c_void,
    object: u64,
    operation: u32,
    parameters: *const ForeignBytes,
    count: usize,
    why: *mut ErrorText,
) -> i32 {
    // SAFETY: the library passes the table's `user`.
    let numbers = unsafe { of(user) };
    numbers.called(ptr::null_mut());
    assert_eq!(operation, 7);
    let mut sum = 0;
    for at in 0..count {
        // SAFETY: `at` is below the number of parameters, each of eight bytes.
        sum += unsafe { (*parameters.add(at)).data.cast::<u64>().read_unaligned() };
    }
    *numbers.all().entry(object).or_default() += sum;
    if numbers.returns != 0 {
        // SAFETY: the library gives a place.
        unsafe { (*why).message = [b'y'; MESSAGE_BYTES] };
    }
    numbers.returns
}

/// Until version 3 numbers were counted in tens.
pub(crate) unsafe extern "C" fn load_older(
    user: *mut c_void,
    version: u32,
    object: u64,
    bytes: ForeignBytes,
    why: *mut ErrorText,
) -> i32 {
    assert_eq!(version, 2);
    // SAFETY: the library passes the table's `user`.
    let code = unsafe { load_one(user, object, bytes, why) };
    // SAFETY: the numbers of the table live.
    *unsafe { of(user) }.all().get_mut(&object).expect("it was loaded") *= 10;
    code
}

/// As [`load_older`], of an operation.
pub(crate) unsafe extern "C" fn replay_older(
    user: *mut c_void,
    version: u32,
    object: u64,
    operation: u32,
    parameters: *const ForeignBytes,
    count: usize,
    why: *mut ErrorText,
) -> i32 {
    assert_eq!(version, 2);
    // SAFETY: the library passes the table's `user`.
    let numbers = unsafe { of(user) };
    let before = numbers.all().get(&object).copied().unwrap_or(0);
    // SAFETY: the library passes readable parameters.
    let code = unsafe { replay_one(user, object, operation, parameters, count, why) };
    let mut all = numbers.all();
    let number = all.get_mut(&object).expect("it was replayed");
    *number = before + (*number - before) * 10;
    code
}

unsafe extern "C" fn next_object(user: *mut c_void, from: u64, object: *mut u64, _: *mut ErrorText) -> i32 {
    // SAFETY: the library passes the table's `user`, and a place.
    unsafe {
        of(user).all().range(from..).next().into_iter().for_each(|(next, _)| *object = *next);
    }
    0
}

unsafe extern "C" fn save_one(
    user: *mut c_void,
    object: u64,
    out: *mut ForeignWriter,
    _: *mut ErrorText,
) -> i32 {
    // SAFETY: the library passes the table's `user`.
    let numbers = unsafe { of(user) };
    numbers.called(out);
    let objects = numbers.all();
    let mut bytes = objects[&object].to_le_bytes().to_vec();
    bytes.resize(8 + numbers.padding, 1);
    // SAFETY: the bytes are readable.
    let taken = unsafe { ensile_writer_ckpt(out, object, bytes.as_ptr().cast(), bytes.len()) };
    let expected = [Code::Ok, Code::BlockFull, Code::CheckpointFailed].map(|code| code as i32);
    assert!(expected.contains(&taken) || numbers.returns != 0, "{taken}");
    numbers.returns
}

/// The call-backs of these numbers.
pub(crate) fn table(numbers: &Numbers) -> ForeignApplication {
    ForeignApplication {
        abi_version: ABI_VERSION,
        version: 0,
        user: (&raw const *numbers).cast_mut().cast(),
        load_one: Some(load_one),
        replay_one: Some(replay_one),
        load_older: None,
        replay_older: None,
        checkpoint: None,
        next_object: Some(next_object),
        save_one: Some(save_one),
    }
}

/// A folder of the machine's own, removed when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("ensile-c-{}-{number}", std::process::id())))
    }

    pub(crate) fn name(&self) -> CString {
        CString::new(self.0.as_os_str().as_bytes()).expect("no zero")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Settings without checkpoints that begin by themselves.
pub(crate) fn on_demand() -> *mut SettingsHandle {
    let mut settings = ptr::null_mut();
    // SAFETY: there are places for the answers.
    call(|error| unsafe { ensile_settings_new(&raw mut settings, error) }).expect("is made");
    // SAFETY: the handle is live.
    call(|error| unsafe { ensile_settings_set(settings, numbers::POLICY_ON_DEMAND, 0, error) })
        .expect("is set");
    settings
}

pub(crate) fn try_open(folder: &Folder, table: &ForeignApplication) -> Result<Handle, (Code, String)> {
    let (settings, mut objects) = (on_demand(), ptr::null_mut());
    // SAFETY: handle and table are live, and there are places for the answers.
    let outcome = call(|error| unsafe {
        ensile_objects_open(folder.name().as_ptr(), settings, table, &raw mut objects, error)
    });
    // SAFETY: the handle has no further use.
    call(|error| unsafe { ensile_settings_free(settings, error) }).expect("ends");
    assert_eq!(outcome.is_ok(), !objects.is_null());
    outcome.map(|()| Handle(objects))
}

pub(crate) fn try_open_checked(
    folder: &Folder,
    table: &ForeignApplication,
    copy: &ForeignApplication,
) -> Result<Handle, (Code, String)> {
    let (settings, mut objects) = (on_demand(), ptr::null_mut());
    // SAFETY: handle and tables are live, and there are places for the answers.
    let outcome = call(|error| unsafe {
        let name = folder.name();
        ensile_objects_open_checked(name.as_ptr(), settings, table, copy, &raw mut objects, error)
    });
    // SAFETY: the handle has no further use.
    call(|error| unsafe { ensile_settings_free(settings, error) }).expect("ends");
    outcome.map(|()| Handle(objects))
}

pub(crate) fn open(folder: &Folder, numbers: &Numbers) -> Handle {
    let handle = try_open(folder, &table(numbers)).expect("opens");
    *numbers.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    handle
}

impl Handle {
    /// Adds to a number, under its guard.
    pub(crate) fn add(
        self,
        numbers: &Numbers,
        object: u64,
        by: u64,
    ) -> Result<ForeignReceipt, (Code, String)> {
        let mut objects = numbers.all();
        let receipt = self.log(object, &[by])?;
        *objects.entry(object).or_default() += by;
        Ok(receipt)
    }

    pub(crate) fn log(self, object: u64, parameters: &[u64]) -> Result<ForeignReceipt, (Code, String)> {
        let bytes = |number: &u64| ForeignBytes { data: (&raw const *number).cast(), size: 8 };
        let list: Vec<ForeignBytes> = parameters.iter().map(bytes).collect();
        let mut receipt = ForeignReceipt { epoch: 0 };
        // SAFETY: the handle is live, and so are the parameters and the places for the answers.
        call(|error| unsafe {
            ensile_objects_log(self.0, object, 7, list.as_ptr(), list.len(), &raw mut receipt, error)
        })?;
        Ok(receipt)
    }

    pub(crate) fn poison(self, object: u64) -> Outcome {
        // SAFETY: the handle is null or live.
        call(|error| unsafe { ensile_objects_poison(self.0, object, error) })
    }

    pub(crate) fn is_poisoned(self, object: u64) -> Result<bool, (Code, String)> {
        let mut answer = false;
        // SAFETY: the handle is live, and there is a place for the answer.
        call(|error| unsafe { ensile_objects_is_poisoned(self.0, object, &raw mut answer, error) })?;
        Ok(answer)
    }

    pub(crate) fn durable(self, receipt: ForeignReceipt) -> Outcome {
        // SAFETY: the handle is live.
        call(|error| unsafe { ensile_objects_durable(self.0, receipt, error) })
    }

    pub(crate) fn checkpoint(self) -> Result<ForeignCheckpoint, (Code, String)> {
        let mut report = ForeignCheckpoint::default();
        // SAFETY: the handle is live, and there are places for the answers.
        call(|error| unsafe {
            ensile_objects_checkpoint(self.0, &raw mut report, size_of::<ForeignCheckpoint>(), error)
        })?;
        Ok(report)
    }

    pub(crate) fn stats(self) -> Result<ForeignStats, (Code, String)> {
        let mut stats = ForeignStats::default();
        // SAFETY: the handle is live, and there are places for the answers.
        call(|error| unsafe {
            ensile_objects_stats(self.0, &raw mut stats, size_of::<ForeignStats>(), error)
        })?;
        Ok(stats)
    }

    pub(crate) fn close(self) -> Outcome {
        // SAFETY: the handle is live.
        call(|error| unsafe { ensile_objects_close(self.0, error) })
    }

    pub(crate) fn free(self) -> Outcome {
        // SAFETY: a test uses no handle after its free.
        call(|error| unsafe { ensile_objects_free(self.0, error) })
    }
}
