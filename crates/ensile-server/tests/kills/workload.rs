//! Transactions of a client over a few keys, and their record for the checker.
//!
//! All clients work on one block of keys, and go on to the next block together: lists stay short. Half of the
//! operations are on the first keys of a block, so clients conflict; `WATCH` is on the other keys.
//!
//! Invariant: a request without a reply has an unknown outcome. The server was killed.
//!
//! Neighbours: `lists` has the requests; `main` judges the records.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_sim::history::{Recorder, Trace};

use crate::connection::{Connection, Value, Words};
use crate::lists::{self, Operation, append_request, elements, read_request, takes_blind_appends};

/// Keys of a block, and the first of the keys with less work.
const KEYS: u64 = 64;
const COLD: u64 = 8;
/// Number of transactions on a block.
const PER_BLOCK: u64 = 1200;

/// State of all clients.
pub(crate) struct Run {
    pub(crate) clock: Clock,
    /// Number of sessions.
    pub(crate) sessions: u64,
    /// Number of begun transactions.
    pub(crate) begun: AtomicU64,
    /// Number of transactions with a reply.
    pub(crate) acknowledged: AtomicU64,
}

impl Run {
    /// The present block.
    fn block(&self) -> u64 {
        // Relaxed: a count; it orders nothing.
        self.begun.fetch_add(1, Ordering::Relaxed) / PER_BLOCK
    }
}

/// End of a transaction that was sent.
enum End {
    /// Replies of the reads, in order.
    Done(Vec<Value>),
    /// The transaction has no effect.
    Refused,
}

/// A client over all lives of the server.
pub(crate) struct Session<'r> {
    run: &'r Run,
    number: u64,
    random: Random,
    writes: u64,
    pub(crate) recorder: Recorder,
    /// Acknowledged appends: key and element.
    pub(crate) changes: Vec<(u64, u64)>,
    /// Numbers of acknowledged, refused and unknown transactions, by kind.
    pub(crate) ends: BTreeMap<&'static str, [u64; 3]>,
}

impl<'r> Session<'r> {
    pub(crate) fn new(run: &'r Run, seed: u64, number: u64) -> Self {
        Self {
            run,
            number,
            random: Random::from_seed(seed * 1000 + number),
            writes: 0,
            recorder: Recorder::new(number as u32),
            changes: Vec::new(),
            ends: BTreeMap::new(),
        }
    }

    /// Sends transactions until the server is killed.
    pub(crate) fn live(&mut self, address: SocketAddr) {
        let Ok(mut connection) = Connection::open(address) else { return };
        loop {
            let first = self.run.block() * KEYS;
            let sent = match self.random.next_below(100) {
                0..15 => self.single(&mut connection, first),
                15..40 => self.multi(&mut connection, first),
                40..60 => self.watch(&mut connection, first),
                60..80 => self.script(&mut connection, first, "EVAL", lists::SCRIPT),
                _ => self.script(&mut connection, first, "FCALL", lists::PROCEDURE),
            };
            if sent.is_err() {
                return;
            }
            if self.number == 0 && self.random.next_below(300) == 0 {
                // A reply of either kind: a checkpoint may be under way.
                let _ = connection.ask(&[vec![b"BGSAVE".to_vec()]]);
            }
        }
    }

    /// A value that no other append has.
    fn element(&mut self) -> u64 {
        self.writes += 1;
        self.writes * self.run.sessions + self.number
    }

    fn key(&mut self, first: u64) -> u64 {
        let keys = if self.random.percent(50) { COLD } else { KEYS };
        first + self.random.next_below(keys)
    }

    fn operation(&mut self, first: u64, is_blind: bool) -> Operation {
        let key = self.key(first);
        if self.random.percent(50) && (!is_blind || takes_blind_appends(key)) {
            Operation::Append(key, self.element())
        } else {
            Operation::Read(key)
        }
    }

    fn operations(&mut self, first: u64, is_blind: bool) -> Vec<Operation> {
        (0..self.random.next_between(1, 4)).map(|_| self.operation(first, is_blind)).collect()
    }

