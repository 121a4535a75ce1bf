//! A request is a transaction: begun, carried out, committed, and run again after a conflict.
//!
//! ```text
//! command          -> begin -> function -> commit     conflict: again
//! MULTI .. EXEC    -> begin -> each function -> commit     conflict: again
//! WATCH .. EXEC    -> the watching transaction -> each function -> commit     conflict: nil
//! ```
//! Invariants:
//! - R1: the reply rests on the receipt of the transaction, also a reply that is an error (R2).
//! - A reply is written anew at each run. Effects outside of the database are noted anew at each run, and take place
//!   once, behind the commit (J1).
//! - A loop never waits here. A commit that would wait, and a request that waits for its turn, are set aside
//!   (`contest`). A commit that is set aside has written nothing.
//!
//! Neighbours: [`crate::commands`] has the functions; `served_program` calls.

use std::sync::Arc;
use std::task::Waker;

use ensile::{Error, Transaction};
use ensile_base::Epoch;
use ensile_resp::Request;
use ensile_serving::{ANSWERED, AheadKey, Client, Exec, NewReply, Outcome};

use crate::blocking::{KeyWait, LookTerms, UnblockReason, Wait, WaitedKey, WaiterName};
use crate::channels::LoopChannels;
use crate::command::{Command, CommandFunction, TransactionFunction};
use crate::commands::{CommandError, CommandResult, DataCall};
use crate::contest::{Contest, RunPermit};
use crate::effects::{Effects, KeyFigures};
use crate::model::Keyspace;
use crate::model::keyspace::check_copies;
use crate::pending::{
    ClientBefore, GivenUp, LookResult, PendingCommit, PendingExec, QueueEnd, RunQueue, validated,
};
use crate::served_database::{
    ClientData, LoopData, ScriptCall, ServedCall, ServedDatabase, WATCHED_ROW_BYTES, WATCHED_ROWS_MAX, Watch,
};

/// Text of the error for a script that loses in its turn: the turn has ended before the script.
const TURN_TOO_SHORT: &str = "the script loses to other clients again and again, and needs longer than a turn of 100 ms: \
     read and write less at once";

