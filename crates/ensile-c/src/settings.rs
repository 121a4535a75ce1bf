//! Settings: a handle that a program fills before an open, and later uses to change the policy.
//!
//! Neighbours: `objects` opens with the settings; `ensile-objects` defines their meaning.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use ensile_base::limits::NICENESS_MAX;
use ensile_durability::application_name;
use ensile_objects::{
    AdaptiveThreshold, CheckpointPolicy, ObjectDurability, ObjectsBuilder, ThresholdMeasure,
};

use crate::boundary::{AnswerPlace, HandleKind, HandleType, boundary, handle_mut, take_handle};
use crate::code::{Code, ErrorText, Failure};

/// The numbers of settings, of kinds of folders and of marks, as in the header.
#[expect(missing_docs, reason = "the header has them")]
pub mod numbers {
    pub const LOGGERS: u32 = 1;
    pub const CHECKPOINTERS: u32 = 2;
    pub const RECOVERY_THREADS: u32 = 3;
    pub const EPOCH_INTERVAL_MICROS: u32 = 4;
    pub const LOG_FILE_BYTES: u32 = 5;
    pub const CHECKPOINT_BYTES_PER_SECOND: u32 = 6;
    pub const PROCESS_SAFE: u32 = 7;
    pub const CHECKPOINT_NICENESS: u32 = 8;
    pub const NOT_LOGGED: u32 = 9;
    pub const STOP_SHIPPING: u32 = 10;
    pub const OPEN_FENCED: u32 = 11;
    pub const MARK_LIVES: u32 = 12;
    pub const OPEN_POISONED: u32 = 13;
    pub const POLICY_ON_DEMAND: u32 = 32;
    pub const POLICY_LOG_BYTES: u32 = 33;
    pub const POLICY_LOG_RECORDS: u32 = 34;
    pub const POLICY_INTERVAL_MILLIS: u32 = 35;
    pub const POLICY_RECOVERY_MILLIS: u32 = 36;
    pub const POLICY_ADAPTIVE_CAPACITY: u32 = 37;
    pub const POLICY_ADAPTIVE_LOWER: u32 = 38;
    pub const POLICY_ADAPTIVE_UPPER: u32 = 39;
    pub const POLICY_ADAPTIVE_LOW_WATERMARK: u32 = 40;
    pub const POLICY_ADAPTIVE_HIGH_WATERMARK: u32 = 41;
    pub const POLICY_ADAPTIVE_SCALING: u32 = 42;
    pub const POLICY_ADAPTIVE_WEIGHT: u32 = 43;
    pub const POLICY_ADAPTIVE_WINDOW_MILLIS: u32 = 44;
    pub const POLICY_ADAPTIVE_MEASURE: u32 = 45;
    pub const POLICY_ADAPTIVE_PROBED: u32 = 46;
    pub const MEASURE_BYTES: u32 = 0;
    pub const MEASURE_RECORDS: u32 = 1;
    pub const MEASURE_TIME: u32 = 2;
    pub const LOG_FOLDER: u32 = 1;
    pub const CHECKPOINT_FOLDER: u32 = 2;
    pub const LIFE_CREATION: u32 = 1;
    pub const LIFE_CHANGE: u32 = 2;
    pub const LIFE_REMOVAL: u32 = 3;
}

/// `ensile_settings`.
#[derive(Debug)]
#[repr(C)]
pub struct SettingsHandle {
    kind: HandleKind,
    pub(crate) values: SettingValues,
}

// SAFETY: `repr(C)`, the kind is the first field, and `new` alone makes a handle.
unsafe impl HandleType for SettingsHandle {
    const KIND: HandleKind = HandleKind::new(b"settings");
    const WHAT: &'static str = "settings";
}

/// A reason for checkpoints that the usual policy has.
#[derive(Clone, Copy, Debug, Default)]
enum UsualReason<T> {
    /// The program has not set the reason.
    #[default]
    Untouched,
    Set(Option<T>),
}

impl<T> UsualReason<T> {
    /// The reason's value; `usual` if the program has not set the reason.
    fn or(self, usual: Option<T>) -> Option<T> {
        match self {
            Self::Untouched => usual,
            Self::Set(value) => value,
        }
    }
}