    /// Sends a transaction and records its end. `before` has reads that the transaction rests on, and `send` returns
    /// the replies to the reads of `operations`.
    fn transact(
        &mut self,
        kind: &'static str,
        before: &[(u64, Vec<u64>)],
        operations: &[Operation],
        send: impl FnOnce() -> io::Result<End>,
    ) -> io::Result<()> {
        let mut trace = self.recorder.begin(self.run.clock.nanos());
        let sent = send();
        let now = self.run.clock.nanos();
        before.iter().for_each(|(key, list)| trace.read_list(*key, list));
        let ends = self.ends.entry(kind).or_default();
        match sent {
            Ok(End::Done(replies)) => {
                ends[0] += 1;
                note(&mut trace, operations, Some(&replies));
                self.recorder.commit(trace, None, now);
                let appends = operations.iter().filter_map(|operation| match operation {
                    Operation::Append(key, element) => Some((*key, *element)),
                    Operation::Read(_) => None,
                });
                self.changes.extend(appends);
                // Relaxed: a count; it orders nothing.
                self.run.acknowledged.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(End::Refused) => {
                ends[1] += 1;
                note(&mut trace, operations, None);
                self.recorder.abort(trace, now);
                Ok(())
            }
            Err(error) => {
                ends[2] += 1;
                note(&mut trace, operations, None);
                self.recorder.unknown(trace, None, now);
                Err(error)
            }
        }
    }

    /// A single command.
    fn single(&mut self, connection: &mut Connection, first: u64) -> io::Result<()> {
        let operation = self.operation(first, true);
        self.transact("single commands", &[], &[operation], || {
            let reply = connection.ask(&[request(operation, 0)])?.remove(0);
            let is_read = matches!(operation, Operation::Read(_));
            Ok(End::Done(if is_read { vec![reply] } else { Vec::new() }))
        })
    }

    /// A queue without `WATCH`, sent at once or step by step.
    fn multi(&mut self, connection: &mut Connection, first: u64) -> io::Result<()> {
        let operations = self.operations(first, true);
        let is_at_once = self.random.percent(50);
        let requests = operations.iter().map(|operation| request(*operation, 0)).collect();
        self.transact("MULTI", &[], &operations, || execute(connection, requests, is_at_once, &operations))
    }

    /// `WATCH` of one or two keys, reads of the keys, and a queue that appends to them.
    fn watch(&mut self, connection: &mut Connection, first: u64) -> io::Result<()> {
        let mut keys = vec![first + self.random.next_between(COLD, KEYS - 1)];
        if self.random.percent(50) {
            keys.push(first + self.random.next_between(COLD, KEYS - 1));
            keys.dedup();
        }
        let mut words: Words = vec![b"WATCH".to_vec()];
        words.extend(keys.iter().map(|key| lists::name(*key).into_bytes()));
        let mut requests = vec![words];
        requests.extend(keys.iter().map(|key| read_request(*key)));
        let begin = self.run.clock.nanos();
        let replies = connection.ask(&requests)?;
        assert_eq!(replies[0], Value::Text("OK".to_owned()), "WATCH is never refused");
        let read = |(key, reply): (&u64, &Value)| (*key, elements(*key, reply));
        let before: Vec<(u64, Vec<u64>)> = keys.iter().zip(&replies[1..]).map(read).collect();
        let now = self.run.clock.nanos();
        // Each read is a transaction of its own, too.
        for (key, list) in &before {
            let mut trace = self.recorder.begin(begin);
            trace.read_list(*key, list);
            self.recorder.commit(trace, None, now);
        }
        let (mut operations, mut requests) = (Vec::new(), Vec::new());
        for (key, list) in &before {
            let append = Operation::Append(*key, self.element());
            requests.push(request(append, list.len()));
            operations.push(append);
        }
        if self.random.percent(50) {
            let more = self.operation(first, true);
            // The place of a further element of a watched key would be another.
            if !keys.contains(&key_of(more)) {
                requests.push(request(more, 0));
                operations.push(more);
            }
        }
        let is_at_once = self.random.percent(80);
        self.transact("WATCH", &before, &operations, || {
            execute(connection, requests, is_at_once, &operations)
        })
    }

    /// A script or a procedure.
    fn script(
        &mut self,
        connection: &mut Connection,
        first: u64,
        command: &'static str,
        called: &str,
    ) -> io::Result<()> {
        let operations = self.operations(first, false);
        let mut words: Words = vec![command.into(), called.into(), b"0".to_vec()];
        words.extend(operations.iter().flat_map(|operation| operation.words()));
        self.transact(command, &[], &operations, || match connection.ask(&[words])?.remove(0) {
            Value::List(replies) => Ok(End::Done(replies)),
            other => panic!("{command} replies {other:?}"),
        })
    }

    /// Reads every list that a client may have changed, and returns the lists.
    pub(crate) fn look_at_all(&mut self, address: SocketAddr) -> BTreeMap<u64, Vec<u64>> {
        let mut connection = Connection::open(address).expect("the server listens");
        let mut lists = BTreeMap::new();
        for block in 0..=self.run.block() {
            let operations: Vec<Operation> =
                (block * KEYS..(block + 1) * KEYS).map(Operation::Read).collect();
            let requests = operations.iter().map(|operation| request(*operation, 0)).collect();
            let mut seen = Vec::new();
            let looked = self.transact("last look", &[], &operations, || {
                let end = execute(&mut connection, requests, true, &operations)?;
                let End::Done(replies) = &end else { panic!("a queue of reads is refused") };
                seen = operations.iter().zip(replies).map(|(of, reply)| elements_of(*of, reply)).collect();
                Ok(end)
            });
            looked.expect("the server lives");
            lists.extend(seen);
        }
        lists
    }
}

fn key_of(operation: Operation) -> u64 {
    match operation {
        Operation::Read(key) | Operation::Append(key, _) => key,
    }
}

fn elements_of(operation: Operation, reply: &Value) -> (u64, Vec<u64>) {
    let key = key_of(operation);
    (key, elements(key, reply))
}

fn request(operation: Operation, length: usize) -> Words {
    match operation {
        Operation::Read(key) => read_request(key),
        Operation::Append(key, element) => append_request(key, element, length),
    }
}

/// Adds the operations to a trace. `replies` has the replies to the reads; without replies the reads are left out.
fn note(trace: &mut Trace, operations: &[Operation], replies: Option<&[Value]>) {
    let mut replies = replies.map(|replies| replies.iter());
    for operation in operations {
        match operation {
            Operation::Read(key) => {
                if let Some(replies) = &mut replies {
                    let reply = replies.next().expect("each read has a reply");
                    trace.read_list(*key, &elements(*key, reply));
                }
            }
            Operation::Append(key, element) => trace.append(*key, *element),
        }
    }
}

/// Sends a queue, and returns the replies to its reads.
fn execute(
    connection: &mut Connection,
    requests: Vec<Words>,
    is_at_once: bool,
    operations: &[Operation],
) -> io::Result<End> {
    let mut all = vec![vec![b"MULTI".to_vec()]];
    all.extend(requests);
    all.push(vec![b"EXEC".to_vec()]);
    let mut replies = if is_at_once {
        connection.ask(&all)?
    } else {
        let mut replies = Vec::new();
        for request in all {
            replies.extend(connection.ask(&[request])?);
        }
        replies
    };
    match replies.pop().expect("EXEC has a reply") {
        Value::Null => Ok(End::Refused),
        Value::List(all) => {
            assert!(all.iter().all(|reply| !matches!(reply, Value::Error(_))), "{operations:?}: {all:?}");
            let reads = operations.iter().zip(all).filter(|(of, _)| matches!(of, Operation::Read(_)));
            Ok(End::Done(reads.map(|(_, reply)| reply).collect()))
        }
        other => panic!("EXEC replies {other:?}"),
    }
}
