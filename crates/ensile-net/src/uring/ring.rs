//! The kernel's queues, and the memory of operations in flight: a safe interface to operations on sockets.
//!
//! Invariants: W6, memory that an operation reads or writes stays the ring's until the last completion of that
//! operation; W10, the kernel drops no completion.
//!
//! Neighbours: [`crate::ring_sockets`] asks for operations; [`super::memory`] has the buffers of arrivals.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, Probe, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use crate::ring_sockets::{SEND_BYTES, SendNumber, SocketCompletion, SocketRing};
use crate::sockets::MachineSocket;

use super::memory::{ArrivedBuffer, BUFFERS, SharedMemory};

/// Lengths of the kernel's queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLengths {
    /// Operations that one system call submits; more take another.
    pub(super) submissions: u32,
    /// Places for completions; the kernel keeps further completions until a place is free.
    pub(super) completions: u32,
}

impl Default for QueueLengths {
    fn default() -> Self {
        Self { submissions: 256, completions: 4096 }
    }
}
/// The one group of provided buffers.
const BUFFER_GROUP: u16 = 0;
/// The condition under which a poll of a listener is complete: `POLLIN`.
const POLL_READS: u32 = 1;
/// A receive waits for bytes before it tries: `IORING_RECVSEND_POLL_FIRST`.
const POLL_FIRST: u16 = 1;
/// Number of buffers that are kept for the next sends, and most bytes of each.
const SPARE_BUFFERS: usize = 64;
const SPARE_BYTES: usize = 64 << 10;
/// Number of waits without a completion, and their time, after which a ring that ends gives its memory up.
const LAST_WAITS: usize = 4;
const LAST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Kind of an operation, in the lowest bits of the number that the kernel returns with the completion. The higher bits
/// are the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum RingOperation {
    Receive,
    Send,
    Poll,
    WakeUps,
    Cancel,
}

const OPERATION_BITS: u32 = 3;

impl RingOperation {
    fn data(self, place: u32) -> u64 {
        let data = u64::from(place) << OPERATION_BITS | self as u64;
        debug_assert_eq!(
            Self::decode(data),
            (self, place),
            "W9: a completion names its operation and its place"
        );
        data
    }

    fn decode(data: u64) -> (Self, u32) {
        let operations = [Self::Receive, Self::Send, Self::Poll, Self::WakeUps, Self::Cancel];
        let operation = operations[(data & ((1 << OPERATION_BITS) - 1)) as usize];
        (operation, (data >> OPERATION_BITS) as u32)
    }
}

/// The end of an operation.
#[derive(Debug)]
pub(super) enum RingCompletion {
    Socket(SocketCompletion<ArrivedBuffer>),
    /// The loop was woken up.
    WokenUp,
    /// End of a cancellation; the cancelled operation has a completion of its own.
    Cancelled,
}

/// A send in flight.
#[derive(Debug)]
struct SendPlace {
    /// The place of the sender.
    place: u32,
    bytes: Vec<u8>,
}

/// The kernel's queues. A socket is known by its place, a small number that the owner chooses.
pub(super) struct Ring {
    queues: io_uring::IoUring,
    enter_flags: EnterFlags,
    /// Process of the ring's maker. A forked child shares the kernel's queues: operations of the child would take bytes
    /// and completions from the parent.
    maker: u32,
    /// Operations that are not submitted.
    staged: VecDeque<squeue::Entry>,
    /// Number of operations without a completion, staged operations included.
    in_flight: usize,
    memory: ManuallyDrop<SharedMemory>,
    sends: Vec<Option<SendPlace>>,
    free_sends: Vec<u32>,
    spare: Vec<Vec<u8>>,
}

