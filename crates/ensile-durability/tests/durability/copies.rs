//! Backups and restores as one call each, and steps of a copy without a pause.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{CopyOptions, CopyRun, CopySource, CopyStep, DurabilityError, Recoverable};

pub(crate) fn backup(
    source: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    options: CopyOptions,
) -> Result<CopyRun, DurabilityError> {
    CopySource::backup(source, options)?.begin(target)
}

pub(crate) fn restore(
    from: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore(from, at, bytes_per_second)?.begin(target)
}

pub(crate) fn restore_to_epoch(
    from: &Arc<dyn Disk>,
    archive: Option<&Arc<dyn Disk>>,
    target: &Arc<dyn Disk>,
    to: Epoch,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore_to_epoch(from, archive, to, bytes_per_second)?.begin(target)
}

pub(crate) trait CopySteps {
    /// A step at this time, without a pause between its pieces.
    fn step_at(&mut self, verifier: &dyn Recoverable, now_nanos: u64) -> Result<CopyStep, DurabilityError>;
}

impl CopySteps for CopyRun {
    fn step_at(&mut self, verifier: &dyn Recoverable, now_nanos: u64) -> Result<CopyStep, DurabilityError> {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(now_nanos));
        self.step(verifier, &clock, &mut |_, _| ControlFlow::Continue(()))
    }
}
