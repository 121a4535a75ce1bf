//! Agreement of the commands on the state: numbers, types and elements of all keys of all databases.
//!
//! Neighbours: the targets ask for the agreement behind their requests.

use std::collections::BTreeSet;

use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};

use super::{Served, Words};

/// Number of databases of a server.
const DATABASES: usize = 16;

/// An owned reply. Errors, and types that no look at the state has, are `Other`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Double(f64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Other(String),
}

impl Value {
    fn of(reply: Reply<'_>) -> Self {
        match reply {
            Reply::Null => Self::Null,
            Reply::Integer(number) => Self::Integer(number),
            Reply::Double(number) => Self::Double(number),
            Reply::Bulk(bytes) | Reply::Simple(bytes) | Reply::Verbatim(_, bytes) => {
                Self::Bytes(bytes.to_vec())
            }
            Reply::Array(replies) | Reply::Set(replies) | Reply::Map(replies) => {
                Self::List(replies.map(Self::of).collect())
            }
            other => Self::Other(format!("{other:?}")),
        }
    }

    fn bytes(&self) -> &[u8] {
        let Self::Bytes(bytes) = self else { panic!("no string: {self:?}") };
        bytes
    }

    fn list(&self) -> &[Value] {
        let Self::List(list) = self else { panic!("no list: {self:?}") };
        list
    }

    fn length(&self) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as i64,
            other => other.list().len() as i64,
        }
    }
}

fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A request about a key; `K` stands for the key.
fn of_key(line: &str, key: &[u8]) -> Words {
    line.split(' ').map(|word| if word == "K" { key.to_vec() } else { word.as_bytes().to_vec() }).collect()
}

/// The request for a whole value of a type.
fn whole_value(kind: &[u8]) -> &'static str {
    match kind {
        b"string" => "GET K",
        b"list" => "LRANGE K 0 -1",
        b"hash" => "HGETALL K",
        b"set" => "SMEMBERS K",
        b"zset" => "ZRANGE K 0 -1 WITHSCORES",
        b"stream" => "XRANGE K - +",
        other => panic!("a type {other:?}"),
    }
}

/// Database, key, and value of a key.
pub(crate) type Content = (usize, Vec<u8>, Value);

impl Served {
    /// All keys and values, once they are durable. No key has an expiry.
    pub(crate) fn contents(&mut self) -> Vec<Content> {
        self.ask_new(&[words("CONFIG SET appendfsync always")]);
        let mut all = Vec::new();
        for database in 0..DATABASES {
            let mut keys = self.keys(database);
            keys.sort();
            for key in keys {
                let told = self.look(database, vec![of_key("TYPE K", &key)]).expect("the server lives");
                let request = of_key(whole_value(told[0].bytes()), &key);
                let told = self.look(database, vec![request]).expect("the server lives");
                all.extend(told.into_iter().map(|value| (database, key.clone(), value)));
            }
        }
        all
    }

    /// Asks in a database, by the third version of the protocol.
    fn look(&mut self, database: usize, requests: Vec<Words>) -> Option<Vec<Value>> {
        let count = requests.len();
        let mut all = vec![words("HELLO 3"), words(&format!("SELECT {database}"))];
        all.extend(requests);
        let replies = self.ask_new(&all);
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        let values = replies.iter().skip(2).map(|reply| {
            let decoded = decoder.decode(reply).expect("a reply is RESP").expect("a reply is whole");
            Value::of(decoded.reply())
        });
        let values: Vec<Value> = values.collect();
        (values.len() == count).then_some(values)
    }

    /// Compares the commands' replies about all keys. The clients have their replies.
    ///
    /// # Panics
    /// Two commands disagree, or a command has panicked.
    pub(crate) fn check_agreement(&mut self) {
        if self.has_ended {
            return;
        }
        let info = self.look(0, vec![words("INFO stats")]).expect("the server lives");
        let info = String::from_utf8_lossy(info[0].bytes()).into_owned();
        assert!(info.contains("panicked_commands:0\r"), "a command has panicked: {info}");
        for database in 0..DATABASES {
            self.check_database(database);
        }
    }

    fn keys(&mut self, database: usize) -> Vec<Vec<u8>> {
        let keys = self.look(database, vec![words("KEYS *")]).expect("the server lives");
        keys[0].list().iter().map(|key| key.bytes().to_vec()).collect()
    }

    fn check_database(&mut self, database: usize) {
        // Keys with an expiry may end between two looks.
        let persisted = self.keys(database).iter().map(|key| of_key("PERSIST K", key)).collect();
        self.look(database, persisted);
        self.server.sweep().expect("the sweeper has the database alone");
        let keys: BTreeSet<Vec<u8>> = self.keys(database).into_iter().collect();
        let whole = vec![words("DBSIZE"), words("KEYS *"), words("SCAN 0 COUNT 100000"), words("RANDOMKEY")];
        let whole = self.look(database, whole).expect("the server lives");
        assert_eq!(whole[0], Value::Integer(keys.len() as i64), "DBSIZE counts each key once");
        assert_eq!(whole[1].length(), keys.len() as i64, "KEYS has each key once");
        let [cursor, scanned] = whole[2].list() else { panic!("SCAN replies two parts") };
        assert_eq!(
            (cursor.bytes(), scanned.length()),
            (&b"0"[..], keys.len() as i64),
            "SCAN has each key once"
        );
        assert!(scanned.list().iter().all(|key| keys.contains(key.bytes())), "SCAN has the keys of KEYS");
        match &whole[3] {
            Value::Null => assert!(keys.is_empty(), "RANDOMKEY finds no key"),
            key => assert!(keys.contains(key.bytes()), "RANDOMKEY has another key"),
        }
        for key in &keys {
            self.check_key(database, key);
        }
    }

