//! Rights of users: every command of the table, for every kind of client without the right, directly and in `MULTI`.

use std::collections::BTreeSet;

use ensile_server::User;
use ensile_server::simulation::{command_infos, is_harmless};
use ensile_serving::command::{CommandInfo, MoreKeys, Subcommand};

use super::rig::Rig;

/// A hash of `sesame` whose check is quick.
const HASH: &str = "#$argon2id$v=19$m=8,t=1,p=1$ZW5zaWxlc2FsdA$/3GpeUAKwFEbEoUPwT2HfX6nae9enhn0dbcgrVsYnqU";

fn user(name: &str, rules: &[&str]) -> User {
    User::new(name, rules).expect("known rules")
}

/// A server with the user `default` off, and with users.
fn with_users(users: Vec<User>) -> Rig {
    Rig::with(|builder| builder.users(users))
}

/// Commands without keys that show and change keys of others. A user with prefixes is refused.
const REFUSED_WITHOUT_KEYS: [&str; 50] = [
    "ACL|DELUSER",
    "ACL|DRYRUN",
    "ACL|GENPASS",
    "ACL|GETUSER",
    "ACL|LIST",
    "ACL|LOAD",
    "ACL|LOG",
    "ACL|SAVE",
    "ACL|SETUSER",
    "ACL|USERS",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT|CACHING",
    "CLIENT|KILL",
    "CLIENT|LIST",
    "CLIENT|NO-EVICT",
    "CLIENT|PAUSE",
    "CLIENT|TRACKING",
    "CLIENT|TRACKINGINFO",
    "CLIENT|UNBLOCK",
    "CLIENT|UNPAUSE",
    "CONFIG|GET",
    "CONFIG|RESETSTAT",
    "CONFIG|REWRITE",
    "CONFIG|SET",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB",
    "FUNCTION|FLUSH",
    "FUNCTION|LIST",
    "FUNCTION|LOAD",
    "MEMORY|DOCTOR",
    "MEMORY|MALLOC-STATS",
    "MEMORY|PURGE",
    "MEMORY|STATS",
    "PUBSUB|CHANNELS",
    "PUBSUB|NUMPAT",
    "PUBSUB|NUMSUB",
    "PUBSUB|SHARDCHANNELS",
    "PUBSUB|SHARDNUMSUB",
    "RANDOMKEY",
    "SAVE",
    "SCRIPT|DEBUG",
    "SCRIPT|FLUSH",
    "SCRIPT|KILL",
    "SHUTDOWN",
    "SLOWLOG|GET",
    "SLOWLOG|HELP",
    "SLOWLOG|LEN",
    "SLOWLOG|RESET",
];

/// Commands that every client may send, to become a user.
const FREE: [&str; 4] = ["AUTH", "HELLO", "QUIT", "RESET"];

fn is_missing(info: &CommandInfo) -> bool {
    info.summary.starts_with("Is refused: this server does not have")
}

