//! Requests: what redis takes and what it refuses, limits, and memory under hostile lengths.
use super::{RequestDecoder, RequestLimits};
use crate::error::ProtocolError;

type Arguments = Vec<Vec<u8>>;

/// All requests of a stream that arrives in pieces, and the error behind them.
fn decode_pieces(pieces: &[&[u8]], limits: RequestLimits) -> (Vec<Arguments>, Option<ProtocolError>, usize) {
    let mut decoder = RequestDecoder::new(limits);
    let (mut found, mut waiting, mut error) = (Vec::new(), Vec::new(), None);
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            let requests = decoder.decode(&waiting, 3);
            found.extend(requests.iter().map(|request| request.iter().map(<[u8]>::to_vec).collect()));
            let (consumed, count) = (requests.consumed_bytes(), requests.len());
            error = requests.error();
            waiting.drain(..consumed);
            if count < 3 {
                break;
            }
        }
    }
    (found, error, waiting.len())
}

fn decode(stream: &[u8]) -> (Vec<Arguments>, Option<ProtocolError>) {
    let (found, error, _) = decode_pieces(&[stream], RequestLimits::default());
    (found, error)
}

fn arguments(words: &[&str]) -> Arguments {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_pipeline_of_both_kinds() {
    let stream = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nset b 'c d'\r\n*1\r\n$4\r\nPING\r\n\r\n*0\r\n*-1\r\n\nget \"\\x61\"\n*1\r\n$0\r\n\r\n";
    let (found, error, left) = decode_pieces(&[stream], RequestLimits::default());
    let wanted = [&["GET", "a"][..], &["set", "b", "c d"], &["PING"], &["get", "a"], &[""]].map(arguments);
    assert_eq!(found, wanted);
    assert_eq!((error, left), (None, 0));
}

#[test]
fn every_split_gives_the_same() {
    let streams: [&[u8]; 6] = [
        b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$4\r\n\r\n\r\n\r\nPING a\r\n\r\n*1\r\n$1\r\nx\r\n",
        b"*1\r\n$1\r\nxy\r\n",
        b"PING\r\n*1\r\n%1\r\n",
        b"a 'b\r\nc\r\n",
        b"*1\r\n$123456789012345678901234567890\r\n",
        b"\r\r\n a\rb\r\n",
    ];
    for stream in streams {
        let whole = decode_pieces(&[stream], RequestLimits::default());
        for at in 0..=stream.len() {
            let (first, second) = stream.split_at(at);
            assert_eq!(decode_pieces(&[first, second], RequestLimits::default()), whole, "{at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode_pieces(&bytes, RequestLimits::default()), whole);
    }
}

/// A caller that takes one request of each group, and hands the others over again, gets what every other caller gets.
#[test]
fn going_back_to_any_request_gives_the_same() {
    let stream = b"\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nset b 'c d'\r\n\r\nping\r\n*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$-7\r\n";
    let (wanted, error, _) = decode_pieces(&[stream], RequestLimits::default());
    assert!(wanted.len() == 4 && error.is_some());
    for (group, taken) in [(2, 1), (9, 1), (9, 2), (9, 3), (3, 2)] {
        let (mut decoder, mut found, mut at) =
            (RequestDecoder::new(RequestLimits::default()), Vec::<Arguments>::new(), 0);
        loop {
            let requests = decoder.decode(&stream[at..], group);
            if requests.is_empty() {
                assert_eq!(requests.error(), error);
                break;
            }
            found.extend(
                requests.iter().take(taken).map(|request| request.iter().map(<[u8]>::to_vec).collect()),
            );
            let behind = requests.begin(taken);
            at += behind.unwrap_or(requests.consumed_bytes());
            if behind.is_some() {
                decoder.go_back();
            }
        }
        assert_eq!(found, wanted, "{taken} of {group}");
    }
}

#[test]
fn errors_are_redis_and_final() {
    let cases: [(&[u8], ProtocolError, &str); 11] = [
        (b"*x\r\n", ProtocolError::Count, "invalid multibulk length"),
        (b"*01\r\n", ProtocolError::Count, "invalid multibulk length"),
        (b"*1048577\r\n", ProtocolError::Count, "invalid multibulk length"),
        (b"*1\r\n:1\r\n", ProtocolError::ExpectedBulk(b':'), "expected '$', got ':'"),
        (b"*1\r\n\r\n", ProtocolError::ExpectedBulk(b'\r'), "expected '$', got '\\r'"),
        (b"*1\r\n$-1\r\n", ProtocolError::BulkLength, "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", ProtocolError::BulkLength, "invalid bulk length"),
        (b"*1\r\n$1\r\nabc", ProtocolError::ExpectedCrlf, "expected CR LF"),
        (b"*1\rx", ProtocolError::ExpectedCrlf, "expected CR LF"),
        (b"*00000000000000000000000000000000", ProtocolError::CountLine, "too big mbulk count string"),
        (b"*1\r\n$00000000000000000000000000000000", ProtocolError::BulkLine, "too big bulk count string"),
    ];
    for (stream, wanted, text) in cases {
        let before = [b"*1\r\n$4\r\nPING\r\n", stream].concat();
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        let requests = decoder.decode(&before, 9);
        assert_eq!((requests.len(), requests.error()), (1, Some(wanted)), "{}", stream.escape_ascii());
        assert_eq!(wanted.to_string(), format!("Protocol error: {text}"));
        let again = decoder.decode(b"*1\r\n$4\r\nPING\r\n", 9);
        assert_eq!((again.len(), again.error()), (0, Some(wanted)));
    }
}

#[test]
fn limits_are_met_to_the_byte() {
    let limits =
        RequestLimits { arguments_max: 2, bulk_bytes_max: 5, inline_bytes_max: 6, request_bytes_max: 25 };
    let error = |stream: &[u8]| decode_pieces(&[stream], limits).1;
    assert_eq!(error(b"*2\r\n$5\r\nabcde\r\n$4\r\nabcd\r\n"), None);
    assert_eq!(error(b"*2\r\n$5\r\nabcde\r\n$5\r"), None);
    assert_eq!(
        error(b"*2\r\n$5\r\nabcde\r\n$5\r\n"),
        Some(ProtocolError::RequestBytes),
        "before it has arrived"
    );
    assert_eq!(error(b"*3\r\n"), Some(ProtocolError::Count));
    assert_eq!(error(b"*1\r\n$6\r\n"), Some(ProtocolError::BulkLength));
    assert_eq!(error(b"abcdef\r"), None);
    assert_eq!(error(b"abcdef\r\nab cde\n"), None);
    assert_eq!(error(b"abcdefg"), Some(ProtocolError::InlineBytes));
    assert_eq!(error(b"a b c\n"), Some(ProtocolError::Count));
}

#[test]
fn announced_lengths_take_no_memory() {
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let mut stream = b"*1048576\r\n$536870912\r\n".to_vec();
    assert!(decoder.decode(&stream, 1).is_empty());
    assert_eq!(decoder.memory_bytes(), 0);
    stream.resize(1 << 16, b'x');
    assert!(decoder.decode(&stream, 1).is_empty());
    assert_eq!(decoder.memory_bytes(), 0);
    // The most places for the fewest bytes.
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let mut stream = b"*1048576\r\n".to_vec();
    for _ in 0..10_000 {
        stream.extend_from_slice(b"$0\r\n\r\n");
        assert!(decoder.decode(&stream, 1).is_empty());
        assert!(decoder.memory_bytes() <= 4 * stream.len());
    }
    // A large request leaves little behind.
    let mut stream = b"*10000\r\n".to_vec();
    stream.extend(b"$0\r\n\r\n".repeat(10_000));
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    assert_eq!(decoder.decode(&stream, 1).get(0).map(|request| request.len()), Some(10_000));
    assert!(decoder.decode(b"", 1).is_empty());
    assert!(decoder.memory_bytes() <= RequestDecoder::KEEP_BYTES);
}

#[test]
fn empty_lines_are_passed_over() {
    let (found, error) = decode(&b"\r\n".repeat(100));
    assert_eq!((found.len(), error), (0, None));
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    assert_eq!(decoder.decode(b"\n\n\r\n*0\r\n*", 1).consumed_bytes(), 8);
}

#[test]
fn arguments_point_into_what_was_received() {
    let stream = b"*1\r\n$4\r\nPING\r\n".to_vec();
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let requests = decoder.decode(&stream, 1);
    let argument = requests.get(0).and_then(|request| request.get(0)).expect("it is there");
    assert_eq!(argument.as_ptr(), stream[8..].as_ptr());
    assert!(requests.get(1).is_none() && requests.get(0).is_some_and(|request| request.get(1).is_none()));
}

#[test]
fn a_request_that_is_encoded_and_decoded_again_is_the_same() {
    let stream =
        b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$4\r\n\r\n\r\n\r\nset b 'c d' \"\\x00\"\r\n*1\r\n$0\r\n\r\n";
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let mut again = Vec::new();
    decoder.decode(stream, 3).iter().for_each(|request| request.encode(&mut again));
    assert_eq!(decode(&again), decode(stream));
}

#[test]
fn room_that_is_released_between_pieces_changes_nothing() {
    let stream = b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$4\r\n\r\n\r\n\r\nPING 'a b'\r\n*1\r\n$1\r\nx\r\n";
    let whole = decode(stream).0;
    for at in 0..=stream.len() {
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        let (mut found, mut consumed) = (Vec::new(), 0);
        for end in [at, stream.len()] {
            let requests = decoder.decode(&stream[consumed..end], 8);
            found.extend(
                requests.iter().map(|request| request.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()),
            );
            consumed += requests.consumed_bytes();
            decoder.release_room();
        }
        assert_eq!(found, whole, "{at}");
        assert_eq!(decoder.memory_bytes(), 0, "{at}");
    }
}
