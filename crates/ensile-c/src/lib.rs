//! The C interface of persistent objects: `include/ensile/objects.h` declares the calls for C and C++ programs, and
//! `objects.hpp` wraps the calls for C++.
//!
//! ```text
//! C        ensile_objects_log ..  -> boundary: null? closed? in a call-back? panics caught -> ensile-objects
//! call-backs of the application   <- application: marks the thread, hands over bytes       <- recovery, checkpoints
//! ```
//! Invariants:
//! - Nothing unwinds through the boundary: a panic becomes a code (`boundary`), and a call-back returns a code.
//! - A pointer is followed only if the header makes the caller vouch for the pointer, and only after a check for null,
//!   for alignment and, for a handle, for its kind.
//! - Header and code agree: a test compares types, numbers, layouts and signatures.
//!
//! Neighbours: programs in C and C++ above; below, the floor form of `ensile-objects`.

// A module uses only the modules above.
mod code;

mod figures;

mod boundary;

mod settings;
mod writer;

mod application;

mod folder;

mod objects;

mod durability;
mod operations;
mod reports;

use std::ffi::{CStr, c_char};

pub use application::ForeignApplication;
pub use boundary::{ForeignBytes, NO_OBJECT};
pub use code::{Code, ErrorText, MESSAGE_BYTES};
pub use durability::{
    ensile_objects_ask_checkpoint, ensile_objects_checkpoint, ensile_objects_durable,
    ensile_objects_is_durable, ensile_objects_register_policy, ensile_objects_report_requests,
};
pub use figures::{ForeignCheckpoint, ForeignRecovery, ForeignStats, told};
pub use folder::ensile_folder_adopt;
pub use objects::{
    ForeignReceipt, ObjectsHandle, ensile_objects_close, ensile_objects_free, ensile_objects_open,
    ensile_objects_open_checked,
};
pub use operations::{
    ForeignMake, ensile_objects_change, ensile_objects_change_life, ensile_objects_is_poisoned,
    ensile_objects_log, ensile_objects_log_life, ensile_objects_poison,
};
pub use reports::{ensile_objects_recovery, ensile_objects_stats, ensile_objects_text};
pub use settings::{
    SettingsHandle, ensile_settings_add_folder, ensile_settings_application_name, ensile_settings_free,
    ensile_settings_new, ensile_settings_set, numbers,
};
pub use writer::{ForeignWriter, ensile_writer_absent, ensile_writer_ckpt};

/// `ENSILE_ABI_VERSION` of the header.
pub const ABI_VERSION: u32 = match u32::from_str_radix(env!("ENSILE_ABI_VERSION"), 10) {
    Ok(version) => version,
    Err(_) => panic!("the header's ABI version is a number"),
};

/// The library's version, for programs that load it.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub extern "C" fn ensile_abi_version() -> u32 {
    ABI_VERSION
}

/// A code's name; the name lives as long as the library.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub extern "C" fn ensile_code_name(code: i32) -> *const c_char {
    Code::from_number(code).map_or(c"unknown", Code::name).as_ptr()
}

const _: () = assert!(CStr::to_bytes(c"unknown").len() == 7);
