//! Passwords: commands before `AUTH`, limits before `AUTH`, and a password that changes.

use ensile_net::simulation::ClientId;

use super::rig::Rig;

fn with_password() -> Rig {
    Rig::with(|builder| builder.password(b"secret"))
}

#[test]
fn no_command_but_four_goes_before_the_password() {
    let mut rig = with_password();
    for command in [
        "GET k",
        "SET k v",
        "PING",
        "ECHO x",
        "MULTI",
        "EXEC",
        "DISCARD",
        "WATCH k",
        "UNWATCH",
        "SELECT 1",
        "CLIENT ID",
        "COMMAND",
        "CONFIG GET *",
        "CONFIG SET requirepass x",
        "INFO",
        "BGSAVE",
        "SHUTDOWN",
        "KEYS *",
        "FLUSHALL",
        "DBSIZE",
        "TIME",
        "ROLE",
        "LASTSAVE",
        "OBJECT HELP",
        "NONE",
        "GET",
        "SETBIT a 1 1",
    ] {
        rig.play(&format!("{command} | -NOAUTH Authentication required."));
    }
    rig.play(
        r"
        AUTH | -ERR wrong number of arguments for 'auth' command
        AUTH a b c | -ERR syntax error
        AUTH wrong | -WRONGPASS invalid username-password pair or user is disabled.
        AUTH other secret | -WRONGPASS invalid username-password pair or user is disabled.
        HELLO | -NOAUTH HELLO must be called..
        HELLO 3 | -NOAUTH HELLO must be called..
        HELLO 3 AUTH default wrong | -WRONGPASS invalid username-password pair or user is disabled.
        GET k | -NOAUTH Authentication required.
        AUTH secret | +OK
        GET k | $-1
        AUTH wrong | -WRONGPASS invalid username-password pair or user is disabled.
        GET k | $-1
        RESET | +RESET
        GET k | -NOAUTH Authentication required.
        AUTH default secret | +OK
        GET k | $-1
        ",
    );
    let other = rig.connect();
    rig.play_as(other, "HELLO 3 AUTH default secret SETNAME me | %7 ..\nCLIENT GETNAME | $2 me\nGET k | _");
    let last = rig.connect();
    rig.play_as(last, "QUIT | +OK");
    rig.steps(5);
    assert!(rig.clients().has_closed(last), "QUIT ends the connection");
}

#[test]
fn a_server_without_a_password_tells_so() {
    let mut rig = Rig::new();
    rig.play(
        r"
        AUTH x | -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        AUTH default x | +OK
        AUTH other x | -WRONGPASS invalid username-password pair or user is disabled.
        HELLO 9 | -NOPROTO unsupported protocol version
        HELLO x | -ERR Protocol version is not an integer or out of range
        HELLO 2 BOGUS | -ERR Syntax error in HELLO option 'BOGUS'
        HELLO 2 AUTH default | -ERR Syntax error in HELLO option 'AUTH'
        HELLO 2 SETNAME a\sb | -ERR Client names cannot contain spaces, newlines or special characters.
        HELLO | *14 $6 server $5 redis $7 version..
        ",
    );
}

#[test]
fn a_password_holds_from_its_setting_on() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play_as(other, "SET k v | +OK");
    rig.play("CONFIG SET requirepass secret | +OK\nCONFIG GET requirepass | *2 $11 requirepass $8 (hidden)");
    rig.play_as(other, "GET k | -NOAUTH Authentication required.\nAUTH secret | +OK\nGET k | $1 v");
    rig.play_as(other, "CONFIG SET requirepass '' | +OK");
    rig.play("GET k | $1 v\nCONFIG GET requirepass | *2 $11 requirepass $0");
}

#[test]
fn a_client_from_before_the_password_gives_the_password() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play_as(other, "AUTH default x | +OK\nPING | +PONG");
    rig.play("CONFIG SET requirepass '' | +OK");
    let third = rig.connect();
    rig.play_as(third, "CONFIG SET requirepass secret | +OK\nPING | +PONG");
    for client in [rig.client, other] {
        rig.play_as(client, "PING | -NOAUTH Authentication required.\nAUTH secret | +OK\nPING | +PONG");
    }
}

#[test]
fn a_password_that_no_client_can_give_is_refused() {
    let mut rig = Rig::new();
    let longest = "p".repeat(ensile_server::PASSWORD_BYTES_MAX);
    rig.play(&format!("CONFIG SET requirepass {longest}p | -ERR CONFIG SET failed..\nPING | +PONG"));
    rig.play(&format!("CONFIG SET requirepass {longest} | +OK"));
    let other = rig.connect();
    rig.play_as(
        other,
        &format!("PING | -NOAUTH Authentication required.\nAUTH {longest} | +OK\nPING | +PONG"),
    );
    let db = ensile::Database::in_memory().expect("a new database");
    let refused = ensile_server::Server::builder(db).password(&[b'p'; 16_385]).build().expect_err("too long");
    assert!(refused.to_string().contains("16384 bytes"), "{refused}");
}

/// Sends bytes, and returns the reply of a connection that must end.
fn refused(rig: &mut Rig, client: ClientId, bytes: &[u8]) -> String {
    rig.clients().send(client, bytes);
    rig.steps(20);
    assert!(rig.clients().has_closed(client), "a request beyond the limits ends the connection");
    String::from_utf8_lossy(rig.clients().received_bytes(client)).into_owned()
}

#[test]
fn requests_before_the_password_are_small() {
    let mut rig = with_password();
    let client = rig.connect();
    let reply = refused(&mut rig, client, b"*11\r\n");
    assert!(reply.starts_with("-ERR Protocol error") && reply.contains("10 arguments"), "{reply}");
    let client = rig.connect();
    let reply = refused(&mut rig, client, b"*2\r\n$4\r\nAUTH\r\n$16385\r\n");
    assert!(reply.starts_with("-ERR Protocol error") && reply.contains("16384 bytes"), "{reply}");
    let client = rig.connect();
    let largest = vec![b'x'; 16 << 10];
    let mut words = vec![&b"AUTH"[..]];
    words.extend([&largest[..]; 9]);
    assert_eq!(
        rig.ask_bytes(client, &words),
        b"-ERR syntax error\r\n",
        "ten arguments of 16 KiB are permitted"
    );
    rig.play_as(client, "AUTH secret | +OK");
    let value = vec![b'v'; 1 << 20];
    assert_eq!(
        rig.ask_bytes(client, &[b"SET", b"k", &value]),
        b"+OK\r\n",
        "the limits end with the password"
    );
    rig.play_as(client, "RESET | +RESET");
    let reply = refused(&mut rig, client, b"*11\r\n");
    assert!(reply.contains("-ERR Protocol error"), "a stranger again");
}

#[test]
fn requests_behind_the_password_in_one_packet_are_carried_out() {
    let mut rig = with_password();
    let client = rig.client;
    for words in [&[&b"GET"[..], b"k"][..], &[b"AUTH", b"secret"], &[b"SET", b"k", b"v"], &[b"GET", b"k"]] {
        rig.send(client, words);
    }
    rig.steps(20);
    let replies: Vec<_> = (0..4).map(|_| rig.received(client).expect("four replies")).collect();
    assert_eq!(
        replies.concat(),
        b"-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n$1\r\nv\r\n",
        "each request is judged at its turn"
    );
}
