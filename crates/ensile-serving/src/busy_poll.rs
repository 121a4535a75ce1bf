//! A long request has its loop serve the other connections.
//!
//! ```text
//! request under way -> serve_others -> arrivals, and replies that are durable
//!                                              -> requests of others: BUSY, unless the command is permitted (allow_busy)
//! ```
//! Invariants:
//! - W19: the call touches neither the connection of the request under way nor the program's state of the loop. Events
//!   that need the state wait in the core until the request has ended.
//! - A call within the call does nothing.
//!
//! Neighbours: a served program calls through [`crate::LoopPoll`]; `request_serving` takes the requests.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ensile_net::{NetEvent, Transport};

use crate::deferred_replies::CalledWaker;
use crate::loop_core::LoopCore;
use crate::loop_poll::ServesOthers;
use crate::request_serving::{LoopTurn, RequestServing};
use crate::served_program::ServedProgram;
use crate::state::ServingState;

/// The parts of a loop that are reached during a request.
pub(crate) struct LoopShared<T, S: ServedProgram> {
    pub(crate) core: RefCell<LoopCore<T, S>>,
    pub(crate) state: Arc<ServingState<S>>,
    /// Waker of the requests that are set aside.
    pub(crate) called: Arc<CalledWaker>,
    pub(crate) waker: Waker,
}

impl<T: Transport, S: ServedProgram> ServesOthers for LoopShared<T, S> {
    fn serve_others(&self) -> bool {
        let Ok(mut core) = self.core.try_borrow_mut() else {
            debug_assert!(false, "W19: the core is free while a request is carried out");
            return self.state.has_stopped();
        };
        if core.is_polling || core.failed.is_some() {
            return true;
        }
        (core.was_polled, core.is_polling) = (true, true);
        if let Err(error) = core.net.step(Duration::ZERO) {
            (core.failed, core.is_polling) = (Some(error), false);
            return true;
        }
        let begun_nanos = self.state.clock.nanos();
        // The step behind the request finds a failure again.
        let _ = core.fill_durable();
        core.count_sent(begun_nanos);
        drop(core);
        let (mut reply, mut turn) = (Vec::new(), LoopTurn { begun_nanos, ..LoopTurn::default() });
        loop {
            let mut core = self.core.borrow_mut();
            let Some(event) = core.net.next_event() else { break };
            match event {
                NetEvent::Opened(id) => core.open(id),
                NetEvent::Silent(id) => core.release_room(id),
                NetEvent::Received(id) => {
                    drop(core);
                    self.busy_serving(&mut reply, &mut turn).serve(id);
                }
                // The requests from before the request under way are called again behind its end.
                NetEvent::WokenUp => core.resume_set_aside_while_busy(),
                NetEvent::Closed(id, _) => core.keep_ended(id, event),
                NetEvent::TimerDue(_) => core.late.push_back(event),
                NetEvent::AcceptPaused(_) => {}
            }
        }
        let mut core = self.core.borrow_mut();
        debug_assert!(core.is_polling, "W19: no call within the call");
        if turn.replied > 0 {
            core.traffic.latencies.count(self.state.clock.nanos().saturating_sub(begun_nanos), turn.replied);
        }
        core.is_polling = false;
        self.state.is_to_end()
    }
}

impl<T: Transport, S: ServedProgram> LoopShared<T, S> {
    /// Serves requests while the program's state of the loop is with the request under way.
    fn busy_serving<'l>(
        &'l self,
        reply: &'l mut Vec<u8>,
        turn: &'l mut LoopTurn,
    ) -> RequestServing<'l, T, S> {
        let (core, server, waker) = (&self.core, &*self.state, &self.waker);
        RequestServing { core, server, loop_state: None, waker, reply, turn }
    }
}
