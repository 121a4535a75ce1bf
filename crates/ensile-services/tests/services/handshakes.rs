//! The commands that clients send at the start of a connection: names, versions, users, databases.

use ensile_services::pht::PersistentTable;

use crate::rig::{Rig, replies};

fn table(seed: u64) -> Rig<PersistentTable> {
    Rig::new(seed, PersistentTable::open)
}

/// Replies to a client that stays, and true if the server closed the connection.
fn told_and_closed(rig: &mut Rig<PersistentTable>, sent: &[u8]) -> (Vec<String>, bool) {
    let client = rig.connect();
    rig.clients().send(client, sent);
    rig.steps(300);
    let closed = rig.clients().has_closed(client);
    (replies(rig.clients().received_bytes(client)), closed)
}

#[test]
fn a_client_gives_itself_a_name_and_tells_its_library() {
    let mut rig = table(1);
    let said = rig.told(&[
        "CLIENT GETNAME",
        "CLIENT SETNAME one",
        "CLIENT GETNAME",
        "CLIENT SETINFO LIB-NAME lib(v1)",
        "client setinfo lib-ver 1.2.3",
        "HELLO 3 SETNAME two",
        "CLIENT GETNAME",
        "CLIENT SETNAME ",
        "CLIENT GETNAME",
    ]);
    assert_eq!(said[..5], ["-", "+OK", "one", "+OK", "+OK"]);
    assert!(said[5].contains("proto :3"), "{said:?}");
    assert_eq!(said[6..], ["two", "+OK", "-"], "an empty name is none");
}

#[test]
fn each_connection_has_an_id_of_its_own() {
    let mut rig = table(2);
    let said = [rig.told(&["CLIENT ID", "HELLO 2"]), rig.told(&["CLIENT ID"])];
    assert_ne!(said[0][0], said[1][0]);
    assert!(said[0][1].contains(&format!("id {}", said[0][0])), "{said:?}");
}

#[test]
fn what_is_wrong_with_a_name_or_a_subcommand_is_said() {
    let mut rig = table(3);
    let long = "x".repeat(1025);
    let mut bytes = Vec::new();
    for words in [
        &["CLIENT", "SETNAME", "two words"][..],
        &["CLIENT", "SETNAME", &long],
        &["CLIENT", "SETINFO", "LIB-COLOUR", "red"],
        &["CLIENT", "SETINFO", "LIB-NAME", "a b"],
        &["CLIENT", "SETNAME"],
        &["CLIENT", "KILL", "1"],
        &["CLIENT"],
        &["HELLO", "3", "SETNAME", "a\nb"],
        &["HELLO", "3", "COLOUR", "red"],
        &["HELLO", "3", "SETNAME"],
        &["CLIENT", "GETNAME"],
    ] {
        ensile_resp::encode_request(&mut bytes, words);
    }
    let (said, closed) = told_and_closed(&mut rig, &bytes);
    let wanted = [
        "!ERR Client names cannot contain spaces, newlines or special characters.",
        "!ERR Client names have 1024 bytes at most",
        "!ERR CLIENT SETINFO takes LIB-NAME or LIB-VER",
        "!ERR a library's name and version cannot contain spaces, newlines or special characters",
        "!ERR wrong number of arguments for 'client|setname' command",
        "!ERR unknown subcommand 'KILL' of CLIENT",
        "!ERR wrong number of arguments for 'client' command",
        "!ERR Client names cannot contain spaces, newlines or special characters.",
        "!ERR Syntax error in HELLO option 'COLOUR'",
        "!ERR Syntax error in HELLO option 'SETNAME'",
        "-",
    ];
    assert_eq!(said, wanted);
    assert!(!closed);
}

#[test]
fn database_0_is_taken_and_another_ends_the_connection() {
    for refused in ["1", "-1", "x", "0 0"] {
        let mut rig = table(4);
        let sent = format!("SELECT 0\r\nSET a 1\r\nSELECT {refused}\r\nSET b 1\r\n");
        let (said, closed) = told_and_closed(&mut rig, sent.as_bytes());
        assert_eq!(said[..2], ["+OK", "+OK"]);
        assert!(said.len() == 3 && said[2].starts_with("!ERR "), "{refused}: {said:?}");
        assert!(closed, "SELECT {refused}");
        assert_eq!(rig.told(&["MGET a b"]), ["[1 -]"], "nothing of another database is carried out");
    }
}

#[test]
fn a_user_is_refused_and_the_connection_ends() {
    for refused in [
        "AUTH secret",
        "AUTH",
        "AUTH default secret",
        "HELLO 3 AUTH default secret SETNAME a",
        "HELLO 3 AUTH",
    ] {
        let mut rig = table(5);
        let (said, closed) = told_and_closed(&mut rig, format!("{refused}\r\nSET a 1\r\n").as_bytes());
        assert!(said.len() == 1 && said[0].starts_with("!ERR "), "{refused}: {said:?}");
        assert!(closed, "{refused}");
        assert_eq!(rig.told(&["EXISTS a"]), [":0"], "{refused}");
    }
}
