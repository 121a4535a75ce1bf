//! A request is a transaction: begun, carried out, committed, and run again after a conflict.
//!
//! ```text
//! command          -> begin -> function -> commit     conflict: again
//! MULTI .. EXEC    -> begin -> each function -> commit     conflict: again
//! WATCH .. EXEC    -> the watching transaction -> each function -> commit     conflict: nil
//! ```
//! Invariants:
//! - R1: the reply rests on the receipt of the transaction, also a reply that is an error (R2).
//! - A reply is written anew at each run.
//! - A loop never waits here: see `ensile-serving`.
//!
//! Neighbours: [`crate::commands`] has the functions; `served_program` calls.

use ensile::{Error, Receipt, Transaction};
use ensile_base::Epoch;
use ensile_resp::Request;
use ensile_serving::{ANSWERED, Client, Exec, NewReply, Outcome};

use crate::command::{Command, CommandFunction};
use crate::commands::{CommandError, CommandResult, DataCall, DataFunction};
use crate::model::Keyspace;
use crate::model::keyspace::check_copies;
use crate::served_database::{ClientData, ServedCall, ServedDatabase, Watch};

/// Carries out a command over data as a transaction of its own.
pub(crate) fn run_command(
    server: &ServedDatabase,
    mut call: ServedCall<'_>,
    function: DataFunction,
    reply: &mut NewReply<'_>,
) -> Outcome {
    loop {
        let mut tx = server.db().begin();
        let ran = run_in(server, &mut tx, &mut call, function, server.now_millis(), reply);
        match finish(tx, ran) {
            Ok(receipt) => return Outcome::Reply(receipt.epoch()),
            Err(error) if error.is_retryable() => reply.clear(),
            Err(error) => return refuse(&call, &error, reply),
        }
    }
}

