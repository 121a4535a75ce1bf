//! The stated conflicts: pairs of commands on one key of which the later commit loses to the earlier commit, or does
//! not. `docs/guide/redis.md` states the pairs.
//!
//! Neighbours: [`super::find`] has the functions; [`crate::model::elements`] has the rows that commands share.

use std::sync::Arc;

use ensile::{Database, ErrorKind, Transaction};
use ensile_net::LoopWakeUp;
use ensile_resp::{ReplyEncoder, RequestDecoder, RequestLimits, RespVersion, encode_request};
use ensile_serving::LoopMail;

use super::find;
use crate::blocking::LookTerms;
use crate::channels::LoopChannels;
use crate::command::CommandFunction;
use crate::commands::DataCall;
use crate::effects::Effects;
use crate::model::{Keyspace, Model};

/// A database with the larger hash `h`, the larger set `s`, the small hash `p` and the set `t`.
struct Contest {
    db: Database,
    model: Model,
}

/// Number of elements of `h` and of `s`: eight stripes.
const ELEMENTS: usize = 1500;

impl Contest {
    fn new() -> Self {
        let db = Database::in_memory().expect("a new database");
        let contest = Self { model: Model::open(&db, 7).expect("new tables"), db };
        for (command, value) in [("HSET h", " 1"), ("SADD s", "")] {
            let elements: String = (0..ELEMENTS).map(|number| format!(" f{number}{value}")).collect();
            contest.commit(&format!("{command}{elements}"));
        }
        contest.commit("HSET p f0 1 f1 1");
        contest.commit("SADD t f0 f1");
        contest
    }

    fn run(&self, tx: &mut Transaction<'_>, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let (mut bytes, mut replied) = (Vec::new(), Vec::new());
        encode_request(&mut bytes, &words);
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        let requests = decoder.decode(&bytes, 1);
        let request = requests.iter().next().expect("a request");
        let mail = Arc::new(LoopMail::new(LoopWakeUp::new(|| ())));
        let (mut effects, channels) = (Effects::default(), LoopChannels::new(&Arc::default(), &mail));
        let keyspace = Keyspace::new(tx, &self.model, &mut effects, 0, 0, 1);
        let command = find(words[0].as_bytes()).expect("a command");
        let CommandFunction::Data(function) = command.function else { panic!("{line}: a command over data") };
        let mut reply = ReplyEncoder::new(&mut replied, RespVersion::Resp2);
        let mut call = DataCall { keyspace, request, channels: &channels, look: LookTerms::WITHOUT_WAIT };
        function(&mut call, &mut reply).expect(line);
    }

    fn commit(&self, line: &str) {
        let mut tx = self.db.begin();
        self.run(&mut tx, line);
        tx.submit().expect(line);
    }

    /// True if `later` loses to `earlier`, which runs and commits before the commit of `later`.
    fn loses(&self, later: &str, earlier: &str) -> bool {
        let mut tx = self.db.begin();
        if let Some(key) = later.strip_prefix("WATCH ") {
            let mut effects = Effects::default();
            let mut keyspace = Keyspace::new(&mut tx, &self.model, &mut effects, 0, 0, 1);
            keyspace.watch(key.as_bytes()).expect("a read");
        } else {
            self.run(&mut tx, later);
        }
        self.commit(earlier);
        match tx.submit() {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{later}, {earlier}: {error}");
                true
            }
        }
    }

    /// The stripe of an element.
    fn stripe(&self, element: &str) -> u64 {
        self.model.key_hash(element.as_bytes()) >> 61
    }

    /// Elements that are there: two of one stripe, and one of another stripe.
    fn elements(&self) -> [String; 3] {
        let all: Vec<String> = (0..ELEMENTS).map(|number| format!("f{number}")).collect();
        let first = self.stripe(&all[0]);
        let same = all[1..].iter().find(|element| self.stripe(element) == first).expect("one of many");
        let other = all.iter().find(|element| self.stripe(element) != first).expect("one of many");
        [all[0].clone(), same.clone(), other.clone()]
    }
}

