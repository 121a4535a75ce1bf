//! Target: every command of the server, with any arguments, from several clients of a simulated server.
//!
//! Invariants: no command panics. Each request gets exactly one reply, or the end of the connection. Afterwards the
//! commands agree on the state. With a log, the state with its replies survives a power cut.
//!
//! Neighbours: `requests` makes requests of bytes; `served` has the server.

mod requests;

use crate::input::Input;
use crate::served::Served;

/// Most requests of an input.
const REQUESTS_MAX: usize = 120;
/// Number of clients that send requests.
const CLIENTS: usize = 3;

/// The first byte is the seed of the sockets, and chooses a log. A request begins with a byte for its client, and for
/// the end of its turn.
pub fn commands(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.byte();
    let has_log = seed.is_multiple_of(4);
    let mut served = if has_log { Served::on_disk(seed.into()) } else { Served::new(seed.into()) };
    let clients: [usize; CLIENTS] = std::array::from_fn(|_| served.connect());
    let stranger = served.connect_stranger();
    served.send(clients[1], &["HELLO", "3"]);
    for words in requests::first_values() {
        served.send(clients[0], &words);
    }
    served.settle(clients[0]);
    for _ in 0..REQUESTS_MAX {
        if input.is_empty() || served.has_ended() {
            break;
        }
        let turn = input.byte();
        let client = clients[usize::from(turn) % CLIENTS];
        if turn >= 0xf8 {
            let count = input.choice(64);
            served.send_bytes(stranger, input.bytes(count));
            continue;
        }
        // A script of its own now and then: the clients behind a long script are served meanwhile.
        let words = if turn >= 0xe0 { requests::script(&mut input) } else { requests::request(&mut input) };
        // A listener of the second version of the protocol has few commands.
        let listens = words[0].ends_with(b"SUBSCRIBE") && turn & 0x38 != 0;
        let client = if listens { clients[1] } else { client };
        served.send(client, &words);
        if turn & 0x40 == 0 {
            served.settle(client);
        }
    }
    served.settle_all();
    served.check_agreement();
    if !has_log || served.has_ended() {
        return;
    }
    let before = served.contents();
    let mut again = served.cut_power(seed.into()).expect("the server has a disk");
    assert_eq!(again.contents(), before, "the power cut has changed the state behind the replies");
    again.check_agreement();
}
