//! The way from redis to this server: an append-only file without a preamble through `redis-cli --pipe`, and a
//! comparison of each key.
//!
//! `bash ci/redis-migration.sh [KEYS]` moves a million keys. `ENSILE_REDIS` is the address of redis, `ENSILE_KEYS` the
//! number of keys, and `ENSILE_SERVER` the address of a server without keys in place of a server in this program.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_server::{RunningServer, Server};
use ensile_sim::environment::count;

use super::redis::are_alike;
use super::rig::shown;
use super::threads::Connection;

type Words = Vec<Vec<u8>>;

/// Number of keys that are asked for at once.
const BATCH: u64 = 1000;
/// Databases with keys.
const DATABASES: [u64; 2] = [0, 3];
/// Time in milliseconds since 1970 after which keys expire: in the year 2096.
const EXPIRY_MILLIS: u64 = 4_000_000_000_000;

fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Bytes of any kind, numbers and empty strings among them.
fn value(random: &mut Random) -> Vec<u8> {
    match random.next_below(100) {
        0..30 => random.next_below(1 << 40).to_string().into_bytes(),
        30..32 => Vec::new(),
        at => {
            let length = if at == 99 { random.next_between(500, 6000) } else { random.next_between(1, 40) };
            let mut bytes = vec![0; length as usize];
            random.fill(&mut bytes);
            bytes
        }
    }
}

/// Requests that make a key of a number: the types in turn, one key in ten with an expiry, some keys with binary names.
fn made(number: u64, has_streams: bool) -> Vec<Words> {
    let mut random = Random::from_seed(number);
    let names = ["SET", "HSET", "RPUSH", "SADD", "ZADD", "XADD"];
    let command = names[(number % if has_streams { 6 } else { 5 }) as usize];
    let mut key = format!("{command}:{number}:").into_bytes();
    if random.percent(10) {
        key.extend(random.next_u64().to_le_bytes());
    }
    let elements = match random.next_below(10_000) {
        0..100 => random.next_between(100, 600),
        100 => 5000,
        _ => random.next_between(1, 8),
    };
    let mut request: Words = vec![command.into(), key.clone()];
    let mut requests = Vec::new();
    match command {
        "SET" => request.push(value(&mut random)),
        "XADD" => {
            // An entry has a request of its own.
            for entry in 1..elements.min(300) {
                let id = format!("{}-{}", 1000 + entry, random.next_below(3));
                requests.push(vec![
                    command.into(),
                    key.clone(),
                    id.into(),
                    b"f".to_vec(),
                    value(&mut random),
                ]);
            }
            request.extend([b"9999-1".to_vec(), b"last".to_vec(), value(&mut random)]);
        }
        _ => {
            for element in 0..elements {
                match command {
                    "HSET" => request.push([value(&mut random), element.to_string().into()].concat()),
                    "ZADD" => request.push(score(&mut random)),
                    _ => {}
                }
                request.push(value(&mut random));
            }
        }
    }
    requests.push(request);
    if number.is_multiple_of(10) || random.percent(5) {
        let time = EXPIRY_MILLIS + random.next_below(1 << 40);
        requests.push(vec![b"PEXPIREAT".to_vec(), key, time.to_string().into()]);
    }
    requests
}

fn score(random: &mut Random) -> Vec<u8> {
    match random.next_below(20) {
        0 => b"inf".to_vec(),
        1 => b"-inf".to_vec(),
        2..10 => (random.unit() * 1e6).to_string().into_bytes(),
        10 => b"1e17".to_vec(),
        _ => random.next_below(1000).to_string().into_bytes(),
    }
}

/// Sends requests at once, and returns the replies.
fn ask_all(connection: &mut Connection, requests: &[Words]) -> Vec<Vec<u8>> {
    requests.iter().for_each(|request| connection.send(request));
    requests.iter().map(|_| connection.next()).collect()
}

