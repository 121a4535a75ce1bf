//! What an application says of shipping, and what it is shown of it.
//!
//! Neighbours: the shipper takes the settings and counts the figures.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::SHARED_OBJECT_BYTES_MIN;

use super::shared::SharedStore;
use crate::DurabilityError;

/// Bytes of an object, usually: few enough for one call to end soon, and to be put again.
const OBJECT_BYTES: u64 = 64 << 20;
const _: () = assert!(OBJECT_BYTES >= SHARED_OBJECT_BYTES_MIN);

/// What a database does once another one has taken over from the shared store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFenced {
    /// Its log stops: calls that change something, and strict results, get an error. Another machine serves what this
    /// one has, so what this one acknowledged from then on would be in no common history.
    #[default]
    Stop,
    /// It goes on locally, and ships nothing any more.
    GoOn,
}

/// Where finished files go, and how.
#[derive(Clone, Debug)]
pub struct ShippingConfig {
    /// Where they go.
    pub to: Arc<dyn SharedStore>,
    /// Bytes a second that are written there at most; `None`: no limit.
    pub bytes_per_second: Option<u64>,
    /// What becomes of the database once it is fenced.
    pub when_fenced: WhenFenced,
    /// The database ships to another store from now on than the one that its folder remembers; that one is given up,
    /// and with it that another machine has taken over there. Without this another store, and an empty place, are
    /// refused: perhaps a device is not mounted.
    pub is_new_place: bool,
    /// How long log files are kept that are not shipped yet, and that a checkpoint has made superfluous: from the first
    /// time that one was to go, until nothing is left to ship.
    pub hold: Duration,
    /// How long objects stay in the store that no manifest names any more: a take-over may be reading them.
    pub grace: Duration,
    /// Bytes of an object: a longer file becomes several, each of this length but for the last. An upload that fails,
    /// or whose process dies, goes on with the object that it was at.
    pub object_bytes: u64,
    /// How long the end of the database waits for a call of the store that is under way. A call that takes longer is
    /// left to itself, with its thread, and the close says what was not shipped.
    pub close_wait: Duration,
}

impl ShippingConfig {
    /// To this store, without a limit, with the usual times: ten minutes each, and ten seconds for a close; in objects
    /// of 64 MiB.
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

    /// Can these work, of a database with so many loggers?
    ///
    /// # Errors
    /// [`DurabilityError::Config`].
    pub fn check(&self, loggers: usize) -> Result<(), DurabilityError> {
        if loggers == 0 {
            return Err(DurabilityError::config(
                "without a log there are no files to ship: back it up instead, or give it a log",
            ));
        }
        if self.bytes_per_second == Some(0) {
            return Err(DurabilityError::config("shipping that may write 0 bytes a second never ends"));
        }
        if self.object_bytes < SHARED_OBJECT_BYTES_MIN {
            return Err(DurabilityError::config(format!(
                "objects of {} bytes are too small for the shared store: give {SHARED_OBJECT_BYTES_MIN} or more",
                self.object_bytes
            )));
        }
        Ok(())
    }
}

/// What shipping has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShippingStats {
    /// The state in the shared store is complete up to the end of this epoch. It says nothing of later epochs once the
    /// database is fenced.
    pub shipped_epoch: Epoch,
    /// Durable epoch of this database. The shared store lacks the epochs in between.
    pub durable_epoch: Epoch,
    /// The number of the newest manifest that this database has installed; 0 if there is none.
    pub manifest: u64,
    /// The term of this database; 0 before it has found its place in the store.
    pub term: u64,
    /// Files that were written to the store since the open, and their bytes.
    pub files: u64,
    /// See [`ShippingStats::files`].
    pub bytes: u64,
    /// Files that are to be shipped, and their bytes: closed log files, and those of a checkpoint.
    pub waiting_files: u64,
    /// See [`ShippingStats::waiting_files`].
    pub waiting_bytes: u64,
    /// Attempts that failed. It is tried again every second.
    pub failures: u64,
    /// Why the last one did; `None` once one has succeeded.
    pub last_error: Option<Arc<str>>,
    /// Another machine has taken over: whose term it is. Nothing is shipped any more.
    pub fenced: Option<Arc<str>>,
    /// How often log files had to go before they were shipped: the next state in the store needs the next checkpoint.
    pub overruns: u64,
}

/// What a step did, and when the next is worth while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipStep {
    /// Something was done: step again.
    Worked,
    /// Nothing is to be shipped now.
    Idle,
    /// The rate is used up, or the store failed: not before this has passed.
    Paced(Duration),
    /// The log has ended, or another machine has taken over: nothing is shipped any more.
    Stopped,
}