#[test]
fn commands_conflict_as_the_guide_states() {
    let contest = Contest::new();
    let [one, same, other] = contest.elements();
    let (one, same, other) = (one.as_str(), same.as_str(), other.as_str());
    // The key, a write of an element, and a command that names elements.
    for (key, write, read) in [("h", "HSET h {} 2", "HGET h {}"), ("s", "SREM s {}", "SISMEMBER s {}")] {
        let (write, read) =
            (|element: &str| write.replace("{}", element), |element: &str| read.replace("{}", element));
        let restore = |element: &str| {
            if key == "s" {
                contest.commit(&format!("SADD s {element}"));
            }
        };
        let pairs = [
            (read(one), write(one), true),
            (read(one), write(same), false),
            (read(one), write(other), false),
            (read(one), read(one), false),
            (write(one), write(same), true),
            (write(one), write(other), false),
        ];
        for (later, earlier, loses) in pairs {
            assert_eq!(contest.loses(&later, &earlier), loses, "{later}, {earlier}");
            [one, same, other].into_iter().for_each(restore);
        }
    }
    let writes = [
        ("h", format!("HSET h {one} 3")),
        ("h", format!("HINCRBY h {other} 1")),
        ("h", format!("HDEL h {same}")),
        ("s", format!("SREM s {same}")),
        ("s", "SADD s new".to_owned()),
        ("p", "HSET p f0 2".to_owned()),
        ("t", "SREM t f0".to_owned()),
    ];
    for (key, write) in writes {
        let is_hash = key == "h" || key == "p";
        let of_all: &[&str] = if is_hash {
            &["HLEN {}", "HGETALL {}", "HKEYS {}", "HSCAN {} 0 COUNT 10000", "WATCH {}"]
        } else {
            &[
                "SCARD {}",
                "SMEMBERS {}",
                "SINTER {} {}",
                "SUNIONSTORE u {}",
                "SRANDMEMBER {} 5000",
                "WATCH {}",
            ]
        };
        for read in of_all {
            let read = read.replace("{}", key);
            assert!(contest.loses(&read, &write), "Y1: {read} rests on each element: {write}");
            let restored =
                if is_hash { format!("HSET {key} f0 1 {same} 1") } else { format!("SADD {key} f0 {same}") };
            contest.commit(&restored);
            if key == "s" {
                contest.commit("SREM s new");
            }
        }
    }
    for (later, earlier) in
        [("SADD s f0", "SADD s f0"), ("SREM s none", "HGET h f0"), ("SADD s f0", "SCARD s")]
    {
        assert!(!contest.loses(later, earlier), "{later}, {earlier}: neither writes");
    }
    assert!(contest.loses("HGET p f0", "HSET p f1 2"), "a small hash is one row");
}

#[test]
fn commands_of_lists_conflict_as_the_guide_states() {
    let contest = Contest::new();
    let items: String = (0..500).map(|number| format!(" i{number}")).collect();
    contest.commit(&format!("RPUSH l{items}"));
    let pairs = [
        ("LPOP l", "RPUSH l x", false),
        ("LPOP l", "RPOP l", false),
        ("LPOP l", "LPOP l", true),
        ("LPOP l", "LPUSH l x", true),
        ("LPOP l", "LSET l 1 x", true),
        ("LPOP l", "LSET l -1 x", false),
        ("RPUSH l x", "LPOP l", true),
        ("LLEN l", "RPUSH l x", true),
        ("LREM l 0 none", "RPOP l", true),
        ("WATCH l", "LSET l 5 x", true),
        ("LINDEX l 3", "RPUSH l x", false),
        ("LINDEX l 3", "LPOP l", true),
        ("LINDEX l -3", "LPOP l", false),
        ("LRANGE l 0 9", "RPUSH l x", false),
        ("LRANGE l 0 -1", "RPUSH l x", true),
        ("LINDEX l 3", "LLEN l", false),
    ];
    for (later, earlier, loses) in pairs {
        assert_eq!(contest.loses(later, earlier), loses, "{later}, {earlier}");
    }
}

#[test]
fn commands_of_streams_conflict_as_the_guide_states() {
    let contest = Contest::new();
    (1..=500).for_each(|number| contest.commit(&format!("XADD x {number}-0 f v")));
    contest.commit("XADD other 1-0 f v");
    let pairs = [
        ("XADD x * f v", "XADD x * f v", true),
        ("XADD x * f v", "XADD other * f v", false),
        ("XADD x * f v", "XDEL x 3-0", false),
        ("XADD x * f v", "XTRIM x MAXLEN 490", false),
        ("XADD x MAXLEN 490 * f v", "XDEL x 40-0", true),
        ("XDEL x 41-0", "XADD x * f v", false),
        ("XDEL x 42-0", "XDEL x 43-0", true),
        ("XTRIM x MINID 30", "XADD x * f v", false),
        ("XRANGE x 100 110", "XADD x * f v", false),
        ("XRANGE x 100 110", "XDEL x 300-0", false),
        ("XRANGE x 100 110", "XDEL x 105-0", true),
        ("XRANGE x - + COUNT 5", "XADD x * f v", false),
        ("XRANGE x - +", "XADD x * f v", true),
        ("XREAD COUNT 5 STREAMS x 100", "XADD x * f v", false),
        ("XREAD STREAMS x 490", "XADD x * f v", true),
        ("XREAD STREAMS x 490", "XDEL x 120-0", false),
        ("XLEN x", "XADD x * f v", true),
        ("XLEN x", "XDEL x 121-0", true),
        ("XLEN x", "XADD other * f v", false),
        ("WATCH x", "XADD x * f v", true),
        ("WATCH x", "XDEL x 122-0", true),
    ];
    for (later, earlier, loses) in pairs {
        assert_eq!(contest.loses(later, earlier), loses, "{later}, {earlier}");
    }
}
