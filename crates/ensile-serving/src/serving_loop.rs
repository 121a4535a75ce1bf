//! One loop of a server: takes the requests of its connections, and sends the replies once the replies may go.
//!
//! Invariants:
//! - R1: while replies wait, each reply whose epoch is not known to be durable is parked.
//! - Every request gets one reply, an error if the request was not carried out.
//! - W18: a request that is set aside stays unread, and is called again after each call of the loop's waker. No later
//!   request of its connection is carried out before.
//!
//! Neighbours: `ensile-net` has the loop of sockets; `dispatch` takes requests; `deferred_replies` has the parked
//! replies; [`crate::threads`] runs loops.

use std::cell::{Ref, RefCell, RefMut};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ensile_base::sync::Ordering;
use ensile_net::{
    ConnectionId, ListenAddress, LoopWakeUp, NetEvent, NetLimits, NetLoop, TlsConfig, Transport,
};

use crate::busy_poll::LoopShared;
use crate::deferred_replies::CalledWaker;
use crate::loop_core::LoopCore;
use crate::loop_poll::{LoopPoll, ServesOthers};
use crate::loop_traffic::{LoopTraffic, ServedTraffic};
use crate::mail::{LoopClients as _, LoopMail};
use crate::request_serving::{LoopTurn, RequestServing};
use crate::served_program::{LoopParts, ServedProgram};
use crate::state::ServingState;

/// Longest wait of an ending server for clients to take their replies.
pub const END_WAIT: Duration = Duration::from_secs(10);

/// Silence after which an ending server no longer waits for a client that has all its replies.
const END_QUIET: Duration = Duration::from_secs(1);

const _: () =
    assert!(END_QUIET.as_millis() < END_WAIT.as_millis(), "W14: a quiet client does not take the whole wait");

/// Interval at which a loop reports the number of served requests, and looks at the log.
const REPORT_NANOS: u64 = 1_000_000_000;

/// One loop of a server.
pub struct ServingLoop<T, S: ServedProgram> {
    shared: Rc<LoopShared<T, S>>,
    loop_state: S::LoopState,
    turn: LoopTurn,
    /// Letters to the loop.
    mail: Arc<LoopMail<S::Letter>>,
    /// Reply that is being written.
    reply: Vec<u8>,
    /// ServedTraffic at the last report, and the time of the report in nanoseconds.
    reported: ServedTraffic,
    reported_nanos: u64,
    /// Reported number of replies that no client had waited for.
    unheard_told: u64,
    /// Largest memory of the connections since a peak was reported as fallen, in bytes.
    room_peak_bytes: usize,
    /// True if a reply could not be made durable.
    has_failed: bool,
}

