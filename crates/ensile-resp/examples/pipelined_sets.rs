//! Decodes pipelined SETs of 100 bytes and encodes the replies, a given number of times, for a count of instructions.
//!
//! ```sh
//! cargo build --release -p ensile-resp --example pipelined_sets
//! for batches in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/pipelined_sets $batches
//! done
//! ```
//! The cost of a SET is the difference of the two counts, divided by 160,000.
#![forbid(unsafe_code)]

use ensile_resp::{ReplyEncoder, RequestDecoder, RequestLimits, RespVersion, encode_request};

/// Requests that a client sends before the client waits for replies.
const PIPELINED: usize = 16;

fn main() {
    let batches: usize =
        std::env::args().nth(1).and_then(|count| count.parse().ok()).expect("usage: pipelined_sets BATCHES");
    let mut received = Vec::new();
    for key in 0..PIPELINED {
        encode_request(&mut received, &[b"SET", format!("key:{key:012}").as_bytes(), &[b'x'; 100]]);
    }
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let (mut sent, mut value_bytes) = (Vec::new(), 0);
    for _ in 0..batches {
        sent.clear();
        let requests = decoder.decode(&received, PIPELINED);
        for request in requests.iter() {
            value_bytes += request.get(2).map_or(0, <[u8]>::len);
            ReplyEncoder::new(&mut sent, RespVersion::Resp2).simple("OK");
        }
        assert_eq!(requests.consumed_bytes(), received.len());
    }
    assert_eq!(value_bytes, batches * PIPELINED * 100);
    println!("{batches} batches of {PIPELINED} requests, {} bytes received", batches * received.len());
}
