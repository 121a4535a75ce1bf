//! RESP, the protocol of redis and its clients, in both versions: bytes to requests, replies to bytes, and the reverse
//! for clients and load generators.
//!
//! The crate serves a server for redis-cli and redis-benchmark, and programs that put the server under load. The crate
//! has no sockets, no commands and no engine. A caller passes the received bytes, and gets arguments that point into
//! the bytes.
//!
//! - [`RequestDecoder`] reads arrays of bulk strings, and inline commands as redis takes them from a terminal.
//! - [`ReplyEncoder`] writes replies. For a client of [`RespVersion::Resp2`] the encoder replaces the types of the
//!   third version as redis does.
//! - [`ReplyDecoder`] reads replies of both versions, and [`encode_request`] writes a request.
//!
//! Promises, each with its test:
//! - **A split changes nothing.** The same requests, replies and errors come out, however the bytes arrive in pieces.
//! - **Nothing is read twice.** A decoder goes on from its last position. When a piece ends inside a header line, the
//!   line is read again; a header line has [`HEADER_BYTES_MAX`] bytes at most.
//! - **An announced length costs nothing.** Memory grows with the bytes that have arrived, and has the limits of
//!   [`RequestLimits`] and [`ReplyLimits`].
//! - **An error is final.** After an error the stream has no known boundaries: the caller answers with the error, and
//!   closes.
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
//! assert_eq!(&received[requests.consumed_bytes()..], b"*1\r\n$4\r\nQU");
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

pub use encode::{ReplyEncoder, RespVersion, double_text, encode_request};
pub use error::ProtocolError;
pub use header::{HEADER_BYTES_MAX, integer};
pub use reply::{DecodedReply, Replies, Reply, ReplyDecoder, ReplyLimits};
pub use request::{Request, RequestBuffer, RequestDecoder, RequestLimits, Requests};