/// Fetches the rows of a group's keys from memory together, for the transactions of the group's requests.
pub(crate) fn prefetch(server: &ServedDatabase, state: &mut LoopData, keys: &[AheadKey<'_>]) {
    let model = server.model();
    let mut tx = server.db().begin_owned();
    let fetched = tx.prefetch_ahead(|prefetch| {
        for AheadKey { database, key } in keys {
            let content = state.contents.get(*database as usize).copied().unwrap_or(*database);
            prefetch.key(&model.keys, &(content, model.key_hash(key), *key));
        }
    });
    // A hint: without the transaction each request begins one of its own, and finds every error by itself.
    state.ahead = fetched.is_ok().then_some(tx);
}

/// Carries out a command in a transaction of its own.
pub(crate) fn run_command(
    server: &ServedDatabase,
    mut call: ServedCall<'_>,
    function: TransactionFunction,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let mut contest = std::mem::take(&mut call.client.own.contest);
    // A wait that is dropped has left its queues: after an error, and after a panic.
    let mut wait = call.client.own.wait.take();
    if let Some(pending) = call.client.own.pending.take() {
        match commit_set_aside(server, &mut call, &mut wait, pending, reply) {
            Ok(Some(Outcome::Busy)) => {
                (call.client.own.contest, call.client.own.wait) = (contest, wait);
                return Outcome::Busy;
            }
            Ok(Some(outcome)) => {
                call.client.own.wait = wait;
                return outcome;
            }
            Ok(None) => reply.clear(),
            Err(error) if error.is_retryable() => note_loss(&mut contest, call.loop_state),
            Err(error) => return refuse(&call, &error, reply),
        }
    }
    loop {
        let turn = match contest.permit(server.db(), &call.loop_state.waker) {
            Ok(RunPermit::Run(turn)) => turn,
            Ok(RunPermit::Wait) => break,
            Err(error) => return refuse(&call, &error, reply),
        };
        let look = match begin_look(wait.as_ref(), || call.server.nanos()) {
            Ok(look) => look,
            Err(Unblocked) => {
                reply.fail("UNBLOCKED", "client unblocked via CLIENT UNBLOCK");
                return ANSWERED;
            }
        };
        let ended = attempt(server, &mut call, function, look, reply);
        let had_turn = turn.is_some();
        drop(turn);
        match ended {
            Ok(None) => break,
            Ok(Some((epoch, found))) => {
                let LoopData { channels, figures, effects, .. } = &mut *call.loop_state;
                figures.count_keys(effects.take_keys());
                take_place(server, channels, effects, call.client, epoch);
                if let Some(outcome) = end_look(server, &mut call, &mut wait, epoch, found) {
                    call.client.own.wait = wait;
                    return outcome;
                }
                reply.clear();
            }
            Err(error) if error.is_retryable() => {
                if had_turn && matches!(function, TransactionFunction::Script(_)) {
                    reply.fail("ERR", TURN_TOO_SHORT);
                    return ANSWERED;
                }
                note_loss(&mut contest, call.loop_state);
                reply.clear();
            }
            Err(error) => return refuse(&call, &error, reply),
        }
    }
    (call.client.own.contest, call.client.own.wait) = (contest, wait);
    Outcome::Busy
}

/// Notes that a run has lost to another transaction.
#[cold]
fn note_loss(contest: &mut Contest, state: &LoopData) {
    contest.note_loss();
    state.figures.count_conflict(state.command);
}

/// Commits a command that was set aside. `None`: the command looks again.
fn commit_set_aside(
    server: &ServedDatabase,
    call: &mut ServedCall<'_>,
    wait: &mut Option<Wait>,
    mut pending: PendingCommit,
    reply: &mut NewReply<'_>,
) -> Result<Option<Outcome>, Error> {
    let channels = &call.loop_state.channels;
    match pending.try_commit(channels, &call.loop_state.waker) {
        Ok(epoch) => {
            reply.append(&pending.reply);
            call.loop_state.figures.count_keys(pending.effects.take_keys());
            take_place(server, channels, &mut pending.effects, call.client, epoch);
            Ok(end_look(server, call, wait, epoch, pending.found))
        }
        Err(Error::Busy) => {
            call.client.own.pending = Some(pending);
            Ok(Some(Outcome::Busy))
        }
        Err(error) => Err(error),
    }
}

/// The client's wait ends with an error.
struct Unblocked;

/// Begins a look for a client that may wait already.
#[inline]
fn begin_look(wait: Option<&Wait>, now_nanos: impl FnOnce() -> u64) -> Result<LookTerms<'_>, Unblocked> {
    let Some(wait) = wait else { return Ok(LookTerms::FIRST) };
    let may_wait = match wait.begin_look() {
        Some(UnblockReason::Error) => return Err(Unblocked),
        Some(UnblockReason::Timeout) => false,
        // A time-out is a last look: elements that have come before its commit are taken.
        None => now_nanos() < wait.until_nanos(),
    };
    Ok(LookTerms { may_wait, has_waited: true, positions: wait.positions(), ..LookTerms::FIRST })
}

/// The result of a run for a client that waits. A command that waits has written nothing, and commits its reads.
#[inline]
fn found_in(ran: CommandResult, may_wait: bool) -> (CommandResult, LookResult) {
    match ran {
        Err(CommandError::Wait(wait)) => (Ok(()), LookResult::Nothing(wait)),
        Ok(()) if may_wait => (Ok(()), LookResult::Elements),
        ran => (ran, LookResult::Reply),
    }
}

/// Takes the step behind the commit of a look. `None`: the command looks again.
#[inline]
fn end_look(
    server: &ServedDatabase,
    call: &mut ServedCall<'_>,
    wait: &mut Option<Wait>,
    epoch: Epoch,
    found: LookResult,
) -> Option<Outcome> {
    match found {
        LookResult::Elements => {
            if let Some(wait) = wait.take() {
                wait.end_with_elements();
            }
            Some(Outcome::Reply(epoch))
        }
        LookResult::Reply => {
            *wait = None;
            Some(Outcome::Reply(epoch))
        }
        LookResult::Nothing(keys) => wait_for_keys(server, call, wait, keys),
    }
}

