//! A server on threads of its own, and clients on many connections at once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ensile::Database;
use ensile_base::random::Random;
use ensile_resp::{ReplyDecoder, ReplyLimits, encode_request};
use ensile_server::{RunningServer, Server};

use super::rig::shown;

/// A connection whose caller waits for each reply.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a server listens");
        stream.set_nodelay(true).expect("an open socket");
        Self { stream, received: Vec::new() }
    }

    /// Sends a request, and returns the bytes of its reply.
    pub(crate) fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Vec<u8> {
        self.send(words);
        self.next()
    }

    pub(crate) fn send(&mut self, words: &[impl AsRef<[u8]>]) {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, words);
        self.stream.write_all(&bytes).expect("an open connection");
    }

    /// The bytes of the next reply or message.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        loop {
            if let Some(reply) = decoder.decode(&self.received).expect("a reply is RESP") {
                let length = reply.consumed_bytes();
                return self.received.drain(..length).collect();
            }
            let mut part = [0; 16 << 10];
            let length = self.stream.read(&mut part).expect("an open connection");
            assert!(length > 0, "the server has ended the connection");
            self.received.extend_from_slice(&part[..length]);
        }
    }

    /// As [`Connection::ask`], for a line of words.
    fn line(&mut self, line: &str) -> String {
        shown(&self.ask(&line.split(' ').collect::<Vec<_>>()))
    }
}

/// A server without a log.
pub(crate) fn running() -> RunningServer {
    let db = Database::in_memory().expect("a new database");
    let server = Server::builder(db).build().expect("new tables");
    server.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port")
}

#[test]
fn no_increment_is_lost_between_connections() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 250;
    let server = running();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Connection::open(server.address());
                for _ in 0..ROUNDS {
                    assert!(client.line("INCR n").starts_with(':'));
                    assert_eq!(client.line("MULTI"), "+OK");
                    client.line("INCR a");
                    client.line("INCR b");
                    client.line("GET a");
                    let reply = client.line("EXEC");
                    let words: Vec<&str> = reply.split(' ').collect();
                    assert_eq!((words[1], words[1]), (words[2], &*format!(":{}", words[4])), "{reply}");
                }
            });
        }
    });
    let mut client = Connection::open(server.address());
    assert_eq!(client.line("MGET n a b"), "*3 $4 1000 $4 1000 $4 1000");
    server.stop().expect("a server without a log");
}

#[test]
fn messages_of_a_publisher_keep_their_order_over_all_loops() {
    const CLIENTS: usize = 6;
    const ROUNDS: usize = 300;
    let server = running();
    let mut listeners: Vec<_> = (0..CLIENTS).map(|_| Connection::open(server.address())).collect();
    for listener in &mut listeners {
        assert_eq!(listener.line("SUBSCRIBE c"), "*3 $9 subscribe $1 c :1");
    }
    let address = server.address();
    std::thread::scope(|scope| {
        for publisher in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = Connection::open(address);
                for round in 0..ROUNDS {
                    let receivers = client.line(&format!("PUBLISH c {publisher}:{round:03}"));
                    assert_eq!(receivers, format!(":{CLIENTS}"));
                }
            });
        }
        let heard: Vec<_> = listeners
            .iter_mut()
            .map(|listener| {
                scope.spawn(move || {
                    let messages = (0..CLIENTS * ROUNDS).map(|_| shown(&listener.next()));
                    messages.collect::<Vec<String>>()
                })
            })
            .collect();
        let heard: Vec<_> = heard.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(heard.iter().all(|messages| *messages == heard[0]), "J2: one order for all");
        for publisher in 0..CLIENTS {
            let begin = format!("*3 $7 message $1 c $5 {publisher}:");
            let of_publisher = heard[0].iter().filter_map(|message| message.strip_prefix(&begin));
            assert!(of_publisher.eq((0..ROUNDS).map(|round| format!("{round:03}"))), "J2: {publisher}");
        }
    });
    server.stop().expect("a server without a log");
}

#[test]
fn every_item_of_a_queue_is_popped_once_in_its_order() {
    const ITEMS: u64 = 1500;
    let server = running();
    let popped = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Connection::open(server.address());
            for number in 0..ITEMS {
                assert!(client.line(&format!("LPUSH queue {number}")).starts_with(':'));
            }
        });
        let consume = || {
            let (mut client, mut popped) = (Connection::open(server.address()), Vec::new());
            loop {
                match client.line("RPOP queue").split_once(' ') {
                    Some((_, item)) => popped.push(item.parse::<u64>().expect("a number")),
                    // The other consumer may have the last item.
                    None if client.line("GET done") == "$1 1" => return popped,
                    None => {}
                }
                if popped.last() == Some(&(ITEMS - 1)) {
                    client.line("SET done 1");
                }
            }
        };
        let consumers = [scope.spawn(consume), scope.spawn(consume)];
        consumers.map(|consumer| consumer.join().expect("a consumer ends"))
    });
    assert!(popped.iter().all(|items| items.is_sorted()), "a queue keeps its order");
    let mut all = popped.concat();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..ITEMS), "{} items", all.len());
    server.stop().expect("a server without a log");
}