/// Values set for an adaptive threshold. The threshold exists once its capacity is set. The order of the settings does
/// not matter.
#[derive(Clone, Copy, Debug, Default)]
struct AdaptiveValues {
    capacity: Option<u64>,
    measure: Option<ThresholdMeasure>,
    is_probed: bool,
    lower: Option<u64>,
    upper: Option<u64>,
    low_watermark: Option<u8>,
    high_watermark: Option<u8>,
    scaling: Option<u8>,
    weight: Option<u8>,
    window: Option<Duration>,
}

impl AdaptiveValues {
    /// The threshold. Missing values for UPS come from table 3; for bytes and time, from the engine.
    fn threshold(&self) -> Option<AdaptiveThreshold> {
        let capacity = self.capacity?;
        let usual = match self.measure {
            Some(ThresholdMeasure::Records) => AdaptiveThreshold::of_ups(capacity),
            Some(ThresholdMeasure::Time) => AdaptiveThreshold::of_time(capacity),
            _ => AdaptiveThreshold::of_capacity(capacity),
        };
        Some(AdaptiveThreshold {
            is_probed: self.is_probed,
            lower: self.lower.unwrap_or(usual.lower),
            upper: self.upper.unwrap_or(usual.upper),
            low_watermark: self.low_watermark.unwrap_or(usual.low_watermark),
            high_watermark: self.high_watermark.unwrap_or(usual.high_watermark),
            scaling: self.scaling.unwrap_or(usual.scaling),
            weight: self.weight.unwrap_or(usual.weight),
            window: self.window.unwrap_or(usual.window),
            ..usual
        })
    }
}

/// Values set for the policy.
#[derive(Clone, Copy, Debug, Default)]
struct PolicyValues {
    log_bytes: UsualReason<u64>,
    interval: UsualReason<Duration>,
    log_records: Option<u64>,
    recovery_time: Option<Duration>,
    adaptive: AdaptiveValues,
}

impl PolicyValues {
    /// Values without any reason for a checkpoint.
    fn on_demand() -> Self {
        Self { log_bytes: UsualReason::Set(None), interval: UsualReason::Set(None), ..Self::default() }
    }

    /// The policy. A threshold that follows the load takes the place of the usual reasons, unless the reasons were set.
    /// A checkpoint every ten seconds would leave the threshold nothing to decide.
    fn policy(&self) -> CheckpointPolicy {
        let adaptive = self.adaptive.threshold();
        let usual = match adaptive {
            Some(_) => CheckpointPolicy::on_demand(),
            None => CheckpointPolicy::default(),
        };
        CheckpointPolicy {
            log_bytes: self.log_bytes.or(usual.log_bytes),
            interval: self.interval.or(usual.interval),
            log_records: self.log_records,
            recovery_time: self.recovery_time,
            adaptive,
        }
    }
}

/// Values of the settings.
#[derive(Clone, Debug)]
pub(crate) struct SettingValues {
    builder: ObjectsBuilder,
    policy: PolicyValues,
    log_folders: Vec<PathBuf>,
    checkpoint_folders: Vec<PathBuf>,
    /// True if the folder forgets its shared store.
    stops_shipping: bool,
    /// True if a fenced folder is opened too.
    opens_fenced: bool,
    /// True if the log marks the lives of objects.
    marks_lives: bool,
    /// True if an object whose call-back fails at the open is poisoned.
    opens_poisoned: bool,
}

impl SettingValues {
    pub(crate) fn new() -> Self {
        Self {
            builder: ObjectsBuilder::new(PathBuf::new()),
            policy: PolicyValues::default(),
            log_folders: Vec::new(),
            checkpoint_folders: Vec::new(),
            stops_shipping: false,
            opens_fenced: false,
            marks_lives: false,
            opens_poisoned: false,
        }
    }

    /// The builder that opens this folder.
    pub(crate) fn builder(&self, folder: PathBuf) -> ObjectsBuilder {
        let mut builder = self.builder.clone().folder(folder).policy(&self.policy());
        if !self.log_folders.is_empty() {
            builder = builder.log_folders(&self.log_folders);
        }
        if !self.checkpoint_folders.is_empty() {
            builder = builder.checkpoint_folders(&self.checkpoint_folders);
        }
        if self.stops_shipping {
            builder = builder.stop_shipping();
        }
        if self.opens_fenced {
            builder = builder.open_fenced();
        }
        if self.marks_lives {
            builder = builder.mark_lives();
        }
        if self.opens_poisoned {
            builder = builder.open_poisoned();
        }
        builder
    }