impl<T, S: ServedProgram> std::fmt::Debug for ServingLoop<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingLoop").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl<T: Transport + 'static, S: ServedProgram> ServingLoop<T, S> {
    /// Creates a loop over this transport, without listeners, on the thread that steps the loop.
    pub fn new(transport: T, state: Arc<ServingState<S>>, limits: NetLimits) -> Self {
        let net = NetLoop::new(transport, state.clock.clone(), limits).with_memory(state.memory.clone());
        *state.limits.lock() = limits;
        // Relaxed: a figure for people.
        state.loops.fetch_add(1, Ordering::Relaxed);
        let mail = Arc::new(LoopMail::new(net.wake_up()));
        let reported_nanos = state.clock.nanos();
        let traffic = Arc::new(LoopTraffic::new());
        state.loop_figures.lock().push(Arc::clone(&traffic));
        let called = Arc::new(CalledWaker::new(net.wake_up()));
        let waker = Waker::from(Arc::clone(&called));
        let core = RefCell::new(LoopCore::new(net, Arc::clone(&state), traffic));
        let shared = Rc::new(LoopShared { core, state, called, waker });
        let weak: Weak<LoopShared<T, S>> = Rc::downgrade(&shared);
        let weak: Weak<dyn ServesOthers> = weak;
        let (waker, poll) = (shared.waker.clone(), LoopPoll::new(weak));
        let loop_state = shared.state.service.begin_loop(LoopParts { mail: Arc::clone(&mail), waker, poll });
        Self {
            shared,
            loop_state,
            turn: LoopTurn { begun_nanos: reported_nanos, ..LoopTurn::default() },
            mail,
            reply: Vec::new(),
            reported: ServedTraffic::default(),
            reported_nanos,
            unheard_told: 0,
            room_peak_bytes: 0,
            has_failed: false,
        }
    }

    fn state(&self) -> &Arc<ServingState<S>> {
        &self.shared.state
    }

    fn core(&self) -> Ref<'_, LoopCore<T, S>> {
        self.shared.core.borrow()
    }

    fn core_mut(&self) -> RefMut<'_, LoopCore<T, S>> {
        self.shared.core.borrow_mut()
    }

    /// Accepts connections at `address`; returns the bound address.
    ///
    /// # Errors
    /// The system's error: choose another address.
    pub fn listen(&mut self, address: &ListenAddress) -> io::Result<ListenAddress> {
        self.core_mut().net.listen(address)
    }

    /// Accepts connections with TLS only at `address`; returns the bound address.
    ///
    /// # Errors
    /// As for [`listen`](Self::listen).
    pub fn listen_tls(&mut self, address: &ListenAddress, tls: TlsConfig) -> io::Result<ListenAddress> {
        self.core_mut().net.listen_tls(address, tls)
    }

    /// Handle that ends a wait of this loop.
    #[must_use]
    pub fn wake_up(&self) -> LoopWakeUp {
        self.core().net.wake_up()
    }

    /// Waker that has the requests called again that are set aside.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.shared.waker
    }

    /// State of the loop that the service keeps.
    pub fn loop_state(&mut self) -> &mut S::LoopState {
        &mut self.loop_state
    }

    /// Number of replies that wait until they are durable.
    #[must_use]
    pub fn deferred_count(&self) -> usize {
        self.core().parked.count()
    }

    /// Number of connections whose request is set aside and is not called again yet.
    #[must_use]
    pub fn set_aside_count(&self) -> usize {
        self.core().set_aside_count()
    }

    /// Memory of all clients of the server's loops together, in bytes that count (W16).
    #[must_use]
    pub fn client_memory_bytes(&self) -> usize {
        self.state().memory.bytes()
    }

    /// The transport, for a test that plays the clients.
    pub fn transport_mut(&mut self) -> RefMut<'_, T> {
        RefMut::map(self.core_mut(), |core| core.net.transport_mut())
    }

    /// Sends replies, waits for `wait_max` at most, and serves the received requests. Returns false once the server is
    /// to end.
    ///
    /// # Errors
    /// The system's error for the wait itself: the loop cannot go on.
    pub fn step(&mut self, wait_max: Duration) -> io::Result<bool> {
        self.step_sockets(wait_max)?;
        self.take_letters();
        let are_durable = self.core_mut().fill_durable();
        if !are_durable && !self.has_failed {
            self.has_failed = true;
            self.state().look_at_log();
        }
        self.report();
        Ok(!self.state().has_stopped())
    }

    /// Takes a step of the loop of sockets, and handles the events.
    fn step_sockets(&mut self, wait_max: Duration) -> io::Result<()> {
        self.core_mut().net.step(wait_max)?;
        // Messages from before this step go to the listeners from before this step.
        self.take_letters();
        self.turn = LoopTurn { begun_nanos: self.state().clock.nanos(), ..LoopTurn::default() };
        let mut keeps_for_ended = false;
        loop {
            let mut core = self.shared.core.borrow_mut();
            let Some(event) = core.next_event() else { break };
            match event {
                NetEvent::Opened(id) => core.open(id),
                NetEvent::Received(id) => {
                    drop(core);
                    self.serve(id);
                }
                NetEvent::Silent(id) => core.release_room(id),
                NetEvent::Closed(id, reason) => {
                    keeps_for_ended |= core.forget(id, reason, &mut self.loop_state);
                }
                NetEvent::WokenUp if self.shared.called.take_called() => core.resume_set_aside(),
                NetEvent::TimerDue(number) => core.resume(ConnectionId::of_number(number)),
                NetEvent::WokenUp | NetEvent::AcceptPaused(_) => {}
            }
        }
        let mut core = self.core_mut();
        debug_assert!(core.late.is_empty() && !core.was_polled, "W19: no event waits between two steps");
        if keeps_for_ended {
            // Once for all connections that ended in this step.
            core.forget_ended();
        }
        debug_assert_eq!(core.sessions.len(), core.net.stats().open, "each open connection has a session");
        match core.failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Carries out the requests that a connection has sent, as far as replies have room.
    fn serve(&mut self, id: ConnectionId) {
        let Self { shared, loop_state, reply, turn, .. } = self;
        let LoopShared { core, state, waker, .. } = &**shared;
        let loop_state = Some(loop_state);
        RequestServing { core, server: &**state, loop_state, waker, reply, turn }.serve(id);
    }

    /// Reports the load, which a policy of checkpoints may follow.
    fn report(&mut self) {
        let now_nanos = self.state().clock.nanos();
        self.count_latencies(now_nanos);
        let core = self.shared.core.borrow();
        let stats = core.net.stats();
        core.traffic.note_bytes(stats.received_bytes, stats.sent_bytes);
        let nanos = now_nanos - self.reported_nanos;
        if nanos < REPORT_NANOS {
            return;
        }
        let total = core.traffic.total();
        core.traffic.note_rate(total.rate_since(self.reported, nanos));
        let requests = total.requests - self.reported.requests;
        (self.reported, self.reported_nanos) = (total, now_nanos);
        let state = &*self.shared.state;
        let turned_away = state.turned_away_of(requests);
        debug_assert!(turned_away <= requests, "a request that the log refuses is a request");
        let unheard = stats.unheard - self.unheard_told;
        self.unheard_told += unheard;
        // Relaxed: a figure for people.
        state.unheard.fetch_add(unheard, Ordering::Relaxed);
        drop(core);
        self.report_fallen_peak();
        let state = self.state();
        state.service.report_load(requests - turned_away, turned_away + unheard);
        state.look_at_log();
        state.look_at_evicted();
        state.look_at_tls_failures();
    }

    /// Counts the times of the requests that were replied in this turn.
    fn count_latencies(&mut self, now_nanos: u64) {
        let LoopTurn { begun_nanos, replied, .. } = self.turn;
        let mut core = self.core_mut();
        if replied > 0 {
            core.traffic.latencies.count(now_nanos.saturating_sub(begun_nanos), replied);
        }
        core.count_sent(now_nanos);
    }

    /// Reports a peak of the connections' memory of which less than half is in use now. The use under a steady load
    /// falls less, and its freed memory is used again (W17).
    fn report_fallen_peak(&mut self) {
        let peak = self.core_mut().net.take_room_peak();
        self.room_peak_bytes = self.room_peak_bytes.max(peak);
        debug_assert!(peak >= self.core().net.stats().room_bytes, "W17: the memory now is below its peak");
        let fallen = self.room_peak_bytes - peak;
        if fallen > peak {
            self.room_peak_bytes = peak;
            // Relaxed: the number guards no data; the next look sees what is not seen now.
            self.state().fallen_bytes.fetch_add(fallen, Ordering::Relaxed);
        }
    }

    /// Takes the last steps, after the close of the objects: sends the replies that are durable now, and lets clients
    /// take their waiting replies, and an end after the replies (W14). The steps take at most [`END_WAIT`], whatever
    /// the clients do.
    ///
    /// # Errors
    /// As for [`step`](Self::step).
    pub fn end(&mut self) -> io::Result<()> {
        // Requests that come from now on are not carried out.
        self.state().stop();
        self.core_mut().refuse_set_aside();
        self.core_mut().net.end_all(END_QUIET);
        let until_nanos = self.state().clock.nanos().saturating_add(END_WAIT.as_nanos() as u64);
        while self.core().net.stats().open > 0 && self.state().clock.nanos() < until_nanos {
            self.core_mut().fill_durable();
            let left = until_nanos.saturating_sub(self.state().clock.nanos());
            self.step_sockets(Duration::from_nanos(left))?;
        }
        Ok(())
    }

    /// Hands the letters that have come to the service.
    fn take_letters(&mut self) {
        for letter in self.mail.take() {
            let mut core = self.shared.core.borrow_mut();
            self.shared.state.service.take_letter(&mut self.loop_state, &mut *core, letter);
        }
    }
}
