//! Commands of operators that wait for the disk or tell of keys: `SAVE`, `WAITAOF`, `MEMORY`, `COMMAND`.

use ensile_server::Appendfsync;
use ensile_sim::SimDisk;

use super::rig::{Rig, shown};

/// Steps within which a checkpoint of a small database is complete.
const CHECKPOINT_STEPS: usize = 10_000;

#[test]
fn save_replies_behind_its_checkpoint_and_holds_up_nobody_else() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, |builder| builder);
    let saver = rig.connect();
    rig.play("SET k v | +OK");
    rig.send(saver, &[b"SAVE"]);
    rig.send(saver, &[b"GET", b"k"]);
    rig.steps(50);
    assert_eq!(rig.received(saver), None, "the checkpoint has not run");
    rig.play("GET k | $1 v");
    let mut steps = 0;
    let reply = loop {
        assert!(steps < CHECKPOINT_STEPS, "the checkpoint ends");
        steps += 1;
        rig.server.database().checkpoint_step(0);
        rig.step();
        if let Some(reply) = rig.received(saver) {
            break shown(&reply);
        }
    };
    assert_eq!(reply, "+OK");
    let installed = rig.server.database().stats().checkpoints.map(|checkpoints| checkpoints.installed);
    assert_eq!(installed, Some(1));
    rig.steps(10);
    assert_eq!(rig.received(saver).as_deref().map(shown).as_deref(), Some("$1 v"));
}

#[test]
fn save_without_a_folder_and_in_a_queue_is_refused() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SAVE | -ERR a database without a folder has no checkpoints..
        SAVE x | -ERR wrong number of arguments for 'save' command
        MULTI | +OK
        SAVE | -ERR Command not allowed inside a transaction
        EXEC | -EXECABORT Transaction discarded because of previous errors.
        ",
    );
}

#[test]
fn waitaof_waits_for_the_disk_whatever_appendfsync_says() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder.appendfsync(Appendfsync::Everysec));
    let client = rig.connect();
    rig.syncs = false;
    rig.play_as(client, "SET k v | +OK");
    rig.play_as(client, "WAITAOF 1 0 20 | *2 :0 :0\nWAITAOF 0 0 0 | *2 :0 :0");
    rig.send(client, &[b"WAITAOF", b"1", b"0", b"0"]);
    rig.steps(200);
    assert_eq!(rig.received(client), None, "the change is not durable");
    rig.play("GET k | $1 v");
    rig.syncs = true;
    rig.steps(200);
    assert_eq!(rig.received(client).as_deref().map(shown).as_deref(), Some("*2 :1 :0"));
}

#[test]
fn waitaof_refuses_wrong_numbers() {
    Rig::on(&SimDisk::new(), |builder| builder).play(
        r"
        WAITAOF 2 0 0 | -ERR value is out of range, value must between 0 and 1
        WAITAOF x 0 0 | -ERR value is not an integer or out of range
        WAITAOF 1 -1 0 | -ERR value is out of range, must be positive
        WAITAOF 1 1 0 | -ERR WAITAOF for replicas is not available in this version of ensile
        WAITAOF 1 0 x | -ERR timeout is not an integer or out of range
        WAITAOF 1 0 -1 | -ERR timeout is negative
        ",
    );
    Rig::new().play(
        r"
        WAITAOF 1 0 0 | -ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
        WAITAOF 0 0 0 | *2 :0 :0
        ",
    );
}

#[test]
fn memory_usage_adds_the_lengths_of_rows() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MEMORY USAGE none | $-1
        SET k v | +OK
        MEMORY USAGE k | :31
        SET k 0123456789 | +OK
        MEMORY USAGE k SAMPLES 0 | :40
        MEMORY USAGE k SAMPLES | -ERR syntax error
        MEMORY USAGE k SAMPLES -1 | -ERR syntax error
        MEMORY USAGE k SAMPLES x | -ERR value is not an integer or out of range
        MEMORY DOCTOR | -ERR MEMORY DOCTOR is not available in this version of ensile
        MEMORY STATS | -ERR MEMORY STATS is not available in this version of ensile
        MEMORY FOO | -ERR unknown subcommand 'FOO'. Try MEMORY HELP.
        ",
    );
    for at in 0..100 {
        rig.play(&format!("HSET hash field:{at:03} 0123456789 | :1\nSADD set member:{at:03} | :1"));
    }
    // Each row has two numbers of eight bytes beside the field and the value. The key's row comes on top.
    for (key, element_bytes) in [("hash", 16 + 9 + 10), ("set", 16 + 10)] {
        for samples in ["0", "7"] {
            let told = rig.ask(rig.client, &format!("MEMORY USAGE {key} SAMPLES {samples}"));
            let bytes: usize = told.trim_start_matches(':').parse().expect("a number");
            let of_key = 12 + key.len() + 17 + 1;
            assert_eq!(bytes, of_key + 100 * element_bytes, "{key} {samples}");
        }
    }
}

