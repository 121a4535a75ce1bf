//! Replies: every type, attributes, limits, and memory under hostile counts.
use super::{Reply, ReplyDecoder, ReplyLimits};
use crate::error::ProtocolError;

/// A reply in text, for comparing.
fn show(reply: Reply<'_>) -> String {
    let all = |replies: super::Replies<'_>| {
        let count = replies.len();
        let shown: Vec<String> = replies.map(show).collect();
        assert_eq!(shown.len(), count);
        shown.join(" ")
    };
    match reply {
        Reply::Simple(text) => format!("+{}", text.escape_ascii()),
        Reply::Error(text) => format!("-{}", text.escape_ascii()),
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("'{}'", bytes.escape_ascii()),
        Reply::Null => "null".to_owned(),
        Reply::Double(number) => format!("{number:?}"),
        Reply::Boolean(is_true) => is_true.to_string(),
        Reply::Verbatim(format, text) => format!("{}:{}", format.escape_ascii(), text.escape_ascii()),
        Reply::BigNumber(digits) => format!("({}", digits.escape_ascii()),
        Reply::Array(replies) => format!("[{}]", all(replies)),
        Reply::Map(replies) => format!("{{{}}}", all(replies)),
        Reply::Set(replies) => format!("~[{}]", all(replies)),
        Reply::Push(replies) => format!(">[{}]", all(replies)),
    }
}

/// Every reply of a stream, with its bytes in pieces of `piece_bytes`.
fn decode(stream: &[u8], piece_bytes: usize, limits: ReplyLimits) -> (Vec<String>, Option<ProtocolError>) {
    let mut decoder = ReplyDecoder::new(limits);
    let (mut found, mut waiting) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        waiting.extend_from_slice(piece);
        loop {
            let consumed = match decoder.decode(&waiting) {
                Ok(None) => break,
                Ok(Some(decoded)) => {
                    found.push(show(decoded.reply()));
                    decoded.consumed_bytes()
                }
                Err(error) => {
                    assert_eq!(decoder.decode(&waiting).err(), Some(error), "an error is final");
                    return (found, Some(error));
                }
            };
            waiting.drain(..consumed);
        }
    }
    (found, None)
}

#[test]
fn every_type_whatever_the_pieces() {
    let cases = [
        ("+OK\r\n", "+OK"),
        ("-ERR no\r\n", "-ERR no"),
        ("!6\r\nERR\r\nx\r\n", "-ERR\\r\\nx"),
        (":-12\r\n", "-12"),
        ("$3\r\na\r\n\r\n", "'a\\r\\n'"),
        ("$0\r\n\r\n", "''"),
        ("$-1\r\n", "null"),
        ("*-1\r\n", "null"),
        ("_\r\n", "null"),
        (",1.5e300\r\n", "1.5e300"),
        (",-inf\r\n", "-inf"),
        (",nan\r\n", "NaN"),
        ("#t\r\n", "true"),
        ("#f\r\n", "false"),
        ("=7\r\ntxt:abc\r\n", "txt:abc"),
        ("(-123456789012345678901234567890\r\n", "(-123456789012345678901234567890"),
        ("*0\r\n", "[]"),
        ("*3\r\n*1\r\n:1\r\n*0\r\n%1\r\n+a\r\n*-1\r\n", "[[1] [] {+a null}]"),
        ("~2\r\n#t\r\n:7\r\n", "~[true 7]"),
        (">2\r\n+message\r\n$1\r\nx\r\n", ">[+message 'x']"),
        ("|1\r\n+ttl\r\n:3\r\n*2\r\n|0\r\n:1\r\n|1\r\n+a\r\n*1\r\n:9\r\n:2\r\n", "[1 2]"),
    ];
    let stream: String = cases.iter().map(|case| case.0).collect();
    let wanted: Vec<&str> = cases.iter().map(|case| case.1).collect();
    for piece_bytes in [1, 2, 3, 7, stream.len()] {
        let (found, error) = decode(stream.as_bytes(), piece_bytes, ReplyLimits::default());
        assert_eq!((found, error), (wanted.iter().map(ToString::to_string).collect(), None));
    }
}

