//! The hash table: its commands, scans beside changes, and what a crash leaves.

use std::collections::BTreeSet;

use ensile_base::random::Random;
use ensile_objects::ObjectDurability;
use ensile_resp::encode_request;
use ensile_services::pht::PersistentTable;
use ensile_services::server::LIMITS;
use ensile_services::service::Service;
use ensile_sim::{SimDisk, Survival};

use crate::rig::{Rig, replies};

impl Rig<PersistentTable> {
    /// How many elements there are.
    pub(crate) fn service_elements(&self) -> u64 {
        self.service.figures().iter().find(|(name, _)| *name == "elements").expect("it is told").1
    }
}

fn table(seed: u64) -> Rig<PersistentTable> {
    Rig::new(seed, PersistentTable::open)
}

#[test]
fn its_commands_are_those_of_redis() {
    let mut rig = table(1);
    let talk = [
        ("GET a", "-"),
        ("SET a 1", "+OK"),
        ("get a", "1"),
        ("SET a 2 NX", "-"),
        ("SET b 2 XX", "-"),
        ("SET b 2 nx", "+OK"),
        ("SET a x IFEQ 2", "-"),
        ("SET a x IFEQ 1", "+OK"),
        ("SET none x IFEQ 1", "-"),
        ("SET a 1 EX 5", "!ERR syntax error"),
        ("SET a 1 NX XX", "!ERR syntax error"),
        ("SET a 1 IFEQ", "!ERR syntax error"),
        ("INCR a", "!ERR value is not an integer or out of range"),
        ("INCR b", ":3"),
        ("INCRBY b -10", ":-7"),
        ("INCRBY b x", "!ERR value is not an integer or out of range"),
        ("DECR new", ":-1"),
        ("INCRBY big 9223372036854775807", ":9223372036854775807"),
        ("INCR big", "!ERR increment or decrement would overflow"),
        ("GET big", "9223372036854775807"),
        ("MGET a b none new", "[x -7 - -1]"),
        ("EXISTS a a none", ":2"),
        ("STRLEN a", ":1"),
        ("STRLEN none", ":0"),
        ("DBSIZE", ":4"),
        ("DEL a none b a", ":2"),
        ("DBSIZE", ":2"),
        ("GET a", "-"),
        ("SCAN x", "!ERR invalid cursor"),
        ("SCAN -1", "!ERR invalid cursor"),
        ("SCAN 0 COUNT", "!ERR syntax error"),
        ("SCAN 0 COUNT 0", "!ERR syntax error"),
        ("SCAN 0 MATCH n* COUNT 10", "[0 [new]]"),
        ("SCAN 70000", "[0 []]"),
    ];
    let lines: Vec<&str> = talk.iter().map(|(line, _)| *line).collect();
    for ((line, wanted), said) in talk.iter().zip(rig.told(&lines)) {
        assert_eq!(said, *wanted, "{line}");
    }
    let long = format!("SET {} 1", "k".repeat(16_385));
    assert_eq!(rig.told(&[&long]), ["!ERR a key of 16385 bytes is longer than the limit of 16384"]);
}

#[test]
fn a_delete_that_the_log_stops_half_way_says_what_was_deleted() {
    let disk = SimDisk::new();
    let mut rig = Rig::with(&disk, 12, PersistentTable::open, LIMITS, ObjectDurability::Process);
    // Nothing is written, so no log buffer comes back: the next one needs a file, and there is no space for it.
    rig.keeps = false;
    let keys: Vec<String> = (0..60).map(|number| format!("{number:0>16000}")).collect();
    let sets: Vec<String> = keys.iter().map(|key| format!("SET {key} x")).collect();
    assert!(rig.told(&sets.iter().map(String::as_str).collect::<Vec<_>>()).iter().all(|said| said == "+OK"));
    disk.set_capacity(Some(disk.used_bytes()));
    let delete = format!("DEL none {}", keys.join(" "));
    let said = rig.told(&[&delete]);
    let left = rig.service_elements();
    assert!((1..60).contains(&left), "{left} of 60 are left");
    let (gone, done) = (60 - left, 61 - left);
    let begin =
        format!("!PARTLY {gone} deleted, by the first {done} of 61 keys, and lost if the machine fails now");
    assert!(said[0].starts_with(&begin), "{said:?}");
    let said = rig.told(&[&delete]);
    assert!(said[0].starts_with("!NOTKEPT "), "nothing was changed: {said:?}");
    disk.set_capacity(None);
    rig.keeps = true;
    rig.steps(100);
    assert_eq!(rig.told(&[&delete, "DBSIZE"]), [format!(":{left}"), ":0".to_owned()]);
}