#[test]
fn command_tells_the_keys_of_a_request_and_the_names() {
    Rig::new().play(
        r"
        COMMAND GETKEYS MSET a 1 b 2 | *2 $1 a $1 b
        COMMAND GETKEYS OBJECT ENCODING k | *1 $1 k
        COMMAND GETKEYS GET | -ERR Invalid number of arguments specified for command
        COMMAND GETKEYS PING | -ERR The command has no key arguments
        COMMAND GETKEYS NONE x | -ERR Invalid command specified
        COMMAND LIST FILTERBY PATTERN hget* | *2 $4 hget $7 hgetall
        COMMAND LIST FILTERBY MODULE x | -ERR COMMAND LIST takes FILTERBY PATTERN and a pattern, or nothing
        ",
    );
}

#[test]
fn lines_of_http_end_the_connection() {
    for (begin, password) in [("POST / HTTP/1.1", ""), ("Host: localhost", ""), ("Host: localhost", "secret")]
    {
        let mut rig = Rig::with(|builder| builder.password(password.as_bytes()));
        let (page, other) = (rig.connect(), rig.connect());
        rig.clients().send(page, format!("{begin}\r\nSET k v\r\n").as_bytes());
        rig.steps(20);
        let reply = rig.received(page).as_deref().map(shown).expect("a refusal");
        assert!(reply.starts_with("-ERR this is no HTTP server"), "{reply}");
        assert_eq!(rig.received(page), None, "the second line is not carried out");
        if !password.is_empty() {
            rig.play_as(other, "AUTH secret | +OK");
        }
        rig.play_as(other, "EXISTS k | :0");
        rig.clients().end(page);
        rig.steps(20);
        assert!(rig.clients().has_closed(page), "{begin}");
    }
}

#[test]
fn info_has_the_names_that_monitoring_reads() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    rig.play(
        "SET a 1 | +OK
SET a 2 | +OK",
    );
    let text = rig.ask(rig.client, "INFO");
    for name in [
        "run_id",
        "blocked_clients",
        "latest_fork_usec:0",
        "rdb_bgsave_in_progress:0",
        "rdb_last_bgsave_time_sec:-1",
        "rdb_last_cow_size:0",
        "current_cow_peak:0",
        "current_save_keys_processed:0",
        "current_save_keys_total:0",
        "aof_enabled:1",
        "master_replid",
        "master_repl_offset:0",
        "cluster_enabled:0",
        "cmdstat_set:calls=2,usec=",
        "used_memory_rss",
        "used_memory_peak_human",
        "mem_fragmentation_ratio",
        "maxclients",
        "rdb_changes_since_last_save",
        "rdb_current_bgsave_time_sec:-1",
        "aof_rewrite_in_progress:0",
        "aof_delayed_fsync:0",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "instantaneous_ops_per_sec",
        "expired_keys:0",
        "keyspace_hits:0",
        "keyspace_misses:0",
        "used_cpu_user",
        "db0:keys=1,expires=0,avg_ttl=0",
    ] {
        assert!(text.contains(&format!(" {name}")), "{name}: {text}");
    }
}

