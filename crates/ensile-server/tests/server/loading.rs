//! A server that listens while its database is loaded: refusals, progress, and connections that go on.

use super::rig::Rig;

#[test]
fn requests_over_data_are_refused_until_the_data_is_loaded() {
    let mut rig = Rig::loading(|builder| builder.password(b"secret"));
    let loading = "-LOADING Redis is loading the dataset in memory";
    rig.play(&format!(
        r"
        GET k | -NOAUTH Authentication required.
        AUTH secret | +OK
        GET k | {loading}
        SET k v | {loading}
        GET | -ERR wrong number of arguments for 'get' command
        WATCH k | {loading}
        KEYS * | {loading}
        DBSIZE | {loading}
        CONFIG GET * | {loading}
        BGSAVE | {loading}
        LASTSAVE | {loading}
        PING | +PONG
        SELECT 1 | +OK
        CLIENT SETNAME me | +OK
        MULTI | +OK
        PING | +QUEUED
        EXEC | *1 +PONG
        MULTI | +OK
        SET k v | {loading}
        EXEC | -EXECABORT Transaction discarded because of previous errors.
        MULTI | +OK
        PING | +QUEUED
        "
    ));
    let other = rig.connect();
    rig.play_as(other, "AUTH secret | +OK");
    let info = rig.ask(other, "INFO");
    assert!(info.contains("loading:1") && info.contains("loading_loaded_perc:0.00"), "{info}");
    assert!(!info.contains("# Epochs"), "{info}");
    rig.load();
    // The connection, its database and its queue go on.
    rig.play(
        r"
        SET k v | +QUEUED
        EXEC | *2 +PONG +OK
        GET k | $1 v
        CLIENT GETNAME | $2 me
        SELECT 0 | +OK
        GET k | $-1
        ",
    );
    let info = rig.ask(other, "INFO persistence");
    assert!(info.contains("loading:0"), "{info}");
}