/// A command, or a subcommand.
#[derive(Clone, Copy)]
struct Shape {
    info: &'static CommandInfo,
    subcommand: Option<&'static Subcommand>,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        command_infos().flat_map(|info| {
            let own = info.subcommands.is_empty() || info.arity == -1;
            let plain = own.then_some(Self { info, subcommand: None });
            let subs = info.subcommands.iter().map(move |one| Self { info, subcommand: Some(one) });
            plain.into_iter().chain(subs)
        })
    }

    fn name(self) -> String {
        match self.subcommand {
            Some(subcommand) => format!("{}|{}", self.info.name, subcommand.name),
            None => self.info.name.to_owned(),
        }
    }

    fn has_flag(self, flag: &str) -> bool {
        self.info.has_flag(flag) || self.subcommand.is_some_and(|one| one.flags.contains(&flag))
    }

    fn has_keys(self) -> bool {
        let places = [self.info.keys.0, self.subcommand.map_or(0, |one| one.keys.0)];
        places.iter().any(|first| *first != 0) || self.info.more_keys != MoreKeys::None
    }

    /// Requests with a valid number of arguments, each with `key` at one place of a key, and own keys elsewhere.
    fn requests(self, key: &str) -> Vec<Vec<String>> {
        let arity = self.subcommand.map_or(self.info.arity, |one| one.arity);
        let (first, last, step) = match self.subcommand {
            Some(one) if one.keys.0 != 0 => one.keys,
            _ => self.info.keys,
        };
        let begin = 1 + usize::from(self.subcommand.is_some());
        let mut length = usize::try_from(arity.abs()).expect("a small number");
        if let MoreKeys::Counted(at) = self.info.more_keys {
            // Two keys, and room for options behind.
            length = length.max(at + 3);
        }
        if self.info.more_keys == MoreKeys::BehindStreams {
            length = length.max(4);
        }
        if first != 0 && last < 0 {
            // Several keys, in whole steps.
            length += usize::try_from(step).expect("a small number");
        }
        let mut words: Vec<String> = vec![self.info.name.to_owned()];
        words.extend(self.subcommand.map(|one| one.name.to_owned()));
        words.resize(length.max(words.len()), "1".to_owned());
        let mut places: Vec<usize> = Vec::new();
        if first != 0 {
            let end = if last < 0 { length as i64 + last } else { last };
            places.extend((first..=end).step_by(step as usize).map(|at| at as usize));
        }
        match self.info.more_keys {
            MoreKeys::None => {}
            MoreKeys::Counted(at) => {
                words[at] = "2".to_owned();
                places.extend([at + 1, at + 2]);
            }
            MoreKeys::BehindStreams => {
                words[1] = "STREAMS".to_owned();
                words.truncate(2);
                words.extend(["1", "1", "0", "0"].map(str::to_owned));
                places.extend([2, 3]);
            }
        }
        for at in &places {
            assert!(*at >= begin, "a key of {} is an argument", self.name());
            words[*at] = "own:k".to_owned();
        }
        let with = |at: &usize| {
            let mut words = words.clone();
            words[*at] = key.to_owned();
            words
        };
        if places.is_empty() { vec![words] } else { places.iter().map(with).collect() }
    }
}

/// Sends a request, within `MULTI` if asked, and returns the reply. The transaction is dropped.
fn ask(rig: &mut Rig, words: &[String], is_queued: bool) -> String {
    let client = rig.client;
    if is_queued {
        assert_eq!(rig.ask(client, "MULTI"), "+OK");
    }
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let reply = super::rig::shown(&rig.ask_bytes(client, &words));
    if is_queued {
        let end = rig.ask(client, "EXEC");
        assert!(end.starts_with("-EXECABORT"), "{end}");
    }
    reply
}