/// A figure of `INFO`.
fn figure(rig: &mut Rig, name: &str) -> String {
    let text = rig.ask(rig.client, "INFO");
    let begin = format!(" {name}:");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no {name}: {text}"));
    rest.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn info_counts_reads_of_keys_and_removals_of_expired_keys() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET a 1 PX 100 | +OK
        SET b 1 PX 100 | +OK
        HSET h f v | :1
        GET a | $1 1
        GET none | $-1
        EXISTS a none none | :1
        HGET h f | $1 v
        GET h | -WRONGTYPE..
        INCR h | -WRONGTYPE..
        SET c 1 | +OK
        WATCH a none | +OK
        MULTI | +OK
        GET c | +QUEUED
        EXEC | *1 $1 1
        EVAL return(redis.call('get','c')) 0 | $1 1
        ",
    );
    assert_eq!(figure(&mut rig, "keyspace_hits"), "6");
    assert_eq!(figure(&mut rig, "keyspace_misses"), "3");
    rig.pass(200);
    rig.play("GET a | $-1");
    assert_eq!(figure(&mut rig, "expired_keys"), "1");
    rig.server.sweep().expect("it removes rows");
    assert_eq!(figure(&mut rig, "expired_keys"), "2");
    assert_eq!(figure(&mut rig, "keyspace_misses"), "4");
}

#[test]
fn info_counts_errors_and_refusals_of_a_command() {
    let mut rig = Rig::new();
    rig.play(
        r"
        LPUSH l x | :1
        GET l | -WRONGTYPE..
        GET | -ERR wrong number of arguments for 'get' command
        GET l m | -ERR wrong number of arguments for 'get' command
        ",
    );
    let line = figure(&mut rig, "cmdstat_get");
    assert!(line.starts_with("calls=1,usec=0,usec_per_call=0.00,"), "the clock stands: {line}");
    assert!(line.ends_with(",rejected_calls=2,failed_calls=1,conflicts=0"), "{line}");
}

#[test]
fn info_counts_changes_since_the_last_checkpoint() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    rig.play("SET a 1 | +OK");
    rig.steps(20);
    let before: u64 = figure(&mut rig, "rdb_changes_since_last_save").parse().expect("a number");
    assert!(before > 0);
    rig.play("BGSAVE | +Background saving started");
    while figure(&mut rig, "rdb_saves") == "0" {
        rig.server.database().checkpoint_step(0);
        rig.step();
    }
    assert_eq!(figure(&mut rig, "rdb_changes_since_last_save"), "0");
}

#[test]
fn info_has_the_requests_and_bytes_of_the_last_second() {
    let mut rig = Rig::new();
    rig.pass(1000);
    for _ in 0..50 {
        rig.play("PING | +PONG");
    }
    rig.pass(1000);
    let rate: u64 = figure(&mut rig, "instantaneous_ops_per_sec").parse().expect("a number");
    assert!((30..=50).contains(&rate), "50 requests in more than a second: {rate}");
    let received: u64 = figure(&mut rig, "total_net_input_bytes").parse().expect("a number");
    assert!(received >= 50 * 14, "each PING has 14 bytes: {received}");
    rig.pass(1000);
    rig.pass(1000);
    assert_eq!(figure(&mut rig, "instantaneous_ops_per_sec"), "0");
}

#[test]
fn the_slow_log_has_slow_requests_and_exec() {
    let mut rig = Rig::new();
    let long = "x".repeat(200);
    rig.play(&format!(
        r"
        CONFIG GET slowlog* | *4 $23 slowlog-log-slower-than $5 10000 $15 slowlog-max-len $3 128
        SLOWLOG LEN | :0
        CONFIG SET slowlog-log-slower-than 0 | +OK
        CLIENT SETNAME me | +OK
        KEYS {long} | *0
        GET k | $-1
        MULTI | +OK
        PING | +QUEUED
        EXEC | *1 +PONG
        CONFIG SET slowlog-log-slower-than -1 | +OK
        KEYS * | *0
        "
    ));
    let told = rig.ask(rig.client, "SLOWLOG GET -1");
    let (exec, keys) = (told.find("EXEC").expect("EXEC"), told.find("KEYS").expect("KEYS"));
    assert!(exec < keys && told.contains(&format!("{}... (72 more bytes)", "x".repeat(128))), "{told}");
    assert!(told.contains("$2 me") && !told.contains("GET"), "{told}");
    rig.play(
        r"
        SLOWLOG GET -2 | -ERR count should be greater than or equal to -1
        SLOWLOG GET 0 | *0
        CONFIG SET slowlog-max-len 1 | +OK
        SLOWLOG LEN | :1
        SLOWLOG RESET | +OK
        SLOWLOG LEN | :0
        CONFIG SET slowlog-max-len -1 | -ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and 65536 inclusive
        CONFIG SET slowlog-log-slower-than x | -ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument couldn't be parsed into an integer
        ",
    );
}