#[test]
fn what_is_no_reply_is_an_error() {
    let cases = [
        ("x\r\n", ProtocolError::ReplyType(b'x')),
        (":1x\r\n", ProtocolError::ReplyValue),
        (":\r\n", ProtocolError::ReplyValue),
        ("_x\r\n", ProtocolError::ReplyValue),
        ("#x\r\n", ProtocolError::ReplyValue),
        (",infinity\r\n", ProtocolError::ReplyValue),
        (",\r\n", ProtocolError::ReplyValue),
        ("(12a\r\n", ProtocolError::ReplyValue),
        ("(-\r\n", ProtocolError::ReplyValue),
        ("+a\nb\r\n", ProtocolError::ReplyValue),
        ("+a\rb", ProtocolError::ExpectedCrlf),
        ("$1\r\nabc", ProtocolError::ExpectedCrlf),
        ("$-2\r\n", ProtocolError::BulkLength),
        ("!-1\r\n", ProtocolError::BulkLength),
        ("=3\r\ntxt\r\n", ProtocolError::ReplyValue),
        ("=4\r\ntxtx\r\n", ProtocolError::ReplyValue),
        ("%-1\r\n", ProtocolError::ReplyValue),
        ("$?\r\n", ProtocolError::ReplyValue),
        ("*99999999999999\r\n", ProtocolError::ReplyElements),
    ];
    for (stream, wanted) in cases {
        for piece_bytes in [1, stream.len()] {
            let (found, error) = decode(stream.as_bytes(), piece_bytes, ReplyLimits::default());
            assert_eq!((found.len(), error), (0, Some(wanted)), "{stream:?} by {piece_bytes}");
        }
    }
}

#[test]
fn limits_hold_on_every_level() {
    let limits = ReplyLimits {
        bulk_bytes_max: 4,
        line_bytes_max: 5,
        elements_max: 4,
        levels_max: 2,
        reply_bytes_max: 40,
    };
    let error = |stream: &str| decode(stream.as_bytes(), 1, limits).1;
    assert_eq!(error("$4\r\nabcd\r\n+abcde\r\n*3\r\n:1\r\n:1\r\n:1\r\n*1\r\n*1\r\n:1\r\n"), None);
    assert_eq!(error("$5\r\n"), Some(ProtocolError::BulkLength));
    assert_eq!(error("+abcdef"), Some(ProtocolError::ReplyLine));
    assert_eq!(error("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"), Some(ProtocolError::ReplyElements));
    assert_eq!(error("%3\r\n"), Some(ProtocolError::ReplyElements));
    assert_eq!(error("*1\r\n*1\r\n*1\r\n"), Some(ProtocolError::ReplyElements));
    assert_eq!(error("|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n"), Some(ProtocolError::ReplyElements));
    assert_eq!(error(&format!("*3\r\n{}", "$4\r\nabcd\r\n".repeat(3))), None);
    let narrow = ReplyLimits { reply_bytes_max: 33, ..limits };
    let stream = format!("*3\r\n{}", "$4\r\nabcd\r\n".repeat(3));
    assert_eq!(decode(stream.as_bytes(), 1, narrow).1, Some(ProtocolError::RequestBytes));
}

#[test]
fn announced_counts_take_no_memory() {
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    assert!(
        decoder.decode(b"*16777215\r\n*16777215\r\n$536870912\r\nabc").is_ok_and(|reply| reply.is_none())
    );
    assert!(decoder.memory_bytes() <= 256, "{}", decoder.memory_bytes());
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let mut stream = b"*16777215\r\n".to_vec();
    for _ in 0..10_000 {
        stream.extend_from_slice(b"_\r\n");
        assert!(decoder.decode(&stream).is_ok_and(|reply| reply.is_none()));
        assert!(decoder.memory_bytes() <= 256 + 8 * stream.len());
    }
}