#[test]
fn b4_a_server_tells_what_a_process_safe_life_left_that_another_boot_does_not_prove() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| Rig::with(disk, 1, PersistentTable::open, LIMITS, ObjectDurability::Process);
    let figure = |rig: &mut Rig<PersistentTable>| {
        let figures = rig.told(&["INFO"]).remove(0);
        figures.lines().find_map(|line| Some(line.strip_prefix("recovery_not_proven:")?.to_owned()))
    };
    let mut rig = open(&disk);
    assert_eq!(figure(&mut rig), None);
    rig.keeps = false;
    assert_eq!(rig.told(&["SET a 1", "SET b 2"]), ["+OK", "+OK"]);
    // All that was written is there, as the system may have written it out: what nobody has synced proves nothing.
    disk.crash_with(Survival::Everything, 1);
    drop(rig);
    let mut rig = open(&disk);
    assert_eq!(rig.told(&["DBSIZE"]), [":0"]);
    let told = figure(&mut rig).expect("is told");
    assert!(
        told.starts_with("results above epoch ") && told.contains("the operating system has started again"),
        "{told}"
    );
}

#[test]
fn a_scan_shows_what_is_there_all_the_while_exactly_once() {
    let mut rig = table(2);
    let mut random = Random::from_seed(2);
    let keys: Vec<String> = (0..2000).map(|number| format!("SET stays{number} x")).collect();
    rig.told(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut cursor, mut seen, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let client = rig.connect();
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &["SCAN", &cursor, "COUNT", "20"]);
        // Others come and go meanwhile.
        for _ in 0..20 {
            let key = format!("goes{}", random.next_below(500));
            let word = if random.percent(50) { "DEL" } else { "INCR" };
            encode_request(&mut bytes, &[word, &key]);
        }
        rig.clients().send(client, &bytes);
        rig.clients().end(client);
        rig.run("all is replied", |rig| rig.clients().has_closed(client));
        let said = replies(rig.clients().received_bytes(client)).remove(0);
        let (next, keys) = said.trim_matches(['[', ']']).split_once(" [").expect("a cursor and keys");
        for key in keys.split(' ').filter(|key| key.starts_with("stays")) {
            assert!(seen.insert(key.to_owned()), "{key} was shown twice");
        }
        next.clone_into(&mut cursor);
        steps += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 2000);
    assert!(steps > 50, "{steps} steps");
}

#[test]
fn what_was_confirmed_is_there_after_each_power_cut_once_and_in_order() {
    for seed in 0..60 {
        let disk = SimDisk::new();
        let mut random = Random::from_seed(seed);
        // Of each key: the values that it had, the last confirmed one first.
        let mut counters = [0_i64; 8];
        for life in 0..4 {
            let mut rig = Rig::on(&disk, seed ^ life << 32, PersistentTable::open, LIMITS);
            for (key, before) in counters.iter_mut().enumerate() {
                let said = rig.told(&[&format!("GET {key}")]);
                let now = if said[0] == "-" { 0 } else { said[0].parse().expect("a number") };
                assert!(now >= *before, "seed {seed}, life {life}: {key} was {before}, and is {now}");
                // What was not confirmed may be there, once: seven increments at most.
                assert!(now <= *before + 7, "seed {seed}, life {life}: {key} was {before}, and is {now}");
                *before = now;
            }
            if random.percent(50) {
                assert_eq!(rig.told(&["BGSAVE"]), ["+Background saving started"]);
            }
            let clients: Vec<_> = (0..counters.len()).map(|_| rig.connect()).collect();
            for (key, client) in clients.iter().enumerate() {
                let mut bytes = Vec::new();
                // Seven times up, and in between it is made anew as it is.
                (0..7).for_each(|_| encode_request(&mut bytes, &["INCR", &key.to_string()]));
                rig.clients().send(*client, &bytes);
            }
            for _ in 0..random.next_below(60) {
                rig.keeps = random.percent(70);
                rig.step();
            }
            for (counter, client) in counters.iter_mut().zip(&clients) {
                for said in replies(rig.clients().received_bytes(*client)) {
                    let confirmed: i64 = said[1..].parse().expect("a number");
                    assert_eq!(confirmed, *counter + 1, "each once, in order");
                    *counter = confirmed;
                }
            }
            drop(rig);
            disk.crash(seed ^ life);
        }
    }
}
