//! Requests that would wait are set aside: for another thread's turn, for log space.

use std::sync::mpsc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile::Database;

use super::rig::{Rig, shown};

/// A thread that has a turn until the drop.
pub(crate) struct OthersTurn {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OthersTurn {
    pub(crate) fn begin(db: &Database) -> Self {
        let (db, (end, ended), (tell, begun)) = (db.clone(), mpsc::channel(), mpsc::channel());
        let thread = std::thread::Builder::new().spawn(move || {
            let mut request = db.request_turn(Duration::from_secs(10), Waker::noop());
            let turn = request.try_begin(Waker::noop()).expect("an open database").expect("the only turn");
            tell.send(()).expect("the test waits");
            let _: Result<(), mpsc::RecvError> = ended.recv();
            drop(turn);
        });
        let thread = thread.expect("the system has a thread");
        begun.recv().expect("the turn begins");
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for OthersTurn {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread has no panic");
        }
    }
}

#[test]
fn in_anothers_turn_a_write_is_set_aside_and_everybody_else_is_served() {
    let mut rig = Rig::new();
    let (writer, other) = (rig.client, rig.connect());
    rig.play("SET a 1 | +OK");
    let turn = OthersTurn::begin(rig.server.database());
    rig.send(writer, &[b"INCR", b"a"]);
    rig.send(writer, &[b"GET", b"a"]);
    rig.steps(20);
    assert_eq!(rig.received(writer), None, "the write waits, and the later request of its client");
    rig.play_as(other, "GET a | $1 1");
    drop(turn);
    rig.steps(20);
    let replies = [rig.received(writer), rig.received(writer)];
    assert_eq!(replies.map(|reply| shown(&reply.expect("both are served"))), [":2", "$1 2"]);
}

#[test]
fn a_watched_exec_that_is_set_aside_keeps_its_transaction() {
    for (between, reply) in [(None, "*2 :2 :3"), (Some("SET a 5"), "*-1")] {
        let mut rig = Rig::new();
        let (watcher, other) = (rig.client, rig.connect());
        rig.play("SET a 1 | +OK\nWATCH a | +OK\nMULTI | +OK\nINCR a | +QUEUED\nINCR a | +QUEUED");
        if let Some(write) = between {
            rig.play_as(other, &format!("{write} | +OK"));
        }
        let turn = OthersTurn::begin(rig.server.database());
        rig.send(watcher, &[b"EXEC"]);
        rig.steps(20);
        drop(turn);
        rig.steps(20);
        assert_eq!(rig.received(watcher).map(|reply| shown(&reply)).as_deref(), Some(reply));
        let left = if between.is_some() { "$1 5" } else { "$1 3" };
        rig.play(&format!("GET a | {left}"));
    }
}

#[test]
fn a_select_of_an_exec_that_is_set_aside_counts_once() {
    let mut rig = Rig::new();
    rig.play("MULTI | +OK\nSET a 1 | +QUEUED\nSELECT 1 | +QUEUED\nSET b 2 | +QUEUED");
    let turn = OthersTurn::begin(rig.server.database());
    let client = rig.client;
    rig.send(client, &[b"EXEC"]);
    rig.steps(20);
    assert_eq!(rig.received(client), None);
    drop(turn);
    rig.steps(20);
    assert_eq!(rig.received(client).map(|reply| shown(&reply)).as_deref(), Some("*3 +OK +OK +OK"));
    rig.play("GET b | $1 2\nGET a | $-1\nSELECT 0 | +OK\nGET a | $1 1\nGET b | $-1");
}

#[test]
fn a_client_that_ends_while_its_request_is_set_aside_leaves_nothing() {
    let mut rig = Rig::new();
    let turn = OthersTurn::begin(rig.server.database());
    let gone = rig.connect();
    rig.send(gone, &[b"SET", b"a", b"1"]);
    rig.steps(20);
    rig.clients().vanish(gone);
    rig.steps(20);
    drop(turn);
    rig.steps(20);
    rig.play("GET a | $-1\nSET a 2 | +OK\nGET a | $1 2");
}