#[test]
fn every_waiting_reader_gets_every_entry_in_order() {
    const WRITERS: usize = 3;
    const ENTRIES: usize = 200;
    let server = running();
    let address = server.address();
    let read = || {
        let (mut client, mut entries) = (Connection::open(address), Vec::new());
        let mut position = "0".to_owned();
        while entries.len() < WRITERS * ENTRIES {
            // A lost wake-up ends with the time, and with an error of the test.
            let reply = client.line(&format!("XREAD COUNT 7 BLOCK 60000 STREAMS s {position}"));
            assert_ne!(reply, "*-1", "J3: an entry is behind {position}, and the reader sleeps");
            let words: Vec<&str> = reply.split(' ').skip(5).collect();
            for entry in words.chunks_exact(8) {
                let &[_, _, id, _, _, _, _, value] = entry else { panic!("{reply}") };
                position = id.to_owned();
                entries.push((id.to_owned(), value.to_owned()));
            }
        }
        entries
    };
    let seen = std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read), scope.spawn(read)];
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut client = Connection::open(address);
                for number in 0..ENTRIES {
                    assert!(client.line(&format!("XADD s * w {writer}:{number}")).starts_with('$'));
                }
            });
        }
        readers.map(|reader| reader.join().expect("a reader ends"))
    });
    assert!(seen.iter().all(|entries| *entries == seen[0]), "all readers see one order");
    for writer in 0..WRITERS {
        let begin = format!("{writer}:");
        let of_writer = seen[0].iter().filter_map(|(_, value)| value.strip_prefix(&begin));
        assert!(of_writer.eq((0..ENTRIES).map(|number| number.to_string()).collect::<Vec<_>>().iter()));
    }
    server.stop().expect("a server without a log");
}

#[test]
fn counts_of_keys_are_right_after_flushes_among_writes() {
    const CLIENTS: u64 = 4;
    const ROUNDS: u64 = 1500;
    let server = running();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let address = server.address();
            scope.spawn(move || {
                let (mut client, mut random) = (Connection::open(address), Random::from_seed(number));
                for round in 0..ROUNDS {
                    let key = random.next_below(60);
                    let reply = match random.next_below(100) {
                        0..40 => client.line(&format!("SET key:{key} v")),
                        40..55 => client.line(&format!("SET key:{key} v PX {}", 1 + random.next_below(30))),
                        55..65 => client.line(&format!("EXPIRE key:{key} 1000")),
                        65..75 => client.line(&format!("DEL key:{key}")),
                        75..85 => client.line(&format!("RENAMENX key:{key} key:{}", random.next_below(60))),
                        85..90 => client.line(&format!("PERSIST key:{key}")),
                        90..95 => client.line("DBSIZE"),
                        _ if round % 5 == 0 => client.line("FLUSHDB"),
                        _ => client.line("INFO keyspace"),
                    };
                    assert!(!reply.starts_with('-') || reply == "-ERR no such key", "{reply}");
                }
            });
        }
    });
    let mut client = Connection::open(server.address());
    // Keys that are about to expire are counted until the sweeper has removed their rows.
    for key in 0..60 {
        client.line(&format!("PERSIST key:{key}"));
    }
    let mut counted = |words: &[&str]| {
        let reply = shown(&client.ask(words));
        reply.trim_start_matches([':', '*']).split(' ').next().and_then(|word| word.parse::<u64>().ok())
    };
    let (mut keys, mut size) = (counted(&["KEYS", "*"]), counted(&["DBSIZE"]));
    for _ in 0..100 {
        if keys == size {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        (keys, size) = (counted(&["KEYS", "*"]), counted(&["DBSIZE"]));
    }
    assert_eq!(keys, size, "every key is counted once");
    let text = client.line("INFO keyspace");
    assert!(
        keys == Some(0) || text.ends_with(&format!("keys={},expires=0,avg_ttl=0", keys.unwrap_or(0))),
        "{text}"
    );
    assert!(!client.line("INFO stats").contains("panicked_commands:1"), "no command has panicked");
    server.stop().expect("a server without a log");
}
