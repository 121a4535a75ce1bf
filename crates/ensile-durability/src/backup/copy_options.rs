//! Options of a backup or a restore.
//!
//! Neighbours: [`super::copy_source`] checks the options; the pace and the target use them.

use crate::DurabilityError;

/// Largest number of states in a backup.
const KEEP_MAX: usize = 1 << 10;

/// Options of a backup or a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Largest rate of writes and verifying reads together, in bytes a second; `None` for no limit. If a backup of an
    /// open database begins with a picture, the picture is written at the same rate.
    pub bytes_per_second: Option<u64>,
    /// Number of states that the backup's folder keeps, the newest included; pictures and copies of files count alike.
    /// `None` keeps as many states as before, at least 1: the new state takes the place of the oldest.
    pub keep: Option<usize>,
}

/// Checks the options of a backup.
///
/// # Errors
/// [`DurabilityError::Config`].
pub fn check_copy(options: CopyOptions) -> Result<(), DurabilityError> {
    if options.bytes_per_second == Some(0) {
        return Err(DurabilityError::config("a backup that may write 0 bytes a second never ends"));
    }
    match options.keep {
        Some(keep) if keep == 0 || keep > KEEP_MAX => {
            Err(DurabilityError::config(format!("a backup keeps 1 to {KEEP_MAX} states, not {keep}")))
        }
        _ => Ok(()),
    }
}
