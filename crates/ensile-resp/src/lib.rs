//! RESP, the protocol that redis and its clients speak, in both of its versions: bytes to requests, replies to bytes,
//! and the way back for clients and load generators.
//!
//! What it is for: a server that redis-cli and redis-benchmark talk to, and the programs that put it under load. It
//! knows no sockets, no commands and no engine. A caller hands over what it has received, and gets arguments that
//! point into it.
//!
//! - [`RequestDecoder`] reads arrays of bulk strings, and inline commands as redis takes them from a terminal.
//! - [`ReplyEncoder`] writes replies. For a client of [`RespVersion::Resp2`] it writes what redis writes in
//!   place of the types that only the third version has.
//! - [`ReplyDecoder`] reads replies of both versions, and [`encode_request`] writes a request.
//!
//! Promises, each with its test:
//! - **A split changes nothing.** However the bytes arrive in pieces, the same requests, replies and errors come out.
//! - **Nothing is read twice.** A decoder goes on where it stopped. When a piece ends inside a header line, that line
//!   is read again, and it has [`HEADER_BYTES_MAX`] bytes at most.
//! - **A length that is announced costs nothing.** Memory grows with the bytes that have arrived, and has the limits of
//!   [`RequestLimits`] and [`ReplyLimits`].
//! - **An error is final.** After it the stream has no known boundaries: the caller answers with it, and closes.
//!
//! ```
//! use ensile_resp::{ReplyEncoder, RequestDecoder, RequestLimits, RespVersion};
//!
//! let mut decoder = RequestDecoder::new(RequestLimits::default());
//! let received = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*1\r\n$4\r\nQU";
//! let requests = decoder.decode(received, 16);
//! let first: Vec<&[u8]> = requests.get(0).expect("it is whole").iter().collect();
//! assert_eq!(first, [&b"GET"[..], b"a"]);
//! assert_eq!(requests.len(), 2);
//! assert_eq!(&received[requests.consumed()..], b"*1\r\n$4\r\nQU");
//!
//! let mut sent = Vec::new();
//! ReplyEncoder::new(&mut sent, RespVersion::Resp2).bulk(b"value");
//! assert_eq!(sent, b"$5\r\nvalue\r\n");
//! ```
//!
//! Neighbours: none below. Above, the owner of the bytes: a loop of sockets, a load generator, the fuzz targets.
#![forbid(unsafe_code)]

mod encode;
mod error;
mod header;
mod inline;
mod reply;
mod request;

pub use encode::{ReplyEncoder, RespVersion, encode_request};
pub use error::ProtocolError;
pub use header::HEADER_BYTES_MAX;
pub use reply::{DecodedReply, Replies, Reply, ReplyDecoder, ReplyLimits};
pub use request::{Request, RequestDecoder, RequestLimits, Requests};
