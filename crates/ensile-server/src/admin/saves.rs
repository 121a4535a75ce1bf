//! `SAVE` and `WAITAOF`: requests that are set aside until the disk has everything.
//!
//! Invariants:
//! - A loop never waits. The request is set aside, and is called again at the end of its wait (W18).
//! - The reply to `SAVE` comes behind a checkpoint that began after the request.
//!
//! Neighbours: the table of commands names the functions; a client keeps its wait ([`crate::disk_wait`]).

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ensile_net::ConnectionId;
use ensile_resp::integer;
use ensile_serving::{ANSWERED, DurableEpochs as _, NewReply, Outcome};

use crate::channels::{Letter, LoopMailBox};
use crate::disk_wait::DiskWait;
use crate::served_database::{ServedCall, ServedDatabase};

/// Pause between two looks at a checkpoint.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Has the request of a client called again.
struct ClientWaker {
    mail: LoopMailBox,
    connection: ConnectionId,
}

impl Wake for ClientWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mail.post(Letter::Resume(self.connection), 0);
    }
}

/// `SAVE`: makes a checkpoint, and replies behind it.
pub(crate) fn save(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let server = call.server.service();
    let wait = match call.client.own.disk_wait.take() {
        Some(DiskWait::Checkpoint { handle, is_earlier }) => match handle.outcome() {
            None => Ok(DiskWait::Checkpoint { handle, is_earlier }),
            Some(_) if is_earlier => begin_save(server, false),
            Some(Ok(_)) => {
                server.observed().look(&server.db().stats());
                reply.write(|reply| reply.simple("OK"));
                return ANSWERED;
            }
            Some(Err(error)) => Err(error),
        },
        wait => {
            debug_assert!(wait.is_none(), "a client waits by one request at a time");
            let checkpoints = server.db().stats().checkpoints;
            begin_save(server, checkpoints.is_some_and(|checkpoints| checkpoints.running.is_some()))
        }
    };
    match wait {
        Ok(wait) => {
            call.client.own.disk_wait = Some(wait);
            Outcome::Wait { until_nanos: call.server.nanos().saturating_add(LOOK_PAUSE.as_nanos() as u64) }
        }
        Err(error) => {
            reply.fail("ERR", &error.to_string());
            ANSWERED
        }
    }
}

fn begin_save(server: &ServedDatabase, is_earlier: bool) -> ensile::Result<DiskWait> {
    Ok(DiskWait::Checkpoint { handle: server.db().checkpoint()?, is_earlier })
}

/// Numbers of `WAITAOF`.
struct WaitTerms {
    /// True if the client waits for this server's log.
    is_local: bool,
    /// Longest wait; `None` for a wait without an end.
    timeout: Option<Duration>,
}

impl WaitTerms {
    /// # Errors
    /// The text of the refusal, in redis' words where redis has the error.
    fn of_request(call: &ServedCall<'_>) -> Result<Self, &'static str> {
        let number = |at: usize| call.request.get(at).and_then(integer);
        let is_local = match number(1).ok_or("value is not an integer or out of range")? {
            0 => false,
            1 => true,
            _ => return Err("value is out of range, value must between 0 and 1"),
        };
        match number(2).ok_or("value is not an integer or out of range")? {
            0 => {}
            ..0 => return Err("value is out of range, must be positive"),
            _ => return Err("WAITAOF for replicas is not available in this version of ensile"),
        }
        let timeout = match number(3).ok_or("timeout is not an integer or out of range")? {
            0 => None,
            millis => Some(Duration::from_millis(u64::try_from(millis).map_err(|_| "timeout is negative")?)),
        };
        if is_local && !call.server.service().has_log() {
            return Err("WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
        }
        Ok(Self { is_local, timeout })
    }
}

/// `WAITAOF numlocal numreplicas timeout`: waits until everything that the client has changed is durable, whatever
/// `appendfsync` says.
pub(crate) fn wait_for_log(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let server = call.server.service();
    let (mut durable, until_nanos) = match call.client.own.disk_wait.take() {
        Some(DiskWait::Epoch { durable, until_nanos }) => (durable, until_nanos),
        wait => {
            debug_assert!(wait.is_none(), "a client waits by one request at a time");
            let WaitTerms { is_local, timeout } = match WaitTerms::of_request(&call) {
                Ok(terms) => terms,
                Err(text) => {
                    reply.fail("ERR", text);
                    return ANSWERED;
                }
            };
            let epoch = server.newest_epoch();
            if !is_local || server.is_durable(epoch) {
                return reply_count(server.has_log() && server.is_durable(epoch), reply);
            }
            let nanos = timeout.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            (server.durable(epoch), call.server.nanos().saturating_add(nanos))
        }
    };
    let waker = Waker::from(Arc::new(ClientWaker {
        mail: Arc::clone(&call.loop_state.mail),
        connection: call.client.connection,
    }));
    match durable.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(Ok(())) => reply_count(true, reply),
        Poll::Ready(Err(error)) => {
            reply.fail("NOTDURABLE", &error);
            ANSWERED
        }
        Poll::Pending if call.server.nanos() >= until_nanos => reply_count(false, reply),
        Poll::Pending => {
            call.client.own.disk_wait = Some(DiskWait::Epoch { durable, until_nanos });
            Outcome::Wait { until_nanos }
        }
    }
}

/// Replies the number of logs that have the client's changes: of this server, and of replicas.
fn reply_count(is_durable: bool, reply: &mut NewReply<'_>) -> Outcome {
    reply.write(|reply| {
        reply.array(2);
        reply.integer(i64::from(is_durable));
        reply.integer(0);
    });
    ANSWERED
}