/// Commits the transaction of a command. The transaction of an error reply has written nothing, and is validated.
fn finish(tx: Transaction<'_>, ran: CommandResult) -> Result<Receipt<'_>, Error> {
    match ran {
        Err(CommandError::Engine(error)) => Err(error),
        Ok(()) | Err(_) => tx.submit(),
    }
}

/// Carries out a command in a transaction, and writes its reply. An error of the engine that ends the transaction is
/// returned, every other error is a reply.
fn run_in(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    call: &mut ServedCall<'_>,
    function: DataFunction,
    now_millis: i64,
    reply: &mut NewReply<'_>,
) -> CommandResult {
    let keyspace =
        Keyspace::new(tx, server.model(), call.client.database, call.loop_state.stripe, now_millis);
    let mut data = DataCall { keyspace, request: call.request };
    let ran = reply.write(|reply| function(&mut data, reply));
    call.client.own.copied_bytes = data.keyspace.copied_bytes;
    if let Err(error) = &ran
        && !matches!(error, CommandError::Engine(_))
    {
        reply.fail(error.code(), &error.text());
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
    let code = match error {
        Error::DiskFull(_) | Error::Storage(_) => "MISCONF",
        _ => "ERR",
    };
    reply.fail(code, &error.to_string());
}

/// Carries out the queued requests as one transaction.
pub(crate) fn run_queue(
    server: &ServedDatabase,
    mut exec: Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    if let Some(watch) = exec.client.own.watch.take() {
        if watch.expiry_millis.is_some_and(|expiry| expiry <= server.now_millis()) {
            return reply_nil(server, reply);
        }
        return run_watched(server, watch.tx, &mut exec, reply);
    }
    loop {
        let before = ClientBefore::new(exec.client);
        let mut tx = server.db().begin();
        let queue = run_queue_in(server, &mut tx, &mut exec, reply);
        match before.unless_committed(queue.finish(tx), exec.client) {
            QueueEnd::Committed(epoch) => return Outcome::Reply(epoch),
            QueueEnd::Refused(error) if error.is_retryable() => reply.clear(),
            QueueEnd::Refused(error) => {
                reply_error(&error, reply);
                return ANSWERED;
            }
            QueueEnd::RolledBack => return roll_back(server, reply),
        }
    }
}

/// Carries out the queue within the transaction of `WATCH`.
fn run_watched(
    server: &ServedDatabase,
    mut tx: Transaction<'static>,
    exec: &mut Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let before = ClientBefore::new(exec.client);
    let queue = run_queue_in(server, &mut tx, exec, reply);
    match before.unless_committed(queue.finish(tx), exec.client) {
        QueueEnd::Committed(epoch) => Outcome::Reply(epoch),
        QueueEnd::Refused(error) if error.is_retryable() => {
            server.count_watch_loss(&error);
            reply.clear();
            reply_nil(server, reply)
        }
        QueueEnd::Refused(error) => {
            reply_error(&error, reply);
            ANSWERED
        }
        QueueEnd::RolledBack => roll_back(server, reply),
    }
}

/// Properties of a client that queued requests change: `SELECT`, `CLIENT SETNAME`.
struct ClientBefore {
    database: u32,
    name: Box<[u8]>,
}

impl ClientBefore {
    fn new(client: &Client<ClientData>) -> Self {
        Self { database: client.database, name: client.name.clone() }
    }

    /// Takes the changes back unless the queue's transaction has committed.
    fn unless_committed(self, end: QueueEnd, client: &mut Client<ClientData>) -> QueueEnd {
        if !matches!(end, QueueEnd::Committed(_)) {
            (client.database, client.name) = (self.database, self.name);
        }
        end
    }
}

/// Replies that a watched key has changed.
fn reply_nil(server: &ServedDatabase, reply: &mut NewReply<'_>) -> Outcome {
    reply.write(|reply| reply.null_array());
    // The change may be of any epoch up to now.
    Outcome::Reply(server.db().epoch())
}

fn roll_back(server: &ServedDatabase, reply: &mut NewReply<'_>) -> Outcome {
    reply.fail("EXECABORT", "Transaction rolled back because a command failed (multi-rollback yes).");
    // The failure may rest on any epoch up to now.
    Outcome::Reply(server.db().epoch())
}

/// A queue whose commands have run.
struct RunQueue {
    /// Epoch that the replies of common commands rest on.
    epoch: Epoch,
    /// Error that ended the transaction.
    failed: Option<Error>,
    /// True if the transaction is given up because a command failed.
    is_rolled_back: bool,
}

/// End of a queue's transaction.
enum QueueEnd {
    Committed(Epoch),
    Refused(Error),
    RolledBack,
}

impl RunQueue {
    fn finish(self, tx: Transaction<'_>) -> QueueEnd {
        if let Some(error) = self.failed {
            return QueueEnd::Refused(error);
        }
        if self.is_rolled_back {
            return QueueEnd::RolledBack;
        }
        match tx.submit() {
            Ok(receipt) => QueueEnd::Committed(self.epoch.max(receipt.epoch())),
            Err(error) => QueueEnd::Refused(error),
        }
    }
}

/// Carries out all queued requests in a transaction, and writes the array of their replies.
fn run_queue_in(
    server: &ServedDatabase,
    tx: &mut Transaction<'_>,
    exec: &mut Exec<'_, ServedDatabase>,
    reply: &mut NewReply<'_>,
) -> RunQueue {
    let (mut failed, mut has_failed) = (None, false);
    let mut copied_bytes = 0;
    let now_millis = server.now_millis();
    let epoch = exec.call_each(reply, |_, mut call, command: &'static Command, reply| {
        let function = match command.function {
            CommandFunction::Data(function) => function,
            CommandFunction::Server(function) => match function(call, reply) {
                Outcome::Reply(epoch) => return epoch,
                outcome => {
                    debug_assert!(false, "Q1: {outcome:?} of a queued request");
                    return Epoch::ZERO;
                }
            },
        };
        if failed.is_some() {
            // The transaction has ended: the whole reply becomes an error, or the queue runs again.
            reply.write(|reply| reply.null());
            return Epoch::ZERO;
        }
        match run_in(server, tx, &mut call, function, now_millis, reply) {
            Ok(()) => {}
            // The command may have written before the error, so the transaction cannot go on.
            Err(CommandError::Engine(error)) => {
                failed = Some(error);
                reply.clear();
                reply.write(|reply| reply.null());
            }
            Err(_) => has_failed = true,
        }
        copied_bytes += call.client.own.copied_bytes;
        failed = failed.take().or_else(|| check_copies(copied_bytes).err());
        Epoch::ZERO
    });
    RunQueue { epoch, failed, is_rolled_back: has_failed && server.rolls_back() }
}

/// `WATCH key ..`: reads the rows of the keys in a transaction that stays open until `EXEC`.
pub(crate) fn watch(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    if call.client.is_queueing() {
        reply.fail("ERR", "WATCH inside MULTI is not allowed");
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
    let read = read_watched(server, &mut watch, database, loop_state.stripe, request);
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
    database: u32,
    stripe: u32,
    request: Request<'_>,
    now_millis: i64,
) {
    for _ in 0..REMOVAL_TRIES {
        let mut tx = server.db().begin();
        let mut keyspace = Keyspace::new(&mut tx, server.model(), database, stripe, now_millis);
        let read = request.iter().skip(1).try_for_each(|key| keyspace.summary(key).map(drop));
        match read.and_then(|()| tx.submit().map(drop)) {
            Err(error) if error.is_retryable() => {}
            _ => return,
        }
    }
}

fn read_watched(
    server: &ServedDatabase,
    watch: &mut Watch,
    database: u32,
    stripe: u32,
    request: Request<'_>,
) -> Result<(), Error> {
    let now_millis = server.now_millis();
    remove_expired(server, database, stripe, request, now_millis);
    let mut keyspace = Keyspace::new(&mut watch.tx, server.model(), database, stripe, now_millis);
    for key in request.iter().skip(1) {
        let expiry = keyspace.summary(key)?.and_then(|value| value.header.expiry_millis);
        watch.expiry_millis = watch.expiry_millis.into_iter().chain(expiry).min();
    }
    Ok(())
}

/// `UNWATCH`
pub(crate) fn unwatch(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    call.client.own.watch = None;
    reply.write(|reply| reply.simple("OK"));
    ANSWERED
}