    fn check_key(&mut self, database: usize, key: &[u8]) {
        let requests = ["TYPE K", "EXISTS K", "PTTL K", "OBJECT ENCODING K", "MEMORY USAGE K"];
        let requests = requests.map(|line| of_key(line, key)).to_vec();
        let told = self.look(database, requests).expect("the server lives");
        assert_eq!(told[1..3], [Value::Integer(1), Value::Integer(-1)], "{key:?} is present, for ever");
        assert!(matches!(told[3], Value::Bytes(_)), "{key:?} has an encoding");
        assert!(matches!(told[4], Value::Integer(1..)), "{key:?} has memory");
        let kind = told[0].bytes();
        let lines: &[&str] = match kind {
            b"string" => &["STRLEN K", "GET K", "GETRANGE K 0 -1"],
            b"list" => &["LLEN K", "LRANGE K 0 -1", "LINDEX K 0", "LINDEX K -1"],
            b"hash" => &["HLEN K", "HGETALL K", "HKEYS K", "HVALS K", "HSCAN K 0 COUNT 100000"],
            b"set" => &["SCARD K", "SMEMBERS K", "SSCAN K 0 COUNT 100000"],
            b"zset" => &[
                "ZCARD K",
                "ZRANGE K 0 -1 WITHSCORES",
                "ZCOUNT K -inf +inf",
                "ZRANGEBYSCORE K -inf +inf",
                "ZREVRANGE K 0 -1",
                "ZSCAN K 0 COUNT 100000",
            ],
            b"stream" => &["XLEN K", "XRANGE K - +", "XREVRANGE K + -"],
            other => panic!("a type {other:?}"),
        };
        let requests = lines.iter().map(|line| of_key(line, key)).collect();
        let told = self.look(database, requests).expect("the server lives");
        let length = &told[0];
        let name = String::from_utf8_lossy(key);
        let counts = |value: &Value, group: i64| {
            let whole = Value::Integer(value.length() / group);
            assert_eq!(&whole, length, "{name} has one length");
        };
        if !matches!(kind, b"string" | b"stream") {
            assert_ne!(*length, Value::Integer(0), "{name} would be absent");
        }
        match kind {
            b"string" => {
                counts(&told[1], 1);
                assert_eq!(told[1], told[2], "{name} has one value");
            }
            b"list" => {
                counts(&told[1], 1);
                let items = told[1].list();
                assert_eq!((items.first(), items.last()), (Some(&told[2]), Some(&told[3])), "{name}");
            }
            b"hash" => {
                [(1, 2), (2, 1), (3, 1)].iter().for_each(|(at, group)| counts(&told[*at], *group));
                counts(&told[4].list()[1], 2);
                assert_eq!(as_set(&told[1], 2), as_set(&told[4].list()[1], 2), "{name} has one content");
            }
            b"set" => {
                counts(&told[1], 1);
                assert_eq!(as_set(&told[1], 1), as_set(&told[2].list()[1], 1), "{name} has one content");
                assert_eq!(
                    Value::Integer(as_set(&told[1], 1).len() as i64),
                    *length,
                    "{name}: a member twice"
                );
            }
            b"zset" => self.check_sorted_set(database, key, &told),
            _ => {
                counts(&told[1], 1);
                let mut entries = told[2].list().to_vec();
                entries.reverse();
                assert_eq!(told[1].list(), entries, "{name} has one order");
            }
        }
    }

    fn check_sorted_set(&mut self, database: usize, key: &[u8], told: &[Value]) {
        let name = String::from_utf8_lossy(key);
        let pairs: Vec<(&[u8], f64)> = told[1].list().iter().map(pair).collect();
        let length = Value::Integer(pairs.len() as i64);
        assert_eq!([&told[0], &told[2]], [&length, &length], "{name} has one length");
        let is_ordered = |pair: &[(&[u8], f64)]| (pair[0].1, pair[0].0) < (pair[1].1, pair[1].0);
        assert!(pairs.windows(2).all(is_ordered), "{name} is in order, with each member once");
        let mut reversed = told[4].list().to_vec();
        reversed.reverse();
        let members: Vec<Value> = pairs.iter().map(|(member, _)| Value::Bytes(member.to_vec())).collect();
        assert_eq!((told[3].list(), &reversed), (members.as_slice(), &members), "{name} has one order");
        assert_eq!(told[5].list()[1].length(), 2 * pairs.len() as i64, "{name} has one content");
        // A few members suffice: the counts of blocks are of all members before.
        let step = pairs.len().div_ceil(16).max(1);
        let places: Vec<usize> = (0..pairs.len()).step_by(step).collect();
        let requests = places.iter().flat_map(|at| {
            ["ZRANK", "ZSCORE"].map(|name| vec![name.into(), key.to_vec(), pairs[*at].0.to_vec()])
        });
        let told = self.look(database, requests.collect()).expect("the server lives");
        for (at, told) in places.iter().zip(told.chunks(2)) {
            let expected = [Value::Integer(*at as i64), Value::Double(pairs[*at].1)];
            assert_eq!(told, expected, "{name}: rank and score of place {at}");
        }
    }
}

/// The groups of a list's values, in one order.
fn as_set(value: &Value, group: usize) -> BTreeSet<Vec<&[u8]>> {
    value.list().chunks(group).map(|group| group.iter().map(Value::bytes).collect()).collect()
}

/// A member and its score.
fn pair(value: &Value) -> (&[u8], f64) {
    match value.list() {
        [member, Value::Double(score)] => (member.bytes(), *score),
        other => panic!("no member and score: {other:?}"),
    }
}