impl Ring {
    /// A ring of this thread.
    ///
    /// # Errors
    /// The reason why the kernel has no ring for this process, in words.
    pub(super) fn new(lengths: QueueLengths) -> io::Result<Self> {
        let queues = io_uring::IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(lengths.completions)
            .build(lengths.submissions)
            .map_err(|error| refusal(&error))?;
        let parameters = queues.params();
        let mut enter_flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if parameters.is_feature_no_iowait() {
            // A loop that waits for clients is no process that waits for a disk.
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        if !parameters.is_feature_nodrop() || !parameters.is_feature_ext_arg() {
            return Err(io::Error::other("the kernel's io_uring drops completions, or knows no time-outs"));
        }
        let mut probe = Probe::new();
        queues.submitter().register_probe(&mut probe).map_err(|error| refusal(&error))?;
        let needed =
            [opcode::Recv::CODE, opcode::Send::CODE, opcode::PollAdd::CODE, opcode::Read::CODE, CANCEL];
        if let Some(missing) = needed.into_iter().find(|code| !probe.is_supported(*code)) {
            return Err(io::Error::other(format!("the kernel's io_uring lacks operation {missing}")));
        }
        let memory = SharedMemory::new()?;
        // SAFETY: the ring of buffers lies in memory that outlives the queues' use of it: it is unmapped only when no
        // operation is in flight, and no operation is submitted afterwards.
        unsafe {
            queues.submitter().register_buf_ring_with_flags(memory.ring_address(), BUFFERS, BUFFER_GROUP, 0)
        }
        .map_err(|error| refusal(&error))?;
        let mut ring = Self {
            queues,
            enter_flags,
            maker: std::process::id(),
            staged: VecDeque::new(),
            in_flight: 0,
            memory: ManuallyDrop::new(memory),
            sends: Vec::new(),
            free_sends: Vec::new(),
            spare: Vec::new(),
        };
        // A filter may allow the ring to be made, and not to be used.
        ring.enter(Some(Duration::ZERO)).map_err(|error| refusal(&error))?;
        Ok(ring)
    }

    fn is_makers(&self) -> bool {
        self.maker == std::process::id()
    }

    /// Stages one read of the wake-up counter. The read blocks until the counter is not zero, and makes the counter
    /// zero.
    pub(super) fn read_wake_ups(&mut self, counter: BorrowedFd<'_>) {
        let memory = self.memory.counter();
        let entry = opcode::Read::new(Fd(counter.as_raw_fd()), memory, size_of::<u64>() as u32).build();
        self.stage(entry, RingOperation::WakeUps, 0);
    }

    fn cancel(&mut self, what: CancelBuilder) {
        self.stage(opcode::AsyncCancel2::new(what).build(), RingOperation::Cancel, 0);
    }

    fn stage(&mut self, entry: squeue::Entry, operation: RingOperation, place: u32) {
        self.in_flight += 1;
        self.staged.push_back(entry.user_data(operation.data(place)));
        debug_assert!(self.staged.len() <= self.in_flight, "W6: a staged operation counts as in flight");
    }

    /// Submits all staged operations, and waits for a completion, or for `wait_max`.
    ///
    /// # Errors
    /// An error of the system, or this is a forked child; the ring cannot be used any more.
    pub(super) fn enter(&mut self, wait_max: Option<Duration>) -> io::Result<()> {
        if !self.is_makers() {
            return Err(io::Error::other("this process was forked from the one that opened these sockets"));
        }
        loop {
            let mut submissions = self.queues.submission();
            while let Some(entry) = self.staged.front() {
                // SAFETY: an entry points to this ring's memory or to a send's copy, and both stay until the completion
                // of the entry has come. A wrong descriptor would be an error or another socket, and nothing of memory.
                if unsafe { submissions.push(entry) }.is_err() {
                    break;
                }
                self.staged.pop_front();
            }
            submissions.sync();
            let submitted = submissions.len() as u32;
            drop(submissions);
            let has_rest = !self.staged.is_empty();
            let waits = !has_rest && wait_max != Some(Duration::ZERO);
            self.call(submitted, u32::from(waits), wait_max)?;
            if !has_rest || self.queues.submission().is_full() {
                return Ok(());
            }
        }
    }

    fn call(&mut self, submissions: u32, completions: u32, wait_max: Option<Duration>) -> io::Result<()> {
        // The kernel takes the end of a wait that never ends to have passed.
        let wait = wait_max.map(|wait| Timespec::from(wait.min(WAIT_MAX)));
        let mut arguments = SubmitArgs::new();
        if let Some(wait) = &wait {
            arguments = arguments.timespec(wait);
        }
        let (submitter, flags) = (self.queues.submitter(), self.enter_flags.bits());
        // SAFETY: the argument has the type announced by the flags, and lives until the call returns.
        match unsafe { submitter.enter(submissions, completions, flags, Some(&arguments)) } {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // The time has passed, a signal came, completions wait for their place, or memory is short: completions
                // can be taken, and the next call submits the remaining operations.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    pub(super) fn next_completion(&mut self) -> Option<RingCompletion> {
        let entry = self.queues.completion().next()?;
        debug_assert!(self.in_flight > self.staged.len(), "W10: each submitted operation completes once");
        self.in_flight -= 1;
        let (operation, place) = RingOperation::decode(entry.user_data());
        let result = entry.result();
        let outcome = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
        Some(match operation {
            RingOperation::Receive => {
                RingCompletion::Socket(self.receive_completion(place, outcome, entry.flags()))
            }
            RingOperation::Send => {
                let ended = self.sends[place as usize].take().expect("it was in flight");
                self.free_sends.push(place);
                self.keep(ended.bytes);
                RingCompletion::Socket(SocketCompletion::Sent { place: ended.place, outcome })
            }
            RingOperation::Poll => RingCompletion::Socket(SocketCompletion::Ready { place }),
            RingOperation::WakeUps => RingCompletion::WokenUp,
            RingOperation::Cancel => RingCompletion::Cancelled,
        })
    }

    fn receive_completion(
        &mut self,
        place: u32,
        outcome: Result<usize, Errno>,
        flags: u32,
    ) -> SocketCompletion<ArrivedBuffer> {
        let buffer = cqueue::buffer_select(flags);
        let arrived = buffer.map(|number| self.memory.lend_buffer(number, outcome.unwrap_or(0)));
        let outcome = match (outcome, arrived) {
            (Ok(1..), Some(buffer)) => Ok(Some(buffer)),
            (outcome, arrived) => {
                arrived.into_iter().for_each(|buffer| self.give_back(buffer));
                outcome.map(|_| None)
            }
        };
        SocketCompletion::Received { place, outcome, has_more: cqueue::sock_nonempty(flags) }
    }

    /// Cancels all operations and waits for their last completions, but not for ever.
    pub(super) fn cancel_all(&mut self) {
        if !self.is_makers() {
            return;
        }
        self.in_flight -= self.staged.len();
        self.staged.clear();
        if self.in_flight > 0 {
            self.cancel(CancelBuilder::any());
        }
        let mut left = LAST_WAITS;
        while self.in_flight > 0 && left > 0 {
            let before = self.in_flight;
            let entered = self.enter(Some(LAST_WAIT));
            while self.next_completion().is_some() {}
            if entered.is_err() || self.in_flight == before {
                left -= 1;
            }
        }
    }

    /// Plays a forked child, and the parent again.
    #[cfg(test)]
    pub(super) fn set_maker(&mut self, process: u32) {
        self.maker = process;
    }

    /// Number of buffers that are kept for the next sends.
    #[cfg(test)]
    pub(super) fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Number of operations that are asked for and not submitted.
    #[cfg(test)]
    pub(super) fn staged_count(&self) -> usize {
        self.staged.len()
    }

    /// Number of operations without a completion.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Keeps the memory of a send for a later send, within the limits.
    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

impl SocketRing for Ring {
    type Socket = MachineSocket;
    type Buffer = ArrivedBuffer;

    fn accept(&mut self, listener: &MachineSocket) -> io::Result<MachineSocket> {
        listener.accept()
    }

    fn receive(&mut self, socket: &MachineSocket, place: u32, at_once: bool) {
        let entry = opcode::Recv::new(Fd(socket.descriptor.as_raw_fd()), std::ptr::null_mut(), 0)
            .buf_group(BUFFER_GROUP)
            .ioprio(if at_once { 0 } else { POLL_FIRST })
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.stage(entry, RingOperation::Receive, place);
    }

    fn send(&mut self, socket: &MachineSocket, place: u32, bytes: &[u8]) -> SendNumber {
        debug_assert!(bytes.len() <= SEND_BYTES, "W7: a copy of {} bytes", bytes.len());
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        debug_assert_eq!(copy.len(), bytes.len(), "W7: a copy has the bytes of its send alone");
        // An embedding program may not ignore the signal of a broken pipe.
        let flags = SendFlags::NOSIGNAL.bits().cast_signed();
        let descriptor = Fd(socket.descriptor.as_raw_fd());
        let entry = opcode::Send::new(descriptor, copy.as_ptr(), copy.len() as u32).flags(flags);
        let sends = self.sends.len() as u32;
        let number = self.free_sends.pop().unwrap_or(sends);
        if number == sends {
            self.sends.push(None);
        }
        let earlier = self.sends[number as usize].replace(SendPlace { place, bytes: copy });
        debug_assert!(earlier.is_none(), "W6: the copy of a send in flight stays");
        self.stage(entry.build(), RingOperation::Send, number);
        SendNumber(number)
    }

    /// The poll is complete at once if a client waits already.
    fn poll(&mut self, listener: &MachineSocket, place: u32) {
        let entry = opcode::PollAdd::new(Fd(listener.descriptor.as_raw_fd()), POLL_READS).build();
        self.stage(entry, RingOperation::Poll, place);
    }

    fn cancel_waiting(&mut self, place: u32) {
        self.cancel(CancelBuilder::user_data(RingOperation::Receive.data(place)));
        self.cancel(CancelBuilder::user_data(RingOperation::Poll.data(place)));
    }

    fn cancel_send(&mut self, send: SendNumber) {
        self.cancel(CancelBuilder::user_data(RingOperation::Send.data(send.0)));
    }

    fn end_sending(&mut self, socket: &MachineSocket) {
        socket.end_sending();
    }

    fn shut_down(&mut self, socket: &MachineSocket) {
        // A failure means that the peer has gone.
        let _ = rustix::net::shutdown(&socket.descriptor, Shutdown::Both);
    }

    fn close(&mut self, socket: MachineSocket) {
        drop(socket);
    }

    fn bytes<'a>(&'a self, buffer: &'a ArrivedBuffer) -> &'a [u8] {
        self.memory.bytes(buffer)
    }

    fn give_back(&mut self, buffer: ArrivedBuffer) {
        self.memory.give_back(buffer);
    }

    fn lent_buffers(&self) -> usize {
        self.memory.lent_buffers()
    }

    #[cfg(feature = "simulation")]
    fn sends(&self) -> usize {
        assert_eq!(
            self.sends.iter().filter(|send| send.is_none()).count(),
            self.free_sends.len(),
            "W6: the place of a send is free or in flight"
        );
        self.sends.len() - self.free_sends.len()
    }
}

const CANCEL: u8 = opcode::AsyncCancel2::CODE;

/// The reason of a refusal, in words with the remedy.
fn refusal(error: &io::Error) -> io::Error {
    let why = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "this process may not use io_uring (a container's filter, or the setting kernel.io_uring_disabled)"
        }
        Some(Errno::NOSYS) => "the kernel has no io_uring",
        Some(Errno::INVAL) => "the kernel's io_uring is older than Linux 6.1",
        Some(Errno::NOMEM) => "memory is short, or the limit of locked memory is",
        _ => return io::Error::new(error.kind(), format!("the kernel makes no ring: {error}")),
    };
    io::Error::new(error.kind(), why)
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.cancel_all();
        if self.in_flight > 0 {
            // The kernel may still read and write the memory.
            std::mem::forget(std::mem::take(&mut self.sends));
        } else {
            // SAFETY: no operation is in flight, and this is the last use.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