#[test]
fn every_command_is_refused_without_the_right() {
    let admin = || user("admin", &["on", HASH, "~*", "+@all"]);
    let mut checked = BTreeSet::new();
    for is_queued in [false, true] {
        // A client without a user.
        let mut rig = with_users(vec![user("default", &["off"]), admin()]);
        for shape in Shape::all().filter(|shape| !FREE.contains(&shape.info.name)) {
            for words in shape.requests("own:k") {
                assert_eq!(ask(&mut rig, &words, false), "-NOAUTH Authentication required.", "{words:?}");
            }
        }
        // A user that may send `MULTI` and `EXEC` only.
        let mut rig = with_users(vec![user("default", &["on", "nopass", "~*", "+multi", "+exec"]), admin()]);
        for shape in Shape::all().filter(|shape| !FREE.contains(&shape.info.name)) {
            if ["MULTI", "EXEC"].contains(&shape.info.name) {
                continue;
            }
            for words in shape.requests("own:k") {
                let reply = ask(&mut rig, &words, is_queued);
                assert!(
                    reply.starts_with("-NOPERM this user has no permissions to run"),
                    "{words:?}: {reply}"
                );
            }
        }
        // A user that reads.
        let mut rig =
            with_users(vec![user("default", &["on", "nopass", "~*", "readonly", "+swapdb", "-@write"])]);
        for shape in Shape::all().filter(|shape| shape.has_flag("write") || shape.has_flag("admin")) {
            for words in shape.requests("own:k") {
                let reply = ask(&mut rig, &words, is_queued);
                assert!(
                    reply.starts_with("-NOPERM this user has no permissions to run"),
                    "{words:?}: {reply}"
                );
                checked.insert(shape.name());
            }
        }
        // A user with a prefix.
        let mut rig = with_users(vec![user("default", &["on", "nopass", "~own:*", "+@all"])]);
        for shape in Shape::all().filter(|shape| !FREE.contains(&shape.info.name) && !is_missing(shape.info))
        {
            let name = shape.name();
            if shape.has_keys() {
                for words in shape.requests("other:k") {
                    let reply = ask(&mut rig, &words, is_queued);
                    assert!(
                        reply.starts_with("-NOPERM this user has no permissions to access"),
                        "{words:?}: {reply}"
                    );
                    checked.insert(name.clone());
                }
                continue;
            }
            let is_permitted = is_harmless(&name);
            let by_argument =
                ["KEYS", "SCAN", "PUBLISH", "SPUBLISH", "SSUBSCRIBE", "SUBSCRIBE", "PSUBSCRIBE"]
                    .contains(&shape.info.name);
            assert!(
                is_permitted
                    || by_argument
                    || REFUSED_WITHOUT_KEYS.contains(&name.as_str())
                    || name == "SWAPDB",
                "{name} has no keys: give the table its keys, or review the command in `access/bounds.rs` and here"
            );
            if !is_permitted {
                for words in shape.requests("") {
                    let reply = ask(&mut rig, &words, is_queued);
                    assert!(reply.starts_with("-NOPERM"), "{words:?}: {reply}");
                    checked.insert(name.clone());
                }
            }
        }
    }
    assert!(checked.len() > 60, "{checked:?}");
}

#[test]
fn keys_of_every_place_count() {
    let mut rig = with_users(vec![user("default", &["on", "nopass", "~own:*", "~mine:*", "+@all"])]);
    let key = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    let pattern = "-NOPERM this user has no permissions to see all keys: give a pattern that begins with a prefix of the user";
    rig.play(&format!(
        r"
        SET own:a 1 | +OK
        MSET own:b 1 mine:c 2 | +OK
        MSET own:b 1 other 2 | {key}
        MGET own:a own | {key}
        RENAME own:a other | {key}
        COPY other own:d | {key}
        WATCH own:a other | {key}
        OBJECT ENCODING other | {key}
        OBJECT ENCODING own:a | $3 int
        TOUCH own:a other | {key}
        KEYS * | {pattern}
        KEYS own:[ab] | *2 ..
        SCAN 0 | {pattern}
        SCAN 0 COUNT 100 MATCH o* | {pattern}
        SCAN 0 MATCH own:* MATCH * | {pattern}
        SCAN 0 COUNT 100 MATCH mine:* | *2 $1 0 *1 $6 mine:c
        FLUSHALL | -NOPERM this user has no permissions to run the 'flushall' command
        RANDOMKEY | -NOPERM this user has no permissions to run the 'randomkey' command
        CONFIG GET x | -NOPERM this user has no permissions to run the 'config|get' command
        GET | -ERR wrong number of arguments for 'get' command
        "
    ));
    let info = rig.ask(rig.client, "INFO");
    assert!(info.contains("# Epochs") && !info.contains("# Keyspace"), "{info}");
}

#[test]
fn a_queue_is_checked_again_for_the_user_at_exec() {
    let users = || {
        vec![
            user("default", &["off"]),
            user("admin", &["on", HASH, "~*", "+@all"]),
            user("reader", &["on", HASH, "~*", "readonly"]),
        ]
    };
    let mut rig = with_users(users());
    rig.play(
        r"
        AUTH admin sesame | +OK
        ACL WHOAMI | $5 admin
        MULTI | +OK
        SET k 1 | +QUEUED
        GET k | +QUEUED
        AUTH reader sesame | +OK
        EXEC | *2 -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand $-1
        SET k 1 | -NOPERM this user has no permissions to run the 'set' command
        AUTH admin wrong | -WRONGPASS invalid username-password pair or user is disabled.
        ACL WHOAMI | $6 reader
        AUTH none sesame | -WRONGPASS invalid username-password pair or user is disabled.
        HELLO 3 AUTH admin sesame | %7 ..
        SET k 1 | +OK
        RESET | +RESET
        GET k | -NOAUTH Authentication required.
        AUTH sesame | -WRONGPASS invalid username-password pair or user is disabled.
        ",
    );
}

