//! Scripts and procedures of many clients at once, and the end of endless scripts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ensile::Database;
use ensile_server::{
    ProcedureError, ReplyValue, RunningServer, Server, ServerBuilder, ServerConfig, TransportChoice,
};
use ensile_sim::SimDisk;

use super::rig::shown;
use super::threads::Connection;

fn running(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> RunningServer {
    let db = Database::in_memory().expect("a new database");
    let server = set(Server::builder(db)).build().expect("new tables");
    server.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port")
}

fn ask(client: &mut Connection, words: &[&str]) -> String {
    shown(&client.ask(words))
}

/// Moves one from an account to another. The sum of both accounts never changes.
const TRANSFER: &str = "local from = tonumber(redis.call('GET', KEYS[1]))
    redis.call('SET', KEYS[1], from - 1)
    redis.call('SET', KEYS[2], redis.call('GET', KEYS[2]) + 1)
    return redis.call('GET', KEYS[1]) + redis.call('GET', KEYS[2])";

#[test]
fn a_script_that_loses_runs_again_and_no_transfer_is_lost() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 200;
    let server = running(|builder| {
        builder.procedure("transfer", |call| {
            let &[from, to] = call.keys() else { return Err(ProcedureError::Reply("ERR keys".to_owned())) };
            call.command(&[b"DECRBY", from, b"1"])?;
            call.command(&[b"INCRBY", to, b"1"])
        })
    });
    let mut first = Connection::open(server.address());
    assert_eq!(ask(&mut first, &["MSET", "a", "5000", "b", "5000"]), "+OK");
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Connection::open(server.address());
                for _ in 0..ROUNDS {
                    assert_eq!(ask(&mut client, &["EVAL", TRANSFER, "2", "a", "b"]), ":10000");
                    assert!(ask(&mut client, &["FCALL", "transfer", "2", "a", "b"]).starts_with(':'));
                }
            });
        }
    });
    let moved = CLIENTS * ROUNDS * 2;
    let expected = format!("*2 $4 {} $4 {}", 5000 - moved, 5000 + moved);
    assert_eq!(ask(&mut first, &["MGET", "a", "b"]), expected);
    drop(first);
    server.stop().expect("a server without a log");
}

/// Scripts without an end, each after a write.
const ENDLESS: [&str; 7] = [
    "redis.call('SET','a','1') while true do end",
    "redis.call('SET','a','1') while true do pcall(function() while true do end end) end",
    "redis.call('SET','a','1') while true do xpcall(error, function() while true do end end) end",
    "redis.call('SET','a','1') local f = coroutine.wrap(function() while true do end end) while true do f() end",
    "redis.call('SET','a','1') while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "redis.call('SET','a','1') while true do coroutine.wrap(function() for i = 1, 900 do end end)() end",
    "redis.call('SET','a','1') local t = {} for i = 1, 15 do t = {t, t, t, t} end cmsgpack.pack(t)",
];

#[test]
fn a_script_beyond_the_limit_of_its_time_has_no_effect() {
    let server = running(|builder| builder.script_time_limit(Duration::from_millis(20)));
    let mut client = Connection::open(server.address());
    for script in ENDLESS {
        let reply = ask(&mut client, &["EVAL", script, "0"]);
        assert!(
            reply.starts_with("-ERR the script has run longer than script-time-limit (20 ms)"),
            "{reply}"
        );
    }
    assert_eq!(ask(&mut client, &["GET", "a"]), "$-1");
    drop(client);
    server.stop().expect("a server without a log");
}

/// True if a command was called once, without a conflict.
fn has_one_call(figures: &str, command: &str) -> bool {
    let begin = format!("cmdstat_{command}:calls=1,");
    let line = figures.split_whitespace().find(|line| line.starts_with(&begin));
    line.is_some_and(|line| line.ends_with(",conflicts=0"))
}

#[test]
fn a_script_that_ran_too_long_does_not_run_again_after_a_conflict() {
    let server = running(|builder| builder.script_time_limit(Duration::from_millis(100)));
    let address = server.address();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Some client is of the other loop, and changes the row that the script has read.
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let mut client = Connection::open(address);
                while !has_ended.load(Ordering::Relaxed) {
                    assert_eq!(ask(&mut client, &["SET", "a", "1"]), "+OK");
                }
            });
        }
        let mut client = Connection::open(address);
        let script = "redis.call('GET','a') while true do end";
        for words in [&["EVAL", script, "0"][..], &["MULTI"], &["EVAL", script, "0"], &["EXEC"]] {
            let reply = ask(&mut client, words);
            let is_right = match words[0] {
                "MULTI" => reply == "+OK",
                _ => reply == "+QUEUED" || reply.contains("has run longer than script-time-limit"),
            };
            assert!(is_right, "{reply}");
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    let figures = ask(&mut Connection::open(address), &["INFO", "commandstats"]);
    assert!(has_one_call(&figures, "eval"), "{figures}");
    assert!(has_one_call(&figures, "exec"), "{figures}");
    server.stop().expect("a server without a log");
}

