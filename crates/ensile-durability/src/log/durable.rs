//! The future of an epoch's durability.
//!
//! Neighbours: `waiters` keeps its slot and its waker.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ensile_base::Epoch;

use super::Log;
use crate::DurabilityError;

/// Ready once an epoch is durable, or has no answer: see [`Log::wait_durable`]. It holds one slot among the log's
/// waiters, with the waker of its last poll, and gives it back when it is dropped.
#[derive(Debug)]
#[must_use = "a future waits when it is awaited"]
pub struct Durable {
    pub(super) log: Arc<Log>,
    pub(super) epoch: Epoch,
    pub(super) slot: Option<u64>,
}

impl Future for Durable {
    type Output = Result<(), DurabilityError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { log, epoch, slot } = &mut *self;
        if let Err(forked) = log.check_process() {
            return Poll::Ready(Err(forked));
        }
        let (answer, tell) = log.waiters.poll(*epoch, slot, context.waker(), log.clock.nanos());
        if tell {
            log.wake_loggers();
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        // I4: in a forked child the list may be locked for ever.
        if let Some(slot) = self.slot
            && self.log.process.is_this()
        {
            self.log.waiters.give_back(self.epoch, slot);
        }
    }
}
