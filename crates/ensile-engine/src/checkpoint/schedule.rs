//! Schedule of automatic checkpoints.
//!
//! Neighbours: `open::builder` stores the schedule; the durability crate's checkpoints follow the schedule.

use std::time::Duration;

use ensile_durability::{AdaptiveThreshold, CheckpointConfig};

use crate::database::Database;
use crate::error::Result;

/// Schedule of automatic checkpoints. The default: 10 s after the last checkpoint, or after 4 GiB of log. Without a log
/// the bytes changed by transactions count instead of the log's bytes.
///
/// Times and bytes are for checkpoints that write all rows. A [cycling](crate::checkpoint::Strategy::Cycling)
/// checkpoint writes a single range of n in a turn, and a turn begins after an n-th of the times and bytes. A round
/// takes about the time of a whole checkpoint plus the time before it, and writes the same number of bytes a second.
///
/// ```no_run
/// # extern crate ensile_engine as ensile;
/// use std::time::Duration;
/// use ensile::{Database, checkpoint::Schedule};
/// # fn main() -> ensile::Result<()> {
/// let schedule = Schedule::default().interval(Duration::from_secs(60)).recovery_time(Duration::from_secs(5));
/// let db = Database::builder("data").checkpoints(schedule).open()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "give it to Builder::checkpoints"]
pub struct Schedule {
    interval: Option<Duration>,
    log_bytes: Option<u64>,
    log_records: Option<u64>,
    adaptive: Option<AdaptiveThreshold>,
    recovery_time: Option<Duration>,
}

impl Schedule {
    /// Schedule without automatic checkpoints: only [`Database::checkpoint`](crate::Database::checkpoint) makes a
    /// checkpoint. The log grows until then.
    pub const fn on_demand() -> Self {
        Self { interval: None, log_bytes: None, log_records: None, adaptive: None, recovery_time: None }
    }

    /// Begins a checkpoint at this time after the end of the last. The checkpoint begins later while the log hardly
    /// grows or, without a log, while no row changes.
    pub const fn interval(self, interval: Duration) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// Begins a checkpoint after this many bytes of log since the begin of the last. Without a log, bytes of changed
    /// keys and rows count.
    pub const fn log_bytes(self, bytes: u64) -> Self {
        Self { log_bytes: Some(bytes), ..self }
    }

    /// Begins a checkpoint after this many logged transactions since the begin of the last checkpoint, or since the
    /// open. Without a log the setting has no effect, because no logged transaction counts.
    pub const fn log_records(self, records: u64) -> Self {
        Self { log_records: Some(records), ..self }
    }

    /// Begins a checkpoint when the log reaches a length that depends on the current load (SLACH §4). At low load the
    /// log is kept short; at high load checkpoints are put off. A checkpoint also begins after a time that depends on
    /// the load ([`AdaptiveThreshold::of_time`]). Adaptive thresholds replace the interval, [`Schedule::log_bytes`] and
    /// [`Schedule::log_records`]. A later call may set these again.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, checkpoint::{AdaptiveThreshold, Schedule}};
    /// # fn main() -> ensile::Result<()> {
    /// let adaptive = AdaptiveThreshold::of_capacity(200 << 20); // 200 MiB of log a second
    /// let db = Database::builder("data").checkpoints(Schedule::default().adaptive(adaptive)).open()?;
    /// println!("{:?}", db.stats().checkpoints.map(|checkpoints| checkpoints.load));
    /// # Ok(()) }
    /// ```
    pub const fn adaptive(self, adaptive: AdaptiveThreshold) -> Self {
        Self { interval: None, log_bytes: None, log_records: None, adaptive: Some(adaptive), ..self }
    }

    /// Begins checkpoints early enough that no open takes longer than `target`, by prediction. The prediction uses the
    /// cost of earlier opens of the folder, the bytes to load and to replay, and the log expected until the
    /// installation of the checkpoint. [`CheckpointStats::recovery`](ensile_durability::CheckpointStats::recovery)
    /// shows the prediction and its rates. An open lasts until [`Builder::open`](crate::Builder::open) returns: indexes
    /// are rebuilt afterwards.
    ///
    /// [`Database::reschedule_checkpoints`](crate::Database::reschedule_checkpoints) refuses a target below the time of
    /// the load alone, and gives the figure. No open is refused for a target. A database that has grown beyond its
    /// target runs on: [`CheckpointStats::unreachable`](ensile_durability::CheckpointStats::unreachable) reports the
    /// state, and the log is kept as short as an eighth of the target allows. Without a log the setting has no effect:
    /// an open replays nothing.
    pub const fn recovery_time(self, target: Duration) -> Self {
        Self { recovery_time: Some(target), ..self }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        let CheckpointConfig { interval, log_bytes, log_records, adaptive, recovery_time, .. } =
            CheckpointConfig::default();
        Self { interval, log_bytes, log_records, adaptive, recovery_time }
    }
}

impl Schedule {
    /// The configuration with this schedule.
    pub(crate) fn apply_to(self, config: CheckpointConfig) -> CheckpointConfig {
        let Self { interval, log_bytes, log_records, adaptive, recovery_time } = self;
        CheckpointConfig { interval, log_bytes, log_records, adaptive, recovery_time, ..config }
    }
}

impl Database {
    /// Changes the schedule of automatic checkpoints. A checkpoint under way continues. The next open uses the schedule
    /// of [`Builder::checkpoints`](crate::Builder::checkpoints) again.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// use ensile::checkpoint::Schedule;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::open("data")?;
    /// db.reschedule_checkpoints(Schedule::on_demand())?; // While much is loaded,
    /// db.reschedule_checkpoints(Schedule::default())?; // and as before.
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) for a database without a folder, and for an impossible schedule, such as
    /// a recovery time below the time of the load alone; [`Error::Closed`](crate::Error::Closed).
    pub fn reschedule_checkpoints(&self, schedule: Schedule) -> Result<()> {
        Ok(self.own_checkpoints()?.reschedule(&schedule.apply_to(CheckpointConfig::default()))?)
    }

    /// Reports the requests that the application has served, and has lost for want of capacity, since the last report.
    /// From the first report on, the load of an [`AdaptiveThreshold`] is the rate of requests, independent of written
    /// bytes. With a [probed](AdaptiveThreshold::is_probed) threshold the capacity is the rate at which 5 % of the
    /// requests are lost. Call this about once a second.
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) for a database without a folder,
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn report_requests(&self, served: u64, lost: u64) -> Result<()> {
        self.own_checkpoints()?.report_requests(served, lost);
        Ok(())
    }
}