#[test]
fn a_check_of_a_password_holds_up_nobody_else() {
    let mut rig =
        with_users(vec![user("default", &["on", "nopass", "~*", "+@all"]), user("app", &["on", HASH])]);
    let (waiting, gone) = (rig.connect(), rig.connect());
    for client in [waiting, gone] {
        rig.send(client, &[b"AUTH", b"app", b"sesame"]);
        rig.send(client, &[b"ACL", b"WHOAMI"]);
    }
    rig.clients().vanish(gone);
    rig.play("SET k v | +OK");
    rig.steps(20);
    let replies = [rig.received(waiting), rig.received(waiting)]
        .map(|reply| super::rig::shown(&reply.expect("two replies")));
    assert_eq!(replies[0], "+OK");
    assert_eq!(replies[1], "-NOPERM this user has no permissions to run the 'acl|whoami' command");
}

#[test]
fn users_are_told_without_their_hashes() {
    let mut rig = with_users(vec![user("app", &["on", HASH, "~app:*", "-@all", "+@read", "+client|id"])]);
    rig.play(
        r"
        ACL LIST | *2 $52 user app on #(hidden) ~app:* -@all +@read +client|id $31 user default on nopass ~* +@all
        ACL USERS | *2 $3 app $7 default
        ACL GETUSER none | $-1
        ACL GETUSER app | *12 $5 flags *1 $2 on $9 passwords *1 $8 (hidden) $8 commands $23 -@all +@read +client|id $4 keys $6 ~app:* $8 channels $6 &app:* $9 selectors *0
        ACL CAT none | -ERR Unknown category 'none'
        ACL CAT transaction | *5 ..
        ACL CAT stream | *12 $4 xadd ..
        ACL SETUSER app on | -ERR ACL SETUSER is not available in this version of ensile..
        ACL FOO | -ERR unknown subcommand 'FOO'. Try ACL HELP.
        ACL | -ERR wrong number of arguments for 'acl' command
        ",
    );
}

#[test]
fn a_script_has_the_rights_of_its_user() {
    let mut rig = with_users(vec![user("app", &["on", "nopass", "~app:*", "+@all", "-incr"])]);
    rig.play("SET other 1 | +OK\n AUTH app x | +OK");
    let client = rig.client;
    let mut eval = |script: &str| {
        let reply = rig.ask_bytes(client, &[b"EVAL", script.as_bytes(), b"0"]);
        String::from_utf8_lossy(&reply).into_owned()
    };
    assert_eq!(eval("return redis.call('SET', 'app:a', '1')"), "+OK\r\n");
    let of_key = "-NOPERM The user executing the script can't access at least one of the keys mentioned";
    let of_command = "-NOPERM The user executing the script can't run this command or subcommand";
    for (script, refusal) in [
        ("return redis.call('GET', 'other')", of_key),
        ("return redis.call('MGET', 'app:a', 'other')", of_key),
        ("return redis.pcall('SET', 'other', '2')", of_key),
        ("return redis.call('INCR', 'app:a')", of_command),
        ("return redis.call('DBSIZE')", of_command),
        ("return redis.call('FLUSHALL')", of_command),
        ("return redis.call('KEYS', '*')", of_key),
        ("return coroutine.wrap(function() return redis.call('GET', 'other') end)()", of_key),
    ] {
        let reply = eval(script);
        assert!(reply.starts_with(refusal), "{script}: {reply}");
    }
    rig.play("EVAL return 1 other | -NOPERM this user has no permissions to access one of the keys..");
    rig.play("MULTI | +OK");
    assert_eq!(rig.ask_bytes(client, &[b"EVAL", b"return redis.call('GET','other')", b"0"]), b"+QUEUED\r\n");
    rig.play("EXEC | *1 -NOPERM The user executing the script can't access ..");
}