/// Lets a client wait that has found nothing. `None` for a client that was not in the queues yet, or for which
/// something has come meanwhile: the client looks again (J3).
#[cold]
fn wait_for_keys(
    server: &ServedDatabase,
    call: &mut ServedCall<'_>,
    wait: &mut Option<Wait>,
    keys: KeyWait,
) -> Option<Outcome> {
    match wait {
        Some(wait) => wait.sleep().then(|| Outcome::Wait { until_nanos: wait.until_nanos() }),
        None => {
            let database = call.client.database;
            let waited = |key: Box<[u8]>| WaitedKey { database, kind: keys.kind, key };
            let nanos =
                keys.timeout.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let name = WaiterName {
                mail: Arc::clone(&call.loop_state.mail),
                connection: call.client.connection,
                client: call.client.number,
            };
            let until_nanos = call.server.nanos().saturating_add(nanos);
            let positions = keys.positions;
            let keys = keys.keys.into_iter().map(waited).collect();
            *wait = Some(Wait::register(server.waiting_clients(), name, keys, until_nanos, positions));
            None
        }
    }
}

/// Runs a command once, and commits. Returns the epoch of the commit, and `None` if the commit waits.
#[inline]
fn attempt(
    server: &ServedDatabase,
    call: &mut ServedCall<'_>,
    function: TransactionFunction,
    look: LookTerms<'_>,
    reply: &mut NewReply<'_>,
) -> Result<Option<(Epoch, LookResult)>, Error> {
    let (ended, found) = match call.loop_state.ahead.take() {
        Some(mut tx) => {
            let (ended, found) = run_once(server, &mut tx, call, function, look, reply);
            // A lost or busy transaction is no begin for another: the next run reads newer rows.
            call.loop_state.ahead = (ended.is_ok() && tx.begin_again().is_ok()).then_some(tx);
            (ended, found)
        }
        None => run_once(server, &mut server.db().begin(), call, function, look, reply),
    };
    match ended {
        Ok(epoch) => Ok(Some((epoch, found))),
        Err(Error::Busy) => {
            reply.clear();
            set_aside(server, call, function, look, reply)
        }
        Err(error) => Err(error),
    }
}

/// Carries out a command in a transaction, and commits. Returns the epoch that the reply rests on, and the result of a
/// look.
#[inline]
fn run_once(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    call: &mut ServedCall<'_>,
    function: TransactionFunction,
    look: LookTerms<'_>,
    reply: &mut NewReply<'_>,
) -> (Result<Epoch, Error>, LookResult) {
    call.loop_state.effects.clear();
    let terms = RunTerms { now_millis: server.now_millis(), look };
    let ran = run_in(server, tx, call, function, terms, reply);
    let (ran, found) = found_in(ran, look.may_wait);
    let LoopData { channels, effects, waker, .. } = &*call.loop_state;
    if !channels.have_room(effects.messages(), waker) {
        // As a commit that would wait: the run comes again, or its transaction waits (J4).
        return (Err(Error::Busy), found);
    }
    (finish(server, tx, ran, waker), found)
}

