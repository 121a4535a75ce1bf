//! The listeners' commands beside Debian's redis: the same lines to both servers, replies and messages compared.

use std::net::SocketAddr;

use super::rig::shown;
use super::threads::{Connection, running};

/// Lines of two clients, `1` and `2`: the client, the number of replies and messages that come, the request.
const LINES: &str = "
    1 2 SUBSCRIBE a b
    1 1 SUBSCRIBE a
    1 1 SUBSCRIBE
    1 1 PSUBSCRIBE [ab]? x*
    1 1 PING
    1 1 PING text
    1 1 PING a b
    1 1 PING
    2 1 PUBSUB CHANNELS b*
    2 1 PUBSUB CHANNELS a b
    2 1 PUBSUB NUMSUB
    2 1 PUBSUB NUMSUB a b none a
    2 1 PUBSUB NUMPAT
    2 1 PUBSUB NUMPAT x
    2 1 PUBSUB
    2 1 PUBSUB FOO
    2 1 PUBSUB HELP
    2 1 PUBSUB SHARDNUMSUB a
    2 1 PUBSUB SHARDCHANNELS
    2 1 PUBLISH a text
    1 1
    2 1 PUBLISH ab text
    1 1
    2 1 PUBLISH xyz text
    1 1
    2 1 PUBLISH none text
    2 1 PUBLISH a
    2 1 MULTI
    2 1 PUBLISH a one
    2 1 PUBSUB NUMSUB a
    2 1 SPUBLISH a shard
    2 1 PUBLISH ab two
    2 1 EXEC
    1 2
    1 1 GET
    1 1 GET a
    1 1 MULTI
    1 1 CONFIG GET maxmemory
    1 1 HELLO 3
    1 1 PUBLISH none b
    1 1 SSUBSCRIBE s
    2 1 SPUBLISH s text
    1 1
    2 1 PUBLISH s text
    1 1 SUNSUBSCRIBE none
    1 1 SUNSUBSCRIBE
    1 1 SUNSUBSCRIBE
    1 1 UNSUBSCRIBE a
    1 1 UNSUBSCRIBE
    1 1 UNSUBSCRIBE
    1 1 PUNSUBSCRIBE [ab]?
    1 1 PUNSUBSCRIBE none
    1 1 PUNSUBSCRIBE
    1 1 PUNSUBSCRIBE
    1 1 PING
    1 1 GET a
    1 1 SUBSCRIBE a
    1 1 RESET
    1 1 PING text
    2 1 PUBSUB CHANNELS
";

#[test]
#[ignore = "needs a server of redis: bash ci/redis-compare.sh"]
fn listeners_get_the_replies_and_messages_of_redis() {
    let address: SocketAddr =
        std::env::var("ENSILE_REDIS").expect("ENSILE_REDIS").parse().expect("an address");
    let server = running();
    for version in ["2", "3"] {
        let open = |address: SocketAddr| [(); 2].map(|()| Connection::open(address));
        let (mut ours, mut theirs) = (open(server.address()), open(address));
        let mut listens = false;
        for client in ours.iter_mut().chain(&mut theirs) {
            client.ask(&["FLUSHALL"]);
            client.ask(&["HELLO", version]);
        }
        for line in LINES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
            let (client, replies) = (number() - 1, number());
            let words: Vec<&str> = words.collect();
            // Version 3 refuses nothing to a listener: `MULTI` would begin, and `HELLO` tells the client's number.
            if client == 0 && version == "3" && matches!(words.first(), Some(&"HELLO" | &"MULTI")) {
                continue;
            }
            let told = |clients: &mut [Connection; 2]| {
                let client = &mut clients[client];
                if !words.is_empty() {
                    client.send(&words);
                }
                (0..replies).map(|_| shown(&client.next())).collect::<Vec<String>>()
            };
            let (ours, theirs) = (told(&mut ours), told(&mut theirs));
            assert_eq!(ours, theirs, "HELLO {version}, {line}");
            listens |= words.first() == Some(&"SUBSCRIBE");
        }
        assert!(listens, "the lines are played");
    }
    server.stop().expect("a server without a log");
}