    pub(crate) fn policy(&self) -> CheckpointPolicy {
        self.policy.policy()
    }

    fn set(&mut self, setting: u32, value: u64) -> Result<(), Failure> {
        use numbers as n;
        let builder = self.builder.clone();
        match setting {
            n::LOGGERS => self.builder = builder.loggers(count(value)?),
            n::CHECKPOINTERS => self.builder = builder.checkpointers(count(value)?),
            n::RECOVERY_THREADS => self.builder = builder.recovery_threads(count(value)?),
            n::EPOCH_INTERVAL_MICROS => self.builder = builder.epoch_interval(Duration::from_micros(value)),
            n::LOG_FILE_BYTES => self.builder = builder.log_file_bytes(not_0(value)?),
            n::CHECKPOINT_BYTES_PER_SECOND => self.builder = builder.checkpoint_bandwidth(not_0(value)?),
            n::CHECKPOINT_NICENESS => self.builder = builder.checkpoint_niceness(niceness(value)?),
            n::PROCESS_SAFE => self.builder = builder.durability(level(value, ObjectDurability::Process)?),
            n::NOT_LOGGED => self.builder = builder.durability(level(value, ObjectDurability::NoLog)?),
            n::STOP_SHIPPING => self.stops_shipping = yes(value)?,
            n::OPEN_FENCED => self.opens_fenced = yes(value)?,
            n::MARK_LIVES => self.marks_lives = yes(value)?,
            n::OPEN_POISONED => self.opens_poisoned = yes(value)?,
            n::POLICY_ON_DEMAND if value == 0 => self.policy = PolicyValues::on_demand(),
            n::POLICY_ON_DEMAND => return Err(Failure::invalid("this setting has the value 0 only")),
            n::POLICY_LOG_BYTES => self.policy.log_bytes = UsualReason::Set(unless_0(value)),
            n::POLICY_LOG_RECORDS => self.policy.log_records = unless_0(value),
            n::POLICY_INTERVAL_MILLIS => {
                self.policy.interval = UsualReason::Set(unless_0(value).map(Duration::from_millis));
            }
            n::POLICY_RECOVERY_MILLIS => {
                self.policy.recovery_time = unless_0(value).map(Duration::from_millis)
            }
            n::POLICY_ADAPTIVE_CAPACITY => self.policy.adaptive.capacity = unless_0(value),
            _ => self.set_adaptive(setting, value)?,
        }
        Ok(())
    }

    /// Sets a value of an adaptive threshold other than its capacity. The capacity may be set before or later.
    fn set_adaptive(&mut self, setting: u32, value: u64) -> Result<(), Failure> {
        use numbers as n;
        let adaptive = &mut self.policy.adaptive;
        match setting {
            n::POLICY_ADAPTIVE_LOWER => adaptive.lower = Some(value),
            n::POLICY_ADAPTIVE_UPPER => adaptive.upper = Some(value),
            n::POLICY_ADAPTIVE_LOW_WATERMARK => adaptive.low_watermark = Some(small(value)?),
            n::POLICY_ADAPTIVE_HIGH_WATERMARK => adaptive.high_watermark = Some(small(value)?),
            n::POLICY_ADAPTIVE_SCALING => adaptive.scaling = Some(small(value)?),
            n::POLICY_ADAPTIVE_WEIGHT => adaptive.weight = Some(small(value)?),
            n::POLICY_ADAPTIVE_WINDOW_MILLIS => adaptive.window = Some(Duration::from_millis(value)),
            n::POLICY_ADAPTIVE_MEASURE => adaptive.measure = Some(measure(value)?),
            n::POLICY_ADAPTIVE_PROBED => adaptive.is_probed = yes(value)?,
            _ => return Err(Failure::invalid(format!("{setting} is the number of no setting"))),
        }
        Ok(())
    }
}

fn unless_0(value: u64) -> Option<u64> {
    (value != 0).then_some(value)
}

fn not_0(value: u64) -> Result<u64, Failure> {
    unless_0(value).ok_or_else(|| Failure::invalid("this setting cannot be 0"))
}

fn count(value: u64) -> Result<usize, Failure> {
    usize::try_from(not_0(value)?).map_err(|_| too_large(value))
}