/// Number of clients that write meanwhile. Some client is of the other loop.
const WRITERS: usize = 24;

/// A server with this number of loops, whose scripts are long after a millisecond. `play` gets the address.
fn with_busy_loops(loops: usize, db: Database, play: impl FnOnce(SocketAddr)) {
    let server = Server::builder(db)
        .busy_reply_threshold(Duration::from_millis(1))
        .script_time_limit(Duration::from_secs(100_000));
    let config = ServerConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        loops,
        transport: TransportChoice::Auto,
        tls: None,
        unix: None,
        idle: None,
        keepalive: None,
        client_memory: None,
        ended: None,
        ending: || (),
        tell: |_| {},
    };
    let (sender, listening) = mpsc::channel();
    let server = server.build().expect("new tables");
    let serving = std::thread::Builder::new().spawn(move || {
        server.serve(config, |ready| {
            sender.send((ready.address, ready.stop.clone())).map_err(std::io::Error::other)
        })
    });
    let serving = serving.expect("a thread");
    let (address, stop) = listening.recv().expect("a free port");
    play(address);
    stop.stop();
    serving.join().expect("no panic").expect("everything is durable");
}

#[test]
fn a_script_is_killed_from_a_connection_of_its_own_loop() {
    with_busy_loops(1, Database::in_memory().expect("a new database"), |address| {
        let mut other = Connection::open(address);
        for script in ENDLESS {
            std::thread::scope(|scope| {
                let running = scope.spawn(|| ask(&mut Connection::open(address), &["EVAL", script, "0"]));
                while !ask(&mut other, &["GET", "a"]).starts_with("-BUSY Redis is busy running a script.") {
                    std::thread::yield_now();
                }
                // A connection that begins during the script is served too.
                assert_eq!(ask(&mut Connection::open(address), &["SCRIPT", "KILL"]), "+OK", "{script}");
                let reply = running.join().expect("no panic");
                assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{reply}");
            });
        }
        assert_eq!(ask(&mut other, &["GET", "a"]), "$-1", "Q5: a killed script has no effect");
    });
}

#[test]
fn r1_durable_replies_of_other_loops_go_on_during_a_long_script() {
    let disk = Database::builder("/").disk(Arc::new(SimDisk::new()));
    with_busy_loops(2, disk.open().expect("the disk works"), |address| {
        std::thread::scope(|scope| {
            let endless = &["EVAL", "redis.call('SET','a','1') while true do end", "0"];
            let running = scope.spawn(|| ask(&mut Connection::open(address), endless));
            let is_busy = |client: &mut Connection| ask(client, &["GET", "b"]).starts_with("-BUSY");
            while !(0..WRITERS).any(|_| is_busy(&mut Connection::open(address))) {}
            let writer = (0..)
                .map(|_| Connection::open(address))
                .find_map(|mut client| (!is_busy(&mut client)).then_some(client));
            let mut writer = writer.expect("some connection is of the other loop");
            for number in 0..20 {
                assert_eq!(ask(&mut writer, &["SET", "b", &number.to_string()]), "+OK", "R1");
            }
            assert_eq!(ask(&mut writer, &["SCRIPT", "KILL"]), "+OK");
            assert!(running.join().expect("no panic").starts_with("-ERR Script killed"));
        });
    });
}

#[test]
fn a_procedure_is_one_transaction() {
    let server = running(|builder| {
        builder
            .procedure("write", |call| {
                let first = call.keys().first().copied().unwrap_or_default();
                call.command(&[b"SET", first, b"1"])?;
                match call.arguments() {
                    [] => {
                        Ok(ReplyValue::Array(vec![ReplyValue::Integer(1), ReplyValue::Bulk(b"x".to_vec())]))
                    }
                    [why, ..] => Err(ProcedureError::Reply(String::from_utf8_lossy(why).into_owned())),
                }
            })
            .procedure("read", |call| call.command(&[b"GET", b"a"]))
    });
    let mut client = Connection::open(server.address());
    let mut play = |words: &str, expected: &str| {
        assert_eq!(ask(&mut client, &words.split(' ').collect::<Vec<_>>()), expected, "{words}");
    };
    play("FCALL write 1 a refused", "-refused");
    play("GET a", "$-1");
    play("FCALL_RO write 1 a", "-ERR Write commands are not allowed from read-only scripts.");
    play("FCALL write 1 a", "*2 :1 $1 x");
    play("FCALL_RO read 0", "$1 1");
    play("FCALL write 2 a", "-ERR Number of keys can't be greater than number of args");
    drop(client);
    server.stop().expect("a server without a log");
}
