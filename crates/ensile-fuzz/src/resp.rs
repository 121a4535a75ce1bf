//! Target: the codec of RESP. A stream gives the same requests, replies and errors in pieces of any size. Decoded
//! requests and replies encode to bytes that decode to the same. Memory stays within a few times the arrived bytes.
//!
//! Neighbours: `ensile-resp` documents these promises.

use ensile_resp::{
    ProtocolError, Reply, ReplyDecoder, ReplyEncoder, ReplyLimits, RequestDecoder, RequestLimits,
    RespVersion, encode_request,
};

use crate::input::Input;

/// Limits that an input of a few kilobytes reaches.
const REQUEST_LIMITS: RequestLimits =
    RequestLimits { arguments_max: 64, bulk_bytes_max: 200, inline_bytes_max: 100, request_bytes_max: 1000 };
const REPLY_LIMITS: ReplyLimits = ReplyLimits {
    bulk_bytes_max: 200,
    line_bytes_max: 100,
    elements_max: 100,
    levels_max: 5,
    reply_bytes_max: 1000,
};

/// Most memory of a decoder for an arrived byte, in bytes. `MEMORY_BESIDE` is the most memory beside.
const MEMORY_PER_BYTE: usize = 40;
const MEMORY_BESIDE: usize = 16 << 10;

/// Outcome of a stream: requests or replies in some form, the error behind them, and the number of bytes left.
#[derive(Debug, PartialEq, Eq)]
struct Outcome<T> {
    found: Vec<T>,
    error: Option<ProtocolError>,
    left: usize,
}

type OwnedRequest = Vec<Vec<u8>>;

/// Decodes requests from a stream, at most `batch` a call. `sizes` gives the sizes of the pieces in turn.
fn requests(stream: &[u8], sizes: &[u8], batch: usize, limits: RequestLimits) -> Outcome<OwnedRequest> {
    let mut decoder = RequestDecoder::new(limits);
    let (mut found, mut error, mut begin, mut end) = (Vec::new(), None, 0, 0);
    let mut sizes = sizes.iter().cycle();
    while end < stream.len() && error.is_none() {
        end = stream.len().min(end + 1 + usize::from(*sizes.next().unwrap_or(&u8::MAX)));
        loop {
            let decoded = decoder.decode(&stream[begin..end], batch);
            assert!(decoded.len() <= batch && begin + decoded.consumed_bytes() <= end);
            found
                .extend(decoded.iter().map(|request| request.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()));
            begin += decoded.consumed_bytes();
            error = decoded.error();
            if decoded.len() < batch {
                break;
            }
        }
        assert!(decoder.memory_bytes() <= MEMORY_BESIDE + MEMORY_PER_BYTE * end);
    }
    assert!(found.iter().all(|request| !request.is_empty()), "a request without arguments");
    Outcome { found, error, left: stream.len() - begin }
}

/// Encodes a reply again, and counts its elements.
fn encode(reply: Reply<'_>, encoder: &mut ReplyEncoder<'_>) {
    let children = match reply {
        // The text has no end of line, and a code may be the whole text.
        Reply::Simple(text) => return encoder.simple(&String::from_utf8_lossy(text)),
        Reply::Error(text) => {
            let text = String::from_utf8_lossy(text);
            let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
            return encoder.error(code, message);
        }
        Reply::Integer(number) => return encoder.integer(number),
        Reply::Bulk(bytes) => return encoder.bulk(bytes),
        Reply::Null => return encoder.null(),
        Reply::Double(number) => return encoder.double(number),
        Reply::Boolean(is_true) => return encoder.boolean(is_true),
        Reply::Verbatim(format, text) => return encoder.verbatim(format, text),
        Reply::BigNumber(digits) => return encoder.big_number(&String::from_utf8_lossy(digits)),
        Reply::Array(replies) => {
            encoder.array(replies.len());
            replies
        }
        Reply::Map(replies) => {
            encoder.map(replies.len() / 2);
            replies
        }
        Reply::Set(replies) => {
            encoder.set(replies.len());
            replies
        }
        Reply::Push(replies) => {
            encoder.push(replies.len());
            replies
        }
    };
    children.for_each(|child| encode(child, encoder));
}

/// Decodes replies. Every reply is encoded again, in the third version.
fn replies(stream: &[u8], sizes: &[u8], limits: ReplyLimits) -> Outcome<Vec<u8>> {
    let mut decoder = ReplyDecoder::new(limits);
    let (mut found, mut error, mut begin, mut end) = (Vec::new(), None, 0, 0);
    let mut sizes = sizes.iter().cycle();
    while end < stream.len() && error.is_none() {
        end = stream.len().min(end + 1 + usize::from(*sizes.next().unwrap_or(&u8::MAX)));
        loop {
            match decoder.decode(&stream[begin..end]) {
                Ok(None) => break,
                Ok(Some(decoded)) => {
                    let mut bytes = Vec::new();
                    encode(decoded.reply(), &mut ReplyEncoder::new(&mut bytes, RespVersion::Resp3));
                    found.push(bytes);
                    begin += decoded.consumed_bytes();
                }
                Err(is) => {
                    error = Some(is);
                    break;
                }
            }
        }
        assert!(decoder.memory_bytes() <= MEMORY_BESIDE + MEMORY_PER_BYTE * end);
    }
    Outcome { found, error, left: stream.len() - begin }
}

/// The first byte chooses the number of sizes of pieces, the second byte the most requests of a call. Then come the
/// sizes and the stream.
pub fn resp(data: &[u8]) {
    let mut input = Input::new(data);
    let (sizes, batch) = (input.choice(8), input.choice(4) + 1);
    let sizes = input.bytes(sizes).to_vec();
    let stream = input.rest();

    let whole = requests(stream, &[], usize::MAX, REQUEST_LIMITS);
    assert_eq!(requests(stream, &sizes, batch, REQUEST_LIMITS), whole);
    assert_eq!(requests(stream, &[0], 1, REQUEST_LIMITS), whole);
    let mut again = Vec::new();
    whole.found.iter().for_each(|request| encode_request(&mut again, request));
    let wanted = Outcome { found: whole.found, error: None, left: 0 };
    assert_eq!(requests(&again, &sizes, batch, RequestLimits::default()), wanted);

    let whole = replies(stream, &[], REPLY_LIMITS);
    assert_eq!(replies(stream, &sizes, REPLY_LIMITS), whole);
    assert_eq!(replies(stream, &[0], REPLY_LIMITS), whole);
    let again = replies(&whole.found.concat(), &sizes, ReplyLimits::default());
    assert_eq!(again, Outcome { found: whole.found, error: None, left: 0 });
}