fn small(value: u64) -> Result<u8, Failure> {
    u8::try_from(value).map_err(|_| too_large(value))
}

fn niceness(value: u64) -> Result<u8, Failure> {
    let niceness = small(value)?;
    if niceness > NICENESS_MAX { Err(too_large(value)) } else { Ok(niceness) }
}

fn measure(value: u64) -> Result<ThresholdMeasure, Failure> {
    match u32::try_from(value) {
        Ok(numbers::MEASURE_BYTES) => Ok(ThresholdMeasure::Bytes),
        Ok(numbers::MEASURE_RECORDS) => Ok(ThresholdMeasure::Records),
        Ok(numbers::MEASURE_TIME) => Ok(ThresholdMeasure::Time),
        _ => Err(Failure::invalid("this setting is an ENSILE_MEASURE_..: 0, 1 or 2")),
    }
}

/// The level `set`, or the usual level.
fn level(value: u64, set: ObjectDurability) -> Result<ObjectDurability, Failure> {
    Ok(if yes(value)? { set } else { ObjectDurability::default() })
}

fn yes(value: u64) -> Result<bool, Failure> {
    if value > 1 { Err(Failure::invalid("this setting is 0 or 1")) } else { Ok(value == 1) }
}

fn too_large(value: u64) -> Failure {
    Failure::invalid(format!("{value} is too large for this setting"))
}

/// A folder's name, from the bytes of the system.
///
/// # Safety
/// `name` is null, or points to bytes that end with a zero and do not change meanwhile.
pub(crate) unsafe fn folder_of(name: *const c_char) -> Result<PathBuf, Failure> {
    if name.is_null() {
        return Err(Failure::invalid("the folder's name is NULL"));
    }
    // SAFETY: `name` is not null, and the caller vouches for the bytes.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() {
        return Err(Failure::invalid("the folder's name is empty"));
    }
    Ok(OsStr::from_bytes(name.to_bytes()).into())
}

/// Makes settings.
///
/// # Safety
/// Each pointer is null, or points to the caller's memory for its value, unused by other threads meanwhile.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_settings_new(
    settings: *mut *mut SettingsHandle,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        let place = AnswerPlace::new(settings, "settings")?;
        let made = SettingsHandle { kind: SettingsHandle::KIND, values: SettingValues::new() };
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(Box::into_raw(Box::new(made))) };
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Changes a setting.
///
/// # Safety
/// `settings` is null or a live handle that no other call uses; `error` is null, or the caller's memory for an error.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_settings_set(
    settings: *mut SettingsHandle,
    setting: u32,
    value: u64,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the handle.
        let settings = unsafe { handle_mut(settings) }?;
        settings.values.set(setting, value)?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Adds a folder on another device.
///
/// # Safety
/// As for [`ensile_settings_set`]; `folder` is null or a string that ends with a zero.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_settings_add_folder(
    settings: *mut SettingsHandle,
    what: u32,
    folder: *const c_char,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the handle.
        let values = &mut unsafe { handle_mut(settings) }?.values;
        // SAFETY: the caller vouches for the string.
        let folder = unsafe { folder_of(folder) }?;
        match what {
            numbers::LOG_FOLDER => values.log_folders.push(folder),
            numbers::CHECKPOINT_FOLDER => values.checkpoint_folders.push(folder),
            _ => return Err(Failure::invalid(format!("{what} is the number of no kind of folders"))),
        }
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Sets the name of the application that owns the folder.
///
/// # Safety
/// As for [`ensile_settings_set`]; `name` is null or a string that ends with a zero.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_settings_application_name(
    settings: *mut SettingsHandle,
    name: *const c_char,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the handle.
        let values = &mut unsafe { handle_mut(settings) }?.values;
        if name.is_null() {
            return Err(Failure::invalid("the application's name is NULL"));
        }
        // SAFETY: `name` is not null, and the caller vouches for the bytes.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let name = application_name(&name)?;
        values.builder = values.builder.clone().application_name(name.as_str());
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Frees settings.
///
/// # Safety
/// `settings` is null or a live handle that is not used from now on; `error` is null, or the caller's memory for an
/// error.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_settings_free(settings: *mut SettingsHandle, error: *mut ErrorText) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the handle.
        drop(unsafe { take_handle(settings) }?);
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

#[cfg(test)]
mod tests;
