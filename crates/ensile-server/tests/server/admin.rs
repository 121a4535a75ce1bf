//! Commands of operators: `CONFIG`, `INFO`, `COMMAND`, `TIME`, `ROLE`, `LASTSAVE`, checkpoints.

use ensile_server::simulation::BEGIN_MILLIS;
use ensile_sim::SimDisk;

use super::rig::Rig;

#[test]
fn parameters_are_told_by_pattern_and_set_together() {
    let mut rig = Rig::new();
    rig.play(
        r"
        CONFIG GET appendonly | *2 $10 appendonly $2 no
        CONFIG GET APPEND* databases | *6 $10 appendonly $2 no $11 appendfsync $6 always $9 databases $2 16
        CONFIG GET none | *0
        CONFIG GET | -ERR wrong number of arguments for 'config|get' command
        CONFIG SET multi-rollback YES appendfsync no | +OK
        CONFIG GET multi-rollback | *2 $14 multi-rollback $3 yes
        CONFIG SET appendfsync always multi-rollback maybe | -ERR CONFIG SET failed (possibly related to argument 'multi-rollback') - argument must be 'yes' or 'no'
        CONFIG GET appendfsync | *2 $11 appendfsync $2 no
        CONFIG SET appendfsync | -ERR wrong number of arguments for 'config|set' command
        CONFIG SET appendfsync no multi-rollback | -ERR syntax error
        CONFIG SET appendfsync no APPENDFSYNC no | -ERR CONFIG SET failed (possibly related to argument 'APPENDFSYNC') - duplicate parameter
        CONFIG SET none 1 | -ERR Unknown option or number of arguments for CONFIG SET - 'none'..
        CONFIG FOO | -ERR unknown subcommand 'FOO'. Try CONFIG HELP.
        CONFIG | -ERR wrong number of arguments for 'config' command
        CONFIG RESETSTAT | -ERR CONFIG RESETSTAT is not available in this version of ensile
        ",
    );
}

#[test]
fn errors_show_the_begin_of_a_long_text() {
    let mut rig = Rig::new();
    let long = "n".repeat(1000);
    let shown = "n".repeat(128);
    rig.play(&format!(
        "CONFIG SET {long} 1 | -ERR Unknown option or number of arguments for CONFIG SET - '{shown}..': .."
    ));
    rig.play(&format!("EXPIRE k 1 {long} | -ERR Unsupported option {shown}.."));
}

#[test]
fn the_server_tells_of_itself() {
    let mut rig = Rig::new();
    rig.play(
        r"
        ROLE | *3 $6 master :0 *0
        PING | +PONG
        PING x | $1 x
        PING x y | -ERR wrong number of arguments for 'ping' command
        ECHO x | $1 x
        BGSAVE | +Background saving started
        BGSAVE schedule | +Background saving started
        BGSAVE x | -ERR syntax error
        SHUTDOWN SAVE x | -ERR SHUTDOWN takes no such argument..
        FUNCTION FLUSH | +OK
        FUNCTION LOAD x | -ERR FUNCTION LOAD is not available in this version of ensile
        CLIENT FOO | -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
        COMMAND INFO get none | *2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *2 +@read +@fast *0 *1 *6 $5 flags *1 +RO $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 *-1
        COMMAND INFO object | *1 *10 $6 object..
        ",
    );
    let text = rig.ask(rig.client, "INFO server");
    assert!(text.contains("redis_version:7.0.15") && !text.contains("# Stats"), "{text}");
    let time = rig.ask(rig.client, "TIME");
    let seconds: u64 = time.split(' ').nth(2).and_then(|word| word.parse().ok()).expect("a number");
    assert!((BEGIN_MILLIS / 1000..BEGIN_MILLIS / 1000 + 60).contains(&seconds), "{time}");
}

#[test]
fn a_checkpoint_is_begun_by_a_command() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    rig.play(
        r"
        SET k v | +OK
        BGREWRITEAOF | +Background append only file rewriting started
        CONFIG GET appendonly | *2 $10 appendonly $3 yes
        ",
    );
    let text = rig.ask(rig.client, "INFO persistence");
    assert!(text.contains("aof_enabled:1") && text.contains("aof_last_write_status:ok"), "{text}");
}
