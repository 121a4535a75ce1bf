//! A server of one service over RESP: the service as `ensile-serving` serves it.
//!
//! Invariants:
//! - R1: a strict server sends a reply only when the epoch that the reply rests on is durable; the rule holds for
//!   replies to reads as well.
//! - Q1, Q2: each request that `MULTI` has queued is carried out by itself.
//!
//! Neighbours: `ensile-serving` has loops, clients and common commands; [`crate::service`] is the served side. `info`
//! has the text of `INFO`; [`threads`] starts a server.

mod info;
pub mod threads;

use std::fmt;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_objects::{LogHealth, ObjectDurability, WaitingCallBack};
use ensile_serving::{AheadKey, CheckpointWait, Client, DurableEpoch, LogState, LoopParts};
pub use ensile_serving::{CLIENT_MEMORY_BYTES, END_WAIT, KEEPALIVE_SECONDS, LIMITS};
use ensile_serving::{
    DurableEpochs, Exec, InfoText, NewReply, Outcome, ServerFigures, ServiceCall, TOGETHER,
};

use crate::service::{CommandRequest, Service, ServiceCommand, check_length};

/// State shared by the loops of a service's server.
pub type ServerState<S> = ensile_serving::ServingState<ObjectService<S>>;

/// One loop of a service's server.
pub type ServiceLoop<T, S> = ensile_serving::ServingLoop<T, ObjectService<S>>;

/// A service, and the durability with which its objects were opened.
pub struct ObjectService<S> {
    service: Arc<S>,
    durability: ObjectDurability,
}

impl<S> fmt::Debug for ObjectService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectService").field("durability", &self.durability).finish_non_exhaustive()
    }
}

/// Makes the state of a server for a service whose objects were opened with `durability`. With strict durability,
/// replies wait until they are durable.
#[must_use]
pub fn server_state<S: Service>(
    service: Arc<S>,
    durability: ObjectDurability,
    clock: Clock,
) -> ServerState<S> {
    ServerState::new(Arc::new(ObjectService { service, durability }), clock)
}

impl<S: Service> ensile_serving::ServedProgram for ObjectService<S> {
    const NAME: &'static str = S::NAME;
    const DATABASES: u32 = 1;
    const IS_WITHOUT_USERS: bool = true;

    type Command = ServiceCommand<S>;
    type LoopState = ();
    type ClientState = ();
    type Letter = ();

    #[inline]
    fn commands() -> &'static [ServiceCommand<S>] {
        S::COMMANDS
    }

    fn begin_loop(&self, _: LoopParts<()>) {}

    #[inline]
    fn prefetch(&self, _: &mut (), keys: &[AheadKey<'_>]) {
        debug_assert!(keys.len() <= TOGETHER, "each request has a place for its key");
        let mut all = [[].as_slice(); TOGETHER];
        for (place, ahead) in all.iter_mut().zip(keys) {
            *place = ahead.key;
        }
        self.service.prefetch(&all[..keys.len().min(TOGETHER)]);
    }

    #[inline]
    fn call(
        &self,
        call: ServiceCall<'_, Self>,
        command: &'static ServiceCommand<S>,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        let request = CommandRequest::new(call.request);
        let called = reply
            .write(|reply| (command.call)(&self.service, &request, reply).and_then(|()| check_length(reply)));
        match called {
            Ok(()) => Outcome::Reply(request.rests.epoch()),
            Err(error) => {
                if error.is_turned_away() {
                    call.server.count_turned_away();
                }
                reply.fail(error.code(), &error.to_string());
                Outcome::Reply(error.rests_on(&request.rests, || self.newest_epoch()))
            }
        }
    }

    fn exec(&self, mut exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome {
        exec.call_each_alone(reply)
    }

    #[inline]
    fn waits_for_durability(&self) -> bool {
        self.durability == ObjectDurability::Strict
    }

    #[inline]
    fn durable_epochs(&self) -> &dyn DurableEpochs {
        self
    }

    fn checkpoint(&self) {
        // The handle could wait for the checkpoint's end, and no caller does.
        drop(self.service.persistent_objects().checkpoint());
    }

    /// The use of a log, the time of its syncs, and an empty `save`, because no schedule keeps data beside the log. A
    /// process-safe result has reached the system before its reply, as with `everysec`.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let (log, sync) = match self.durability {
            ObjectDurability::Strict => ("yes", "always"),
            ObjectDurability::Relaxed | ObjectDurability::Process => ("yes", "everysec"),
            ObjectDurability::NoLog => ("no", "no"),
        };
        [("appendonly", log), ("appendfsync", sync), ("save", "")]
            .map(|(name, value)| (name, value.to_owned()))
            .into()
    }

    fn info(&self, _: &Client<()>, figures: &ServerFigures, text: &mut InfoText) {
        info::write(&*self.service, self.durability, figures, text);
    }

    fn report_load(&self, served: u64, lost: u64) {
        self.service.persistent_objects().report_requests(served, lost);
    }
}

impl<S: Service> DurableEpochs for ObjectService<S> {
    fn is_durable(&self, epoch: Epoch) -> bool {
        self.service.persistent_objects().receipt(epoch).is_durable()
    }

    fn durable(&self, epoch: Epoch) -> DurableEpoch {
        let durable = self.service.persistent_objects().receipt(epoch).durable_async();
        Box::pin(async { durable.await.map_err(|error| error.to_string()) })
    }

    fn newest_epoch(&self) -> Epoch {
        self.service.persistent_objects().newest_epoch()
    }

    fn log_state(&self) -> LogState {
        match self.service.persistent_objects().stats().log_health {
            LogHealth::Running => LogState::Running,
            LogHealth::Full(why) => LogState::Full(why),
            LogHealth::EpochsEnded(why) => LogState::EpochsEnded(why),
            LogHealth::Poisoned(why) => LogState::Poisoned(why),
            LogHealth::Removed(why) => LogState::Removed(why),
            // The server has closed the log itself, or this process is a fork.
            _ => LogState::Closed,
        }
    }

    fn checkpoint_wait(&self) -> Option<CheckpointWait> {
        let waiting = self.service.persistent_objects().stats().waiting_call_back?;
        let WaitingCallBack { object, waited } = waiting;
        Some(CheckpointWait { object, waited })
    }

    fn close(&self) -> Result<(), String> {
        self.service.persistent_objects().close().map_err(|error| error.to_string())
    }
}
