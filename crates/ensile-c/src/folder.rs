//! Calls for a folder that no process has open.
//!
//! Neighbours: `objects` opens folders; `ensile-durability` defines their meaning.

use std::ffi::c_char;
use std::sync::Arc;

use ensile_disk::{Disk, RealDisk};
use ensile_durability::{AdoptOptions, DurabilityError, adopt_with};

use crate::boundary::boundary;
use crate::code::{Code, ErrorText, Failure};
use crate::settings::folder_of;

/// Turns a copied folder into a database of its own.
///
/// # Safety
/// `folder` is null, or points to bytes that end with a zero and do not change meanwhile. `error` is null, or the
/// caller's memory for an error.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_folder_adopt(
    folder: *const c_char,
    without_buffers: u32,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the bytes.
        let folder = unsafe { folder_of(folder) }?;
        if without_buffers > 1 {
            return Err(Failure::invalid("without_buffers is 0 or 1"));
        }
        let disk = RealDisk::open_existing(&folder).map_err(DurabilityError::from)?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        adopt_with(&disk, AdoptOptions { without_buffers: without_buffers == 1 })?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}
