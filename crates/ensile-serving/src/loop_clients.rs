//! The clients of a loop: pushes, and the ends of waits and connections.
//!
//! Invariants:
//! - W1: pushed bytes come behind the replies to all requests that were carried out before, parked replies included.
//! - R1: pushed bytes go out once their epoch is durable, if replies wait. Bytes of an epoch that fails are dropped.
//!
//! Neighbours: [`crate::ServingLoop`] has the clients; `mail` has the interface for a served program.

use std::collections::HashMap;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_net::{ConnectionId, NetLoop, Transport};

use crate::client_state::{Client, ClientSession, ServedClient};
use crate::deferred_replies::{PARKED_BYTES, ParkedReplies};
use crate::limits::PUSHED_BYTES_MAX;
use crate::mail::LoopClients;
use crate::served_program::ServedProgram;
use crate::state::ServingState;

/// The clients of a loop.
pub(crate) struct ClientsOfLoop<'l, T, S: ServedProgram> {
    pub(crate) net: &'l mut NetLoop<T>,
    pub(crate) sessions: &'l mut HashMap<ConnectionId, ClientSession<S::ClientState>>,
    pub(crate) parked: &'l mut ParkedReplies,
    pub(crate) state: &'l Arc<ServingState<S>>,
}

impl<T: Transport, S: ServedProgram> LoopClients<S::ClientState> for ClientsOfLoop<'_, T, S> {
    fn client(&mut self, id: ConnectionId) -> Option<&mut Client<S::ClientState>> {
        self.sessions.get_mut(&id).map(|session| &mut session.client)
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&ServedClient<'_, S::ClientState>)) {
        let now_nanos = self.state.clock.nanos();
        for (id, session) in &*self.sessions {
            let unsent_bytes = self.net.parts(*id).map_or(0, |(_, replies)| replies.unsent_bytes());
            let net = &*self.net;
            visit(&session.served(now_nanos, unsent_bytes, &|| net.ends(*id)));
        }
    }

    fn push(&mut self, id: ConnectionId, epoch: Epoch, bytes: &[u8]) {
        debug_assert!(!bytes.is_empty(), "a push has bytes");
        let (Some(session), Some((_, replies))) = (self.sessions.get_mut(&id), self.net.parts(id)) else {
            return;
        };
        if replies.unsent_bytes() + bytes.len() > PUSHED_BYTES_MAX {
            // Relaxed: a figure for people.
            self.state.slow_listeners.fetch_add(1, Ordering::Relaxed);
            self.net.close(id);
            return;
        }
        let epochs = self.state.service.durable_epochs();
        if self.state.service.waits_for_durability() && !self.parked.knows(epoch, epochs) {
            let slot = replies.reserve(bytes.len() + PARKED_BYTES);
            self.parked.park_push(epoch, slot, bytes);
            session.client.parked = epoch.max(session.client.parked);
        } else {
            replies.reply(|buffer| buffer.extend_from_slice(bytes));
        }
    }

    fn resume(&mut self, id: ConnectionId) {
        let Some(wait) = self.sessions.get_mut(&id).and_then(|session| session.wait.take()) else { return };
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