/// Makes the keys in redis.
fn fill(redis: &mut Connection, keys: u64, has_streams: bool) {
    let mut requests = vec![words("FLUSHALL")];
    for number in 0..keys {
        if number == 0 || number == keys / 2 {
            requests.push(words(&format!("SELECT {}", DATABASES[usize::from(number > 0)])));
        }
        requests.extend(made(number, has_streams));
        if requests.len() as u64 > BATCH || number == keys - 1 {
            for (request, reply) in requests.iter().zip(ask_all(redis, &requests)) {
                assert_ne!(reply[0], b'-', "{:?}: {}", shown(&request[0]), shown(&reply));
            }
            requests.clear();
        }
    }
}

/// Lets redis write the append-only file, and returns the file's name.
fn write_file(redis: &mut Connection) -> PathBuf {
    for line in ["CONFIG SET aof-use-rdb-preamble no", "CONFIG SET appendonly yes"] {
        assert_eq!(shown(&redis.ask(&words(line))), "+OK", "{line}");
    }
    loop {
        let info = shown(&redis.ask(&words("INFO persistence")));
        assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
        if info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0") {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    let reply = shown(&redis.ask(&words("CONFIG GET dir")));
    let folder = PathBuf::from(reply.split(' ').next_back().expect("a folder")).join("appendonlydir");
    let manifest = std::fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("a manifest");
    let mut names = manifest.lines().filter(|line| line.ends_with("type b"));
    folder.join(names.next().expect("a base file").split(' ').nth(1).expect("a name"))
}

/// A request for the value of a type, and the number of replies that belong together in any order.
fn of_type(kind: &str, key: &[u8]) -> (Words, Option<usize>) {
    let (before, behind, group): (_, &[&str], _) = match kind {
        "+string" => ("GET", &[], None),
        "+list" => ("LRANGE", &["0", "-1"], None),
        "+hash" => ("HGETALL", &[], Some(2)),
        "+set" => ("SMEMBERS", &[], Some(1)),
        "+zset" => ("ZRANGE", &["0", "-1", "WITHSCORES"], None),
        "+stream" => ("XRANGE", &["-", "+"], None),
        other => panic!("a type {other}"),
    };
    let mut request: Words = vec![before.into(), key.to_vec()];
    request.extend(behind.iter().map(|word| word.as_bytes().to_vec()));
    (request, group)
}

/// Compares keys of the present database, and counts the types.
fn compare(
    both: &mut [Connection; 2],
    keys: &[Vec<u8>],
    types: &mut std::collections::BTreeMap<String, u64>,
) {
    let about = |key: &Vec<u8>| ["TYPE", "PEXPIRETIME"].map(|name| vec![name.into(), key.clone()]);
    let requests: Vec<Words> = keys.iter().flat_map(about).collect();
    let [ours, theirs] = both.each_mut().map(|connection| ask_all(connection, &requests));
    for (at, reply) in theirs.iter().enumerate() {
        assert_eq!(shown(&ours[at]), shown(reply), "{:?}", keys[at / 2].escape_ascii().to_string());
    }
    let kinds: Vec<String> = theirs.chunks(2).map(|pair| shown(&pair[0])).collect();
    let values: Vec<_> = keys.iter().zip(&kinds).map(|(key, kind)| of_type(kind, key)).collect();
    let requests: Vec<Words> = values.iter().map(|(request, _)| request.clone()).collect();
    let [ours, theirs] = both.each_mut().map(|connection| ask_all(connection, &requests));
    for (at, (_, group)) in values.iter().enumerate() {
        let is_equal =
            ours[at] == theirs[at] || group.is_some_and(|group| are_alike(&ours[at], &theirs[at], group));
        assert!(
            is_equal,
            "{}\n  ours   {}\n  theirs {}",
            keys[at].escape_ascii(),
            ours[at].escape_ascii(),
            theirs[at].escape_ascii()
        );
        *types.entry(kinds[at].clone()).or_default() += 1;
    }
}

/// Compares every key of redis, and the numbers of keys.
fn compare_all(both: &mut [Connection; 2], keys: u64) {
    let mut types = std::collections::BTreeMap::new();
    for database in DATABASES {
        let [ours, theirs] = both.each_mut().map(|connection| {
            connection.ask(&words(&format!("SELECT {database}")));
            shown(&connection.ask(&words("DBSIZE")))
        });
        assert_eq!(ours, theirs, "DBSIZE of database {database}");
        let mut cursor = "0".to_owned();
        loop {
            let reply = both[1].ask(&words(&format!("SCAN {cursor} COUNT {BATCH}")));
            let (next, found) = scanned(&reply);
            compare(both, &found, &mut types);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    println!("types: {types:?}");
    assert!(types.values().sum::<u64>() >= keys, "each key was compared");
}

/// The cursor and the keys of a step of `SCAN`.
fn scanned(reply: &[u8]) -> (String, Vec<Vec<u8>>) {
    use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let decoded = decoder.decode(reply).expect("a reply is RESP").expect("a whole reply");
    let Reply::Array(mut parts) = decoded.reply() else { panic!("SCAN replies an array") };
    let (Some(Reply::Bulk(cursor)), Some(Reply::Array(keys))) = (parts.next(), parts.next()) else {
        panic!("SCAN replies a cursor and keys");
    };
    let keys =
        keys.map(|key| if let Reply::Bulk(key) = key { key.to_vec() } else { panic!("a key is a string") });
    (String::from_utf8_lossy(cursor).into_owned(), keys.collect())
}

/// A server over a folder, as `ensile serve` opens the folder.
fn serve(folder: &std::path::Path) -> RunningServer {
    let db = Database::builder(folder).durability(Durability::Process).open().expect("a new folder");
    let server = Server::builder(db).build().expect("new tables");
    server.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port")
}

#[test]
#[ignore = "needs a server of redis: bash ci/redis-migration.sh"]
fn every_key_of_an_append_only_file_moves() {
    let address = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<SocketAddr>().unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    let keys = count("ENSILE_KEYS", 20_000);
    let folder = std::env::temp_dir().join(format!("ensile-migration-{}", std::process::id()));
    let given = address("ENSILE_SERVER");
    let server = given.is_none().then(|| serve(&folder));
    let ours = given.or(server.as_ref().map(RunningServer::address)).expect("a server");
    let redis = address("ENSILE_REDIS").expect("ENSILE_REDIS");
    let mut both = [ours, redis].map(Connection::open);
    let has_streams = both[0].ask(&words("XLEN none")) == b":0\r\n";
    fill(&mut both[1], keys, has_streams);
    let file = write_file(&mut both[1]);
    let bytes = file.metadata().expect("the file").len();
    let clock = Clock::machine();
    let moved = Command::new("redis-cli")
        .args(["-h", &ours.ip().to_string(), "-p", &ours.port().to_string(), "--pipe"])
        .stdin(Stdio::from(File::open(&file).expect("the file")))
        .output()
        .expect("redis-cli runs");
    let seconds = clock.nanos() as f64 / 1e9;
    let told = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(
        moved.status.success() && told.contains("errors: 0,"),
        "{told}\n{}",
        String::from_utf8_lossy(&moved.stderr)
    );
    let requests = told.split("replies: ").nth(1).map_or("", str::trim);
    println!(
        "{keys} keys, {bytes} bytes, {requests} requests in {seconds:.1} s: {:.1} MB/s",
        bytes as f64 / seconds / 1e6
    );
    compare_all(&mut both, keys);
    for line in ["CONFIG SET appendonly no", "FLUSHALL"] {
        both[1].ask(&words(line));
    }
    drop(both);
    if let Some(server) = server {
        server.stop().expect("everything is durable");
        std::fs::remove_dir_all(&folder).expect("the folder is closed");
    }
}
