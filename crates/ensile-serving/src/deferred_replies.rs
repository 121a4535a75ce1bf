//! Replies that wait until the epoch that they rest on is durable.
//!
//! Invariants:
//! - R1: a reply goes out once its epoch is durable; if the epoch fails, an error goes out in place of the reply.
//! - The replies of an epoch wait by one future. The future's waker ends the loop's wait.
//! - W18: a wake-up that no request waits for, such as a letter's, calls no request that is set aside.
//! - W16: a reply of an ended connection is not kept, however long its epoch is not durable.
//!
//! Neighbours: [`crate::ServingLoop`] parks and fills; [`DurableEpochs`] reports durability.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_net::{ConnectionId, LoopWakeUp, NetLoop, ReplySlot, Transport};
use ensile_resp::{ReplyEncoder, RespVersion};

use crate::durable_epochs::{DurableEpoch, DurableEpochs};

/// Ends the loop's wait when an epoch becomes durable.
struct LoopWaker(LoopWakeUp);

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// As [`LoopWaker`], and the loop learns that this waker was called.
pub(crate) struct CalledWaker {
    wake_up: LoopWakeUp,
    is_called: AtomicBool,
}

impl CalledWaker {
    pub(crate) fn new(wake_up: LoopWakeUp) -> Self {
        Self { wake_up, is_called: AtomicBool::new(false) }
    }

    /// True if the waker was called since the last call of this function.
    pub(crate) fn take_called(&self) -> bool {
        // Acquire: pairs with the store in `wake_by_ref`.
        self.is_called.swap(false, Ordering::Acquire)
    }
}

impl Wake for CalledWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the loop that sees the call sees the cause. The store comes before the wake-up, so the loop that
        // the wake-up wakes sees the call.
        self.is_called.store(true, Ordering::Release);
        self.wake_up.wake();
    }
}

/// Memory of a waiting reply beside its bytes: an entry of a list with twice its room, and the heap's own part.
pub(crate) const PARKED_BYTES: usize = 2 * size_of::<ParkedReply>() + 32;

/// A waiting reply, or waiting bytes that are no reply.
struct ParkedReply {
    slot: ReplySlot,
    bytes: Box<[u8]>,
    /// True if no request waits for the bytes: nothing replaces bytes whose epoch fails.
    is_push: bool,
}

/// Replies that rest on the same epoch.
#[derive(Default)]
struct EpochReplies {
    /// Future of the epoch's durability; made when the loop has served the received requests.
    durable: Option<DurableEpoch>,
    replies: Vec<ParkedReply>,
    /// Arrivals of the requests of the replies, by turn of the loop.
    arrivals: Vec<Arrivals>,
}

/// Requests that arrived in a turn of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// Time of the turn in nanoseconds.
    pub(crate) nanos: u64,
    /// Number of requests.
    pub(crate) requests: u64,
}

/// Waiting replies of a loop.
pub(crate) struct ParkedReplies {
    waker: Waker,
    /// Largest epoch known to be durable.
    durable: Epoch,
    waiting: BTreeMap<Epoch, EpochReplies>,
    /// Requests whose replies were sent since the last report.
    sent: Vec<Arrivals>,
}

impl ParkedReplies {
    pub(crate) fn new(wake_up: &LoopWakeUp) -> Self {
        let waker = Waker::from(Arc::new(LoopWaker(wake_up.clone())));
        Self { waker, durable: Epoch::ZERO, waiting: BTreeMap::new(), sent: Vec::new() }
    }

    /// True if an epoch is durable by now.
    #[inline]
    pub(crate) fn knows(&mut self, epoch: Epoch, epochs: &dyn DurableEpochs) -> bool {
        if epoch <= self.durable {
            return true;
        }
        let is_durable = epochs.is_durable(epoch);
        if is_durable {
            self.durable = epoch;
        }
        is_durable
    }

    /// Keeps a reply until `epoch` is durable. `nanos` is the time of the request's arrival.
    pub(crate) fn park(&mut self, epoch: Epoch, slot: ReplySlot, reply: &[u8], nanos: u64) {
        debug_assert!(epoch > self.durable, "R1: a reply that rests on a durable epoch is sent at once");
        debug_assert!(!reply.is_empty(), "a request has a reply");
        let parked = ParkedReply { slot, bytes: reply.into(), is_push: false };
        let waiting = self.waiting.entry(epoch).or_default();
        waiting.replies.push(parked);
        debug_assert!(
            waiting.arrivals.last().is_none_or(|arrivals| arrivals.nanos <= nanos),
            "a turn of the loop comes after the turn before"
        );
        match waiting.arrivals.last_mut() {
            Some(arrivals) if arrivals.nanos == nanos => arrivals.requests += 1,
            _ => waiting.arrivals.push(Arrivals { nanos, requests: 1 }),
        }
    }

    /// Keeps bytes that are no reply until `epoch` is durable.
    pub(crate) fn park_push(&mut self, epoch: Epoch, slot: ReplySlot, bytes: &[u8]) {
        debug_assert!(epoch > self.durable, "R1: bytes that rest on a durable epoch are sent at once");
        let parked = ParkedReply { slot, bytes: bytes.into(), is_push: true };
        self.waiting.entry(epoch).or_default().replies.push(parked);
    }

    pub(crate) fn forget_ended(&mut self, is_open: impl Fn(&ConnectionId) -> bool) {
        for waiting in self.waiting.values_mut() {
            waiting.replies.retain(|parked| is_open(&parked.slot.connection()));
            waiting.replies.shrink_to(2 * waiting.replies.len());
        }
    }

    /// True if a reply that rests on this epoch may wait.
    pub(crate) fn waits_for(&self, epoch: Epoch) -> bool {
        epoch > self.durable
    }

    /// Takes the requests whose replies were sent since the last call.
    pub(crate) fn take_sent(&mut self) -> impl Iterator<Item = Arrivals> {
        self.sent.drain(..)
    }

    pub(crate) fn count(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.replies.len()).sum()
    }

    /// Sends the replies that are durable by now; the waker waits for the rest. False if a reply will not become
    /// durable.
    pub(crate) fn fill_durable<T: Transport>(
        &mut self,
        net: &mut NetLoop<T>,
        epochs: &dyn DurableEpochs,
    ) -> bool {
        let mut are_durable = true;
        let mut context = Context::from_waker(&self.waker);
        while let Some(mut first) = self.waiting.first_entry() {
            let epoch = *first.key();
            let durable = first.get_mut().durable.get_or_insert_with(|| epochs.durable(epoch));
            let Poll::Ready(outcome) = durable.as_mut().poll(&mut context) else { return are_durable };
            let error = outcome.err().map(|error| {
                let mut reply = Vec::new();
                ReplyEncoder::new(&mut reply, RespVersion::Resp2).error("NOTDURABLE", &error);
                reply
            });
            debug_assert!(
                error.is_some() || epochs.is_durable(epoch),
                "R1: a reply goes out once its epoch is durable"
            );
            are_durable &= error.is_none();
            if error.is_none() {
                self.durable = self.durable.max(epoch);
            }
            let EpochReplies { replies, arrivals, .. } = first.remove();
            self.sent.extend(arrivals);
            for ParkedReply { slot, bytes, is_push } in replies {
                let replaced = error.as_deref().map(|error| if is_push { &[][..] } else { error });
                net.fill(slot, |buffer| buffer.extend_from_slice(replaced.unwrap_or(&bytes)));
            }
        }
        are_durable
    }
}
