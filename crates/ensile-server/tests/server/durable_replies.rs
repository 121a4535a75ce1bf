//! R1: a reply goes out once the epoch that it rests on is durable, a reply to a read included.

use ensile_net::simulation::ClientId;
use ensile_server::Appendfsync;
use ensile_sim::SimDisk;

use super::rig::{Rig, shown};

/// Sends a request whose reply must not come while the disk does not sync.
fn send(rig: &mut Rig, client: ClientId, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    rig.send(client, &words);
    rig.steps(50);
}

#[test]
fn figures_do_not_wait_for_the_disk() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    let writer = rig.connect();
    rig.play("SET a 1 | +OK");
    rig.syncs = false;
    send(&mut rig, writer, "SET k new");
    assert_eq!(rig.received(writer), None, "the write is not durable");
    rig.play("INFO keyspace | $44 # Keyspace db0:keys=2,expires=0,avg_ttl=0");
    assert_eq!(rig.received(writer), None, "the write is not durable");
}

#[test]
fn no_reply_goes_out_before_its_epoch_is_durable() {
    let of_value = [
        "SET k new",
        "GET k",
        "EXISTS k",
        "DEL k",
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "INCR n",
        "INCR k",
        "TTL k",
        "MGET k none",
        "FLUSHDB",
        "TYPE k",
        "SET k x NX",
        "GETEX k EX 0",
    ];
    let of_absence = [
        "GET k",
        "EXISTS k",
        "DEL k",
        "DBSIZE",
        "KEYS *",
        "SCAN 0",
        "TTL k",
        "MGET k",
        "TYPE k",
        "SET k x XX",
        "RENAME k l",
        "PERSIST k",
    ];
    let writes = [("SET k newest", &of_value[..]), ("DEL k", &of_absence[..])];
    for (write, request) in
        writes.into_iter().flat_map(|(write, all)| all.iter().map(move |one| (write, *one)))
    {
        let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
        let (writer, reader) = (rig.connect(), rig.connect());
        rig.play("SET k old | +OK\nPING | +PONG");
        rig.syncs = false;
        send(&mut rig, writer, write);
        assert_eq!(rig.received(writer), None, "the write is not durable");
        send(&mut rig, reader, request);
        assert_eq!(rig.received(reader), None, "{write}, {request}: rests on an epoch that is not durable");
        send(&mut rig, reader, "PING");
        assert_eq!(rig.received(reader), None, "replies keep the order of requests");
        assert!(rig.server.deferred_count() >= 2, "{}", rig.server.deferred_count());
        // Replies that rest on no data do not wait.
        rig.play("PING | +PONG\nMULTI | +OK\nDISCARD | +OK\nCONFIG GET appendfsync | *2..\nTIME | *2..");
        rig.syncs = true;
        rig.steps(200);
        assert!(rig.received(writer).is_some(), "{write}: the reply comes when the epoch is durable");
        let reply = rig.received(reader).map(|reply| shown(&reply));
        assert!(reply.is_some(), "{request}: the reply comes when the epoch is durable");
        if request == "GET k" {
            let expected = if write == "DEL k" { "$-1" } else { "$6 newest" };
            assert_eq!(reply.as_deref(), Some(expected), "requests ran meanwhile");
        }
        assert_eq!(rig.received(reader).as_deref().map(shown).as_deref(), Some("+PONG"));
    }
}

#[test]
fn replies_of_exec_wait_too() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    let (writer, reader, rolled) = (rig.connect(), rig.connect(), rig.connect());
    rig.play("SET k old | +OK");
    rig.play_as(reader, "WATCH k | +OK");
    rig.syncs = false;
    send(&mut rig, writer, "SET k newest");
    rig.play_as(reader, "MULTI | +OK\nPING | +QUEUED");
    send(&mut rig, reader, "EXEC");
    assert_eq!(rig.received(reader), None, "nil tells of a change that is not durable");
    rig.play("CONFIG SET multi-rollback yes | +OK");
    rig.play_as(rolled, "MULTI | +OK\nINCR k | +QUEUED");
    send(&mut rig, rolled, "EXEC");
    assert_eq!(rig.received(rolled), None, "the error tells of a value that is not durable");
    rig.syncs = true;
    rig.steps(200);
    assert_eq!(rig.received(reader).as_deref().map(shown).as_deref(), Some("*-1"));
    assert!(rig.received(rolled).is_some_and(|reply| reply.starts_with(b"-EXECABORT")));
}

#[test]
fn config_set_appendfsync_changes_only_which_replies_wait() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, |builder| builder.appendfsync(Appendfsync::Everysec));
    let (first, second) = (rig.connect(), rig.connect());
    rig.play("CONFIG GET appendfsync | *2 $11 appendfsync $8 everysec");
    rig.syncs = false;
    rig.play("SET a 1 | +OK\nGET a | $1 1\nCONFIG SET appendfsync always | +OK");
    send(&mut rig, first, "SET b 1");
    assert_eq!(rig.received(first), None, "replies wait from now on");
    rig.play("CONFIG SET appendfsync no | +OK\nSET c 1 | +OK\nGET b | $1 1");
    assert_eq!(rig.received(first), None, "a reply that waits goes on waiting");
    rig.play("CONFIG SET appendfsync ALWAYS | +OK");
    send(&mut rig, second, "GET c");
    assert_eq!(rig.received(second), None, "a read waits");
    rig.syncs = true;
    rig.steps(200);
    assert_eq!(rig.received(first).as_deref().map(shown).as_deref(), Some("+OK"));
    assert_eq!(rig.received(second).as_deref().map(shown).as_deref(), Some("$1 1"));
    drop(rig);
    let mut again = Rig::on(&disk, |builder| builder);
    again.play("MGET a b c | *3 $1 1 $1 1 $1 1");
}
