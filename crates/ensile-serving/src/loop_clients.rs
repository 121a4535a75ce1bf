//! The clients of a loop: pushes, and the ends of waits and connections.
//!
//! Invariants:
//! - W1: pushed bytes come behind the replies to all requests that were carried out before, parked replies included.
//! - R1: pushed bytes go out once their epoch is durable, if replies wait. Bytes of an epoch that fails are dropped.
//!
//! Neighbours: `loop_core` has the clients; `mail` has the interface for a served program.

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_net::{ConnectionId, Transport};

use crate::client_state::{Client, ServedClient};
use crate::deferred_replies::PARKED_BYTES;
use crate::limits::{LIMITS, PUSHED_BYTES_MAX};
use crate::loop_core::LoopCore;
use crate::mail::LoopClients;
use crate::served_program::ServedProgram;

impl<T: Transport, S: ServedProgram> LoopClients<S::ClientState> for LoopCore<T, S> {
    fn client(&mut self, id: ConnectionId) -> Option<&mut Client<S::ClientState>> {
        self.session_mut(id).map(|session| &mut session.client)
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&ServedClient<'_, S::ClientState>)) {
        let now_nanos = self.state.clock.nanos();
        for (id, session) in &self.sessions {
            debug_assert!(session.is_some(), "letters come between two requests");
            let Some(session) = session else { continue };
            let unsent_bytes = self.net.parts(*id).map_or(0, |(_, replies)| replies.unsent_bytes());
            let net = &self.net;
            visit(&session.served(now_nanos, unsent_bytes, &|| net.ends(*id)));
        }
    }

    fn push(&mut self, id: ConnectionId, epoch: Epoch, bytes: &[u8]) {
        debug_assert!(!bytes.is_empty(), "a push has bytes");
        let Self { net, sessions, parked, state, .. } = self;
        let session = sessions.get_mut(&id).and_then(Option::as_mut);
        let (Some(session), Some((_, replies))) = (session, net.parts(id)) else { return };
        // Bytes that wait for the disk are no sign of a slow client. The limit of unsent bytes (W2) holds for them.
        let is_slow = replies.ready_bytes() + bytes.len() > PUSHED_BYTES_MAX;
        if is_slow || replies.unsent_bytes() + bytes.len() + PARKED_BYTES > LIMITS.unsent_bytes_max {
            // Relaxed: a figure for people.
            state.slow_listeners.fetch_add(1, Ordering::Relaxed);
            net.close(id);
            return;
        }
        let epochs = state.service.durable_epochs();
        if state.service.waits_for_durability() && !parked.knows(epoch, epochs) {
            let slot = replies.reserve(bytes.len() + PARKED_BYTES);
            parked.park_push(epoch, slot, bytes);
            session.client.parked = epoch.max(session.client.parked);
        } else {
            replies.reply(|buffer| buffer.extend_from_slice(bytes));
        }
    }

    fn resume(&mut self, id: ConnectionId) {
        let Some(wait) = self.session_mut(id).and_then(|session| session.wait.take()) else { return };
        if let Some(timer) = wait.timer {
            self.net.cancel_timer(timer);
        }
        if let Some((_, replies)) = self.net.parts(id) {
            replies.resume();
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.net.close(id);
    }
}
