//! Settings that an application gives for shipping, and the figures that the application reads.
//!
//! Neighbours: the shipper reads the settings and counts the figures.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::SHARED_OBJECT_BYTES_MIN;

use super::shared_store::SharedStore;
use crate::DurabilityError;

/// Default length of an object in bytes: short enough to end a call of the store soon, and to put the object again.
const OBJECT_BYTES: u64 = 64 << 20;
const _: () = assert!(OBJECT_BYTES >= SHARED_OBJECT_BYTES_MIN);

/// Reaction of a database after another database has taken over from the shared store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFenced {
    /// The log stops: calls that change data, and strict results, return an error. Another machine now serves the data,
    /// so a commit that this database acknowledged from then on would be in no common history.
    #[default]
    Stop,
    /// The database continues locally, and ships nothing any more.
    GoOn,
}

/// Destination and settings of shipping.
#[derive(Clone, Debug)]
pub struct ShippingConfig {
    /// Shared store that receives the files.
    pub to: Arc<dyn SharedStore>,
    /// Largest rate of writes to the store, in bytes a second; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Reaction of the database to a take-over by another machine.
    pub when_fenced: WhenFenced,
    /// True to ship from now on to another store than the store that the folder remembers. The database gives up the
    /// remembered store, and ignores a take-over in that store. If false, another store and an empty place are refused,
    /// because a device may not be mounted.
    pub is_new_place: bool,
    /// Longest time for which unshipped log files are kept after a checkpoint has made the files superfluous. The time
    /// begins with the first refused removal, and ends once nothing is left to ship.
    pub hold: Duration,
    /// Time for which an object stays in the store after the last manifest that names it. A take-over may still read
    /// the object.
    pub grace: Duration,
    /// Length of an object in bytes. A longer file becomes several objects of this length; only the last object may be
    /// shorter. After a failure, or the death of the process, an upload goes on with its current object.
    pub object_bytes: u64,
    /// Longest time for which the end of the database waits for a running call of the store. The end does not wait for
    /// a longer call or for its thread, and reports the files that were not shipped.
    pub close_wait: Duration,
}

impl ShippingConfig {
    /// Settings for shipping to this store without a limit. `hold` and `grace` are ten minutes, `close_wait` is ten
    /// seconds, and objects have 64 MiB.
    #[must_use]
    pub fn new(to: Arc<dyn SharedStore>) -> Self {
        let minutes = Duration::from_secs(600);
        Self {
            to,
            bytes_per_second: None,
            when_fenced: WhenFenced::Stop,
            is_new_place: false,
            hold: minutes,
            grace: minutes,
            object_bytes: OBJECT_BYTES,
            close_wait: Duration::from_secs(10),
        }
    }
}

/// Checks the settings of shipping for a database with this number of loggers.
///
/// # Errors
/// [`DurabilityError::Config`].
pub fn check_shipping(shipping: &ShippingConfig, loggers: usize) -> Result<(), DurabilityError> {
    if loggers == 0 {
        return Err(DurabilityError::config(
            "without a log there are no files to ship: back it up instead, or give it a log",
        ));
    }
    if shipping.bytes_per_second == Some(0) {
        return Err(DurabilityError::config("shipping that may write 0 bytes a second never ends"));
    }
    if shipping.object_bytes < SHARED_OBJECT_BYTES_MIN {
        return Err(DurabilityError::config(format!(
            "objects of {} bytes are too small for the shared store: give {SHARED_OBJECT_BYTES_MIN} or more",
            shipping.object_bytes
        )));
    }
    Ok(())
}

/// Figures of shipping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ShippingStats {
    /// Last epoch up to which the state in the shared store is complete. Once the database is fenced, the figure says
    /// nothing about later epochs.
    pub shipped_epoch: Epoch,
    /// Durable epoch of this database. The shared store lacks the epochs after `shipped_epoch`, up to this epoch.
    pub durable_epoch: Epoch,
    /// Number of the newest manifest that this database has installed; 0 without a manifest.
    pub manifest: u64,
    /// Term of this database; 0 until the database has found its place in the store.
    pub term: u64,
    /// Number of files written to the store since the open.
    pub files: u64,
    /// Bytes of [`files`](ShippingStats::files).
    pub bytes: u64,
    /// Number of files that wait to be shipped: closed log files, and files of a checkpoint.
    pub waiting_files: u64,
    /// Bytes of [`waiting_files`](ShippingStats::waiting_files).
    pub waiting_bytes: u64,
    /// Number of failed attempts. Shipping tries again every second.
    pub failures: u64,
    /// Text of the last error; `None` after a success.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_text"))]
    pub last_error: Option<Arc<str>>,
    /// Description of the take-over, if another machine has taken over. Nothing is shipped any more.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_text"))]
    pub fenced: Option<Arc<str>>,
    /// Number of times that log files were removed before shipping. The next state in the store then needs the next
    /// checkpoint.
    pub overruns: u64,
}

/// Serializes a shared text. Serde itself takes an `Arc` only with a feature that applications may not want.
#[cfg(feature = "serde")]
fn serialize_text<S: serde::Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&text.as_deref(), serializer)
}

/// Outcome of a step, and the time of the next useful step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipStep {
    /// The step did some work: step again.
    Worked,
    /// Nothing waits to be shipped now.
    Idle,
    /// The rate is used up, or the store failed: step again after this time.
    Paced(Duration),
    /// Nothing is shipped any more: the log has ended, another machine has taken over, the shipping was cancelled, a
    /// step has panicked, or this process is a fork.
    Stopped,
}
