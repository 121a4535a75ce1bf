//! The durable side of a database: log, checkpoints, shipping, and the report of the open. Also the durable epoch, and
//! the wait for an epoch (R1).
//!
//! Neighbours: the log has D. Receipts, runs and snapshots wait here.

// `Log` takes `self` by std's `Arc`. The `Arc` of `ensile_base::sync` is no receiver type.
use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::sync::Mutex;
use ensile_durability::{Checkpoints, DurabilityError, Locks, Log, ReadOnly, RecoveryReport, Shipper};

use crate::error::{Error, Result};

pub(crate) struct DurableStorage {
    /// The log. A database with pictures and no log has a `Log` without loggers.
    pub(crate) log: Option<StdArc<Log>>,
    /// Reason for read-only operation, if the disk was too full to begin a log.
    pub(crate) read_only: Option<StdArc<str>>,
    /// D of a database without a running `Log`: the largest epoch in memory, and the recovered D in read-only
    /// operation.
    fixed_durable_epoch: Epoch,
    /// Lock of the folder of a database without a log, against other processes.
    pub(crate) folder_lock: Mutex<Option<Locks>>,
    pub(crate) checkpoints: Option<StdArc<Checkpoints>>,
    /// Shipper of finished files.
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) report: Option<RecoveryReport>,
}

impl DurableStorage {
    pub(crate) fn new(
        log: Option<StdArc<Log>>,
        read_only: Option<ReadOnly>,
        checkpoints: Option<StdArc<Checkpoints>>,
        shipping: Option<StdArc<Shipper>>,
        report: Option<RecoveryReport>,
    ) -> Self {
        let fixed_durable_epoch = read_only.as_ref().map_or(Epoch::MAX, |closed| closed.durable);
        let (read_only, folder_lock) = read_only.map(|closed| (closed.reason, closed.locks)).unzip();
        let folder_lock = Mutex::new(folder_lock);
        Self { log, read_only, fixed_durable_epoch, folder_lock, checkpoints, shipping, report }
    }

    /// True if commits append to a log. `SharedState::new` asks once, at open, to settle the settings.
    pub(super) fn has_loggers(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_loggers())
    }

    /// The durable epoch D. In memory a commit is lost only with the process, so no result waits for D.
    #[inline]
    pub(crate) fn durable_epoch(&self) -> Epoch {
        self.log.as_ref().map_or(self.fixed_durable_epoch, |log| log.durable_epoch())
    }

    /// Outcome of the wait for `epoch` without a running `Log`: in memory, or in read-only operation after an open on a
    /// full disk. D stands still there, so the call fails for an epoch above D.
    pub(crate) fn check_durable(&self, epoch: Epoch) -> Result<()> {
        let durable = self.fixed_durable_epoch;
        if epoch <= durable {
            return Ok(());
        }
        let reason = self.read_only.as_deref().unwrap_or_default().into();
        Err(DurabilityError::NotProven { durable, reason }.into())
    }

    /// Waits until `epoch` is durable.
    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.wait_durable(epoch)?),
            None => self.check_durable(epoch),
        }
    }

    /// Refuses a commit without log entries if the database cannot write.
    #[inline]
    pub(crate) fn check_unlogged(&self) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.check()?),
            None if self.read_only.is_some() => Err(self.refusal_to_write()),
            None => Ok(()),
        }
    }

    /// Error of a write to a database opened on a full disk.
    #[cold]
    pub(crate) fn refusal_to_write(&self) -> Error {
        let reason = self.read_only.as_deref().unwrap_or_default();
        Error::DiskFull(format!(
            "it was full at open, so the database only reads: {reason}; open it again then"
        ))
    }
}