/// Carries out a command again in a transaction that outlives the call: a commit that would wait stays registered for
/// its wake-up. Returns the epoch of a commit, and `None` if the commit waits.
#[cold]
fn set_aside(
    server: &ServedDatabase,
    call: &mut ServedCall<'_>,
    function: TransactionFunction,
    look: LookTerms<'_>,
    reply: &mut NewReply<'_>,
) -> Result<Option<(Epoch, LookResult)>, Error> {
    let mut tx = server.db().begin_owned();
    let (ended, found) = run_once(server, &mut tx, call, function, look, reply);
    match ended {
        Ok(epoch) => Ok(Some((epoch, found))),
        Err(Error::Busy) => {
            call.client.own.pending = Some(PendingCommit {
                tx,
                reply: reply.written_bytes().to_vec(),
                found,
                effects: std::mem::take(&mut call.loop_state.effects),
            });
            reply.clear();
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Has the effects of a transaction take place that has committed. A message rests on the replies that its publisher
/// has got so far (R1, J2).
#[inline]
fn take_place(
    server: &ServedDatabase,
    channels: &LoopChannels,
    effects: &mut Effects,
    client: &Client<ClientData>,
    epoch: Epoch,
) {
    if effects.is_empty() {
        return;
    }
    let epoch = epoch.max(client.parked_epoch());
    for message in effects.take_messages() {
        channels.send(message, epoch);
    }
    server.waiting_clients().wake(effects.take_arrivals());
}

/// Commits the transaction of a command, and returns the epoch that the reply rests on. The transaction of an error
/// reply has written nothing, and is validated by its commit. An error of the engine is returned once the reads under
/// it were consistent (R2).
fn finish(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    ran: CommandResult,
    waker: &Waker,
) -> Result<Epoch, Error> {
    match ran {
        Err(CommandError::Engine(error)) => Err(validated(tx, error)),
        // The reply shows nothing of a row.
        Err(CommandError::Raised(raised)) if raised.is_final => Ok(server.db().epoch()),
        // The commands before the error stay without effect.
        Err(CommandError::Raised(_)) => tx.validate(),
        Ok(()) | Err(_) => tx.try_commit_epoch(waker),
    }
}

/// Terms of a command's run.
#[derive(Clone, Copy)]
struct RunTerms<'t> {
    /// Time of the command in milliseconds since 1970.
    now_millis: i64,
    /// Terms of a wait for keys.
    look: LookTerms<'t>,
}

/// Carries out a command in a transaction, and writes its reply. An error of the engine that ends the transaction is
/// returned, every other error is a reply.
fn run_in(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    call: &mut ServedCall<'_>,
    function: TransactionFunction,
    terms: RunTerms<'_>,
    reply: &mut NewReply<'_>,
) -> CommandResult {
    let RunTerms { now_millis, look } = terms;
    let (database, stripe) = (call.client.database, call.loop_state.stripe);
    let before = call.loop_state.effects.mark();
    let (ran, copied_bytes) = match function {
        TransactionFunction::Data(function) => {
            let (effects, channels) = (&mut call.loop_state.effects, &call.loop_state.channels);
            let keyspace = Keyspace::new(tx, server.model(), effects, database, stripe, now_millis);
            let mut data = DataCall { keyspace, request: call.request, channels, look };
            let ran = reply.write(|reply| function(&mut data, reply));
            data.keyspace.note_content(&mut call.loop_state.contents);
            (ran, data.keyspace.copied_bytes)
        }
        TransactionFunction::Script(function) => {
            let (loop_state, request) = (&mut *call.loop_state, call.request);
            let mut script = ScriptCall {
                server,
                tx,
                loop_state,
                user: server.users().get(call.client.own.user),
                request,
                database,
                now_millis,
                copied_bytes: 0,
            };
            (function(&mut script, reply), script.copied_bytes)
        }
    };
    call.client.own.copied_bytes = copied_bytes;
    if ran.is_err() {
        call.loop_state.effects.back_to(before);
    }
    if let Err(error) = &ran
        && !matches!(error, CommandError::Engine(_) | CommandError::Wait(_))
    {
        error.reply(reply);
    }
    ran
}

/// Replies an error of the engine that no repetition mends.
fn refuse(call: &ServedCall<'_>, error: &Error, reply: &mut NewReply<'_>) -> Outcome {
    if matches!(error, Error::Storage(_) | Error::DiskFull(_) | Error::Closed) {
        call.server.count_turned_away();
    }
    reply_error(error, reply);
    ANSWERED
}

fn reply_error(error: &Error, reply: &mut NewReply<'_>) {
    match error {
        Error::DiskFull(_) | Error::Storage(_) => reply.fail("MISCONF", &error.to_string()),
        // Redis' words.
        Error::MemoryFull { .. } => {
            reply.fail("OOM", "command not allowed when used memory > 'maxmemory'.");
        }
        _ => reply.fail("ERR", &error.to_string()),
    }
}

/// Carries out the queued requests as one transaction.
pub(crate) fn run_queue(
    server: &ServedDatabase,
    mut exec: Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let mut contest = std::mem::take(&mut exec.client.own.contest);
    if let Some(pending) = exec.client.own.pending_exec.take() {
        match commit_pending(server, pending, &mut exec, reply) {
            QueueStep::Ended(outcome) => return outcome,
            QueueStep::Lost => note_loss(&mut contest, exec.loop_state),
        }
    }
    let now_millis = server.now_millis();
    if let Some(watch) = exec.client.own.watch.take() {
        if watch.expiry_millis.is_some_and(|expiry| expiry <= now_millis) {
            return reply_nil(server, reply);
        }
        let run = QueueRun { tx: watch.tx, now_millis, is_watched: true };
        match run_owned(server, run, &mut exec, reply) {
            QueueStep::Ended(outcome) => return outcome,
            QueueStep::Lost => debug_assert!(false, "a loss of a watching transaction is an answer"),
        }
    }
    loop {
        let turn = match contest.permit(server.db(), &exec.loop_state.waker) {
            Ok(RunPermit::Run(turn)) => turn,
            Ok(RunPermit::Wait) => break,
            Err(error) => return refuse_queue(&error, reply),
        };
        let (before, had_turn) = (ClientBefore::new(exec.client), turn.is_some());
        let mut tx = server.db().begin();
        let mut queue = run_queue_in(server, &mut tx, server.now_millis(), &mut exec, reply);
        let LoopData { channels, effects, waker, .. } = &*exec.loop_state;
        let end = queue.finish(&mut tx, || channels.have_room(effects.messages(), waker), waker);
        drop(tx);
        let step = match before.unless_committed(end, exec.client) {
            QueueEnd::Committed(epoch) => {
                let LoopData { channels, figures, effects, .. } = &mut *exec.loop_state;
                figures.count_keys(effects.take_keys());
                take_place(server, channels, effects, exec.client, epoch);
                QueueStep::Ended(Outcome::Reply(epoch))
            }
            QueueEnd::GivenUp(answer) => QueueStep::Ended(answer.write(reply)),
            QueueEnd::Refused(Error::Busy) => {
                reply.clear();
                let (tx, now_millis) = (server.db().begin_owned(), server.now_millis());
                run_owned(server, QueueRun { tx, now_millis, is_watched: false }, &mut exec, reply)
            }
            QueueEnd::Refused(error) if error.is_retryable() => QueueStep::Lost,
            QueueEnd::Refused(error) => QueueStep::Ended(refuse_queue(&error, reply)),
        };
        drop(turn);
        match step {
            QueueStep::Ended(Outcome::Busy) => break,
            QueueStep::Ended(outcome) => return outcome,
            QueueStep::Lost if had_turn && queue.has_script => {
                reply.fail("ERR", TURN_TOO_SHORT);
                return ANSWERED;
            }
            QueueStep::Lost => {
                note_loss(&mut contest, exec.loop_state);
                reply.clear();
            }
        }
    }
    exec.client.own.contest = contest;
    Outcome::Busy
}

/// A run of a queue in a transaction that outlives the call.
struct QueueRun {
    tx: Transaction<'static>,
    /// Time of the queue's commands in milliseconds since 1970.
    now_millis: i64,
    /// True if the transaction has read watched keys: a loss is an answer.
    is_watched: bool,
}

/// Step after a run of a queue.
enum QueueStep {
    Ended(Outcome),
    /// The run has lost to another transaction, and nothing is written.
    Lost,
}

/// Carries out the queue in a transaction that outlives the call: a commit that would wait stays registered for its
/// wake-up, and watched rows are not read anew.
fn run_owned(
    server: &ServedDatabase,
    run: QueueRun,
    exec: &mut Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> QueueStep {
    let QueueRun { mut tx, now_millis, is_watched } = run;
    let before = ClientBefore::new(exec.client);
    let queue = run_queue_in(server, &mut tx, now_millis, exec, reply);
    let after = ClientBefore::new(exec.client);
    let replies = reply.written_bytes().to_vec();
    reply.clear();
    let effects = std::mem::take(&mut exec.loop_state.effects);
    let pending = PendingExec { tx, is_watched, queue, replies, effects, before, after };
    commit_pending(server, pending, exec, reply)
}

/// Commits the transaction of a queue that has run. A commit that would wait keeps transaction and replies.
fn commit_pending(
    server: &ServedDatabase,
    mut pending: PendingExec,
    exec: &mut Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> QueueStep {
    let LoopData { channels, waker, .. } = &*exec.loop_state;
    let PendingExec { tx, queue, effects, .. } = &mut pending;
    let end = queue.finish(tx, || channels.have_room(effects.messages(), waker), waker);
    let left = if matches!(end, QueueEnd::Committed(_)) { &pending.after } else { &pending.before };
    left.apply(exec.client);
    match end {
        QueueEnd::Committed(epoch) => {
            reply.append(&pending.replies);
            exec.loop_state.figures.count_keys(pending.effects.take_keys());
            take_place(server, &exec.loop_state.channels, &mut pending.effects, exec.client, epoch);
            QueueStep::Ended(Outcome::Reply(epoch))
        }
        QueueEnd::GivenUp(answer) => QueueStep::Ended(answer.write(reply)),
        QueueEnd::Refused(Error::Busy) => {
            exec.client.own.pending_exec = Some(pending);
            QueueStep::Ended(Outcome::Busy)
        }
        QueueEnd::Refused(error) if error.is_retryable() => {
            if pending.is_watched {
                server.count_watch_loss(&error);
                return QueueStep::Ended(reply_nil(server, reply));
            }
            QueueStep::Lost
        }
        QueueEnd::Refused(error) => QueueStep::Ended(refuse_queue(&error, reply)),
    }
}

/// Replies an error that no repetition of a queue mends.
fn refuse_queue(error: &Error, reply: &mut NewReply<'_>) -> Outcome {
    reply_error(error, reply);
    ANSWERED
}

/// Replies that a watched key has changed.
fn reply_nil(server: &ServedDatabase, reply: &mut NewReply<'_>) -> Outcome {
    reply.write(|reply| reply.null_array());
    // The change may be of any epoch up to now.
    Outcome::Reply(server.db().epoch())
}

/// Carries out all queued requests in a transaction, and writes the array of their replies.
fn run_queue_in(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    now_millis: i64,
    exec: &mut Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> RunQueue {
    let (mut failed, mut has_failed, mut is_too_long) = (None, false, false);
    let (mut given_up, mut copied_bytes, mut has_script) = (None, 0, false);
    exec.loop_state.effects.clear();
    let epoch = exec.call_each(reply, |_, mut call, command: &'static Command, reply| {
        let function = match command.function {
            CommandFunction::Data(function) => TransactionFunction::Data(function),
            CommandFunction::Script(function) => TransactionFunction::Script(function),
            CommandFunction::Server(function) => match function(call, reply) {
                Outcome::Reply(epoch) => return epoch,
                outcome => {
                    debug_assert!(false, "Q1: {outcome:?} of a queued request");
                    return Epoch::ZERO;
                }
            },
        };
        has_script |= matches!(function, TransactionFunction::Script(_));
        if failed.is_some() || matches!(given_up, Some(GivenUp::ScriptStopped(..))) {
            // The transaction has ended: the whole reply becomes an error, or the queue runs again.
            reply.write(|reply| reply.null());
            return Epoch::ZERO;
        }
        match run_in(
            server,
            tx,
            &mut call,
            function,
            RunTerms { now_millis, look: LookTerms::WITHOUT_WAIT },
            reply,
        ) {
            Ok(()) => is_too_long |= reply.is_beyond() && command.info.has_flag("write"),
            // The command may have written before the error, so the transaction cannot go on.
            Err(CommandError::Engine(error)) => {
                failed = Some(error);
                reply.clear();
                reply.write(|reply| reply.null());
            }
            Err(CommandError::Raised(raised)) if raised.is_final => {
                given_up = Some(GivenUp::ScriptStopped(raised.line, server.db().epoch()));
            }
            Err(CommandError::Raised(raised)) if raised.has_written => {
                given_up.get_or_insert(GivenUp::ScriptRaised(raised.line));
            }
            Err(_) => has_failed = true,
        }
        copied_bytes += call.client.own.copied_bytes;
        failed = failed.take().or_else(|| check_copies(copied_bytes).err());
        Epoch::ZERO
    });
    let is_stopped = matches!(given_up, Some(GivenUp::ScriptStopped(..)));
    if is_too_long && !is_stopped {
        given_up = Some(GivenUp::ReplyTooLong);
    } else if has_failed && server.rolls_back() {
        given_up.get_or_insert(GivenUp::CommandFailed);
    }
    RunQueue { epoch, failed, given_up, has_script }
}

/// `WATCH key ..`: reads the rows of the keys in a transaction that stays open until `EXEC`.
pub(crate) fn watch(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    if call.client.is_queueing() {
        refuse_watch(reply);
        return ANSWERED;
    }
    let server = call.server.service();
    let database = call.client.database;
    let ServedCall { client, request, loop_state, .. } = call;
    let mut watch = client.own.watch.take().unwrap_or_else(|| Watch::new(server.db().begin_owned()));
    let key_bytes = request.iter().skip(1).map(<[u8]>::len).sum();
    if let Err(text) = watch.count(request.len() - 1, key_bytes) {
        client.own.watch = Some(watch);
        reply.fail("ERR", &text);
        return ANSWERED;
    }
    let read = read_watched(server, &mut watch, loop_state, database, request);
    // The keys that were watched before stay watched, also after an error.
    client.own.watch = Some(watch);
    match read {
        // A transaction that has ended makes the next `EXEC` reply nil.
        Ok(()) | Err(Error::Conflict | Error::Expired) => reply.write(|reply| reply.simple("OK")),
        Err(error) => reply_error(&error, reply),
    }
    ANSWERED
}

/// Number of times that the rows of expired keys are removed, if other transactions change the rows meanwhile.
const REMOVAL_TRIES: usize = 4;

/// Removes the rows of expired keys, so that the removal is no change of a watched key. A failure is no error: the
/// watch then sees the removal as a change.
fn remove_expired(
    server: &ServedDatabase,
    loop_state: &LoopData,
    database: u32,
    request: Request<'_>,
    now_millis: i64,
) {
    for _ in 0..REMOVAL_TRIES {
        let mut tx = server.db().begin();
        let mut effects = Effects::default();
        let stripe = loop_state.stripe;
        let mut keyspace = Keyspace::new(&mut tx, server.model(), &mut effects, database, stripe, now_millis);
        let read = request.iter().skip(1).try_for_each(|key| keyspace.summary(key).map(drop));
        match read.and_then(|()| tx.submit().map(drop)) {
            Err(error) if error.is_retryable() => {}
            Ok(()) => {
                // The reads of `WATCH` are no reads of its client.
                let expired = effects.take_keys().expired;
                return loop_state.figures.count_keys(KeyFigures { expired, ..KeyFigures::default() });
            }
            Err(_) => return,
        }
    }
}

fn read_watched(
    server: &ServedDatabase,
    watch: &mut Watch,
    loop_state: &LoopData,
    database: u32,
    request: Request<'_>,
) -> Result<(), Error> {
    let now_millis = server.now_millis();
    remove_expired(server, loop_state, database, request, now_millis);
    let mut effects = Effects::default();
    let mut keyspace =
        Keyspace::new(&mut watch.tx, server.model(), &mut effects, database, loop_state.stripe, now_millis);
    for key in request.iter().skip(1) {
        let watched = keyspace.watch(key)?;
        watch.expiry_millis = watch.expiry_millis.into_iter().chain(watched.expiry_millis).min();
        watch.rows += watched.rows;
        if watch.rows > WATCHED_ROWS_MAX {
            let (what, bytes_max) = ("the set of watched rows", WATCHED_ROWS_MAX * WATCHED_ROW_BYTES);
            return Err(Error::TooLarge { what, bytes: watch.rows * WATCHED_ROW_BYTES, bytes_max });
        }
    }
    Ok(())
}

/// `UNWATCH`
pub(crate) fn unwatch(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    forget_watched(call.client, reply);
    ANSWERED
}

/// Forgets the watched keys of a client.
pub(crate) fn forget_watched(client: &mut Client<ClientData>, reply: &mut NewReply<'_>) {
    client.own.watch = None;
    reply.write(|reply| reply.simple("OK"));
}

/// Refuses a `WATCH` between `MULTI` and `EXEC`.
pub(crate) fn refuse_watch(reply: &mut NewReply<'_>) {
    reply.fail("ERR", "WATCH inside MULTI is not allowed");
}
