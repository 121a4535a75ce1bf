//! Encoders and decoders are inverse, whatever the pieces, and agree with another implementation of the protocol.
//!
//! `redis-protocol` is that other implementation: it decodes what is encoded here, and encodes what is decoded here.

use ensile_resp::{
    HEADER_BYTES_MAX, Reply, ReplyDecoder, ReplyEncoder, ReplyLimits, RequestDecoder, RequestLimits,
    RespVersion, encode_request,
};
use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::types::{OwnedFrame as Frame2, Resp2Frame};
use redis_protocol::resp3::types::OwnedFrame as Frame3;

/// A reply of either version, owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// By its bits: every NaN is the same one.
    Double(u64),
    Boolean(bool),
    Verbatim(Vec<u8>),
    BigNumber(String),
    Array(Vec<Tree>),
    Map(Vec<Tree>),
    Set(Vec<Tree>),
    Push(Vec<Tree>),
}

fn bits(number: f64) -> u64 {
    if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() }
}

/// A value without children.
fn leaf() -> impl Strategy<Value = Tree> {
    prop_oneof![
        "[ -~]{0,12}".prop_map(Tree::Simple),
        "[A-Z]{1,6} [ -~]{0,12}".prop_map(Tree::Error),
        any::<i64>().prop_map(Tree::Integer),
        vec(any::<u8>(), 0..24).prop_map(Tree::Bulk),
        Just(Tree::Null),
        any::<f64>().prop_map(|number| Tree::Double(bits(number))),
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0), Just(1e17)]
            .prop_map(|number| Tree::Double(bits(number))),
        any::<bool>().prop_map(Tree::Boolean),
        "[ -~\r\n]{0,12}".prop_map(|text| Tree::Verbatim(text.into_bytes())),
        "-?[1-9][0-9]{0,40}".prop_map(Tree::BigNumber),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Tree::Array),
            vec(inner.clone(), 0..3)
                .prop_map(|keys| Tree::Map(keys.into_iter().flat_map(|key| [key.clone(), key]).collect())),
            vec(inner.clone(), 0..5).prop_map(Tree::Set),
        ]
    })
}

fn encode(tree: &Tree, encoder: &mut ReplyEncoder<'_>) {
    let children = match tree {
        Tree::Simple(text) => return encoder.simple(text),
        Tree::Error(text) => {
            let (code, message) = text.split_once(' ').expect("it has a code");
            return encoder.error(code, message);
        }
        Tree::Integer(number) => return encoder.integer(*number),
        Tree::Bulk(bytes) => return encoder.bulk(bytes),
        Tree::Null => return encoder.null(),
        Tree::Double(bits) => return encoder.double(f64::from_bits(*bits)),
        Tree::Boolean(is_true) => return encoder.boolean(*is_true),
        Tree::Verbatim(text) => return encoder.verbatim(*b"txt", text),
        Tree::BigNumber(digits) => return encoder.big_number(digits),
        Tree::Array(children) => {
            encoder.array(children.len());
            children
        }
        Tree::Map(children) => {
            encoder.map(children.len() / 2);
            children
        }
        Tree::Set(children) => {
            encoder.set(children.len());
            children
        }
        Tree::Push(children) => {
            encoder.push(children.len());
            children
        }
    };
    children.iter().for_each(|child| encode(child, encoder));
}

fn encoded(trees: &[Tree], version: RespVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    trees.iter().for_each(|tree| encode(tree, &mut ReplyEncoder::new(&mut bytes, version)));
    bytes
}

/// What a client of the second version sees.
fn as_second(tree: &Tree) -> Tree {
    let all = |children: &[Tree]| Tree::Array(children.iter().map(as_second).collect());
    match tree {
        Tree::Boolean(is_true) => Tree::Integer(i64::from(*is_true)),
        Tree::Verbatim(text) => Tree::Bulk(text.clone()),
        Tree::BigNumber(digits) => Tree::Bulk(digits.clone().into_bytes()),
        Tree::Double(bits) => {
            let mut bytes = Vec::new();
            ReplyEncoder::new(&mut bytes, RespVersion::Resp3).double(f64::from_bits(*bits));
            Tree::Bulk(bytes[1..bytes.len() - 2].to_vec())
        }
        Tree::Array(children) | Tree::Map(children) | Tree::Set(children) | Tree::Push(children) => {
            all(children)
        }
        other => other.clone(),
    }
}

fn owned(reply: Reply<'_>) -> Tree {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it was a string");
    match reply {
        Reply::Simple(bytes) => Tree::Simple(text(bytes)),
        Reply::Error(bytes) => Tree::Error(text(bytes)),
        Reply::Integer(number) => Tree::Integer(number),
        Reply::Bulk(bytes) => Tree::Bulk(bytes.to_vec()),
        Reply::Null => Tree::Null,
        Reply::Double(number) => Tree::Double(bits(number)),
        Reply::Boolean(is_true) => Tree::Boolean(is_true),
        Reply::Verbatim(format, bytes) => {
            assert_eq!(&format, b"txt");
            Tree::Verbatim(bytes.to_vec())
        }
        Reply::BigNumber(digits) => Tree::BigNumber(text(digits)),
        Reply::Array(replies) => Tree::Array(replies.map(owned).collect()),
        Reply::Map(replies) => Tree::Map(replies.map(owned).collect()),
        Reply::Set(replies) => Tree::Set(replies.map(owned).collect()),
        Reply::Push(replies) => Tree::Push(replies.map(owned).collect()),
    }
}

/// Decodes a stream whose pieces have the sizes that `sizes` gives in turn.
fn decoded(stream: &[u8], sizes: &[usize]) -> Vec<Tree> {
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let (mut found, mut waiting, mut rest) = (Vec::new(), Vec::new(), stream);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().expect("it cycles")));
        waiting.extend_from_slice(piece);
        rest = behind;
        while let Some(decoded) = decoder.decode(&waiting).expect("it is RESP") {
            found.push(owned(decoded.reply()));
            let consumed = decoded.consumed_bytes();
            waiting.drain(..consumed);
        }
    }
    assert_eq!(waiting, b"");
    found
}

fn requests(stream: &[u8], sizes: &[usize]) -> Vec<Vec<Vec<u8>>> {
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let (mut found, mut waiting, mut rest) = (Vec::new(), Vec::new(), stream);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().expect("it cycles")));
        waiting.extend_from_slice(piece);
        rest = behind;
        let decoded = decoder.decode(&waiting, usize::MAX);
        assert_eq!(decoded.error(), None);
        found.extend(decoded.iter().map(|request| request.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()));
        let consumed = decoded.consumed_bytes();
        waiting.drain(..consumed);
    }
    assert_eq!(waiting, b"");
    found
}

fn from_second(frame: Frame2) -> Tree {
    match frame {
        Frame2::SimpleString(text) => Tree::Simple(String::from_utf8(text).expect("it was a string")),
        Frame2::Error(text) => Tree::Error(text),
        Frame2::Integer(number) => Tree::Integer(number),
        Frame2::BulkString(bytes) => Tree::Bulk(bytes),
        Frame2::Array(frames) => Tree::Array(frames.into_iter().map(from_second).collect()),
        Frame2::Null => Tree::Null,
    }
}

fn from_third(frame: Frame3) -> Tree {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it was a string");
    let sorted = |trees: Vec<Tree>| without_repeats(trees);
    match frame {
        Frame3::SimpleString { data, .. } => Tree::Simple(text(data)),
        Frame3::SimpleError { data, .. } => Tree::Error(data),
        Frame3::Number { data, .. } => Tree::Integer(data),
        Frame3::BlobString { data, .. } => Tree::Bulk(data),
        Frame3::Null => Tree::Null,
        Frame3::Double { data, .. } => Tree::Double(bits(data)),
        Frame3::Boolean { data, .. } => Tree::Boolean(data),
        Frame3::VerbatimString { data, .. } => Tree::Verbatim(data),
        Frame3::BigNumber { data, .. } => Tree::BigNumber(text(data)),
        Frame3::Array { data, .. } => Tree::Array(data.into_iter().map(from_third).collect()),
        Frame3::Push { data, .. } => Tree::Push(data.into_iter().map(from_third).collect()),
        Frame3::Set { data, .. } => Tree::Set(sorted(data.into_iter().map(from_third).collect())),
        Frame3::Map { data, .. } => Tree::Map(sorted(data.into_keys().map(from_third).collect())),
        other => panic!("{other:?} was not sent"),
    }
}

fn without_repeats(mut trees: Vec<Tree>) -> Vec<Tree> {
    trees.sort();
    trees.dedup();
    trees
}

/// Sets and maps in one order and without repeats: the other implementation has them in hash tables.
fn unordered(tree: &Tree) -> Tree {
    let all = |children: &[Tree]| children.iter().map(unordered).collect::<Vec<_>>();
    match tree {
        Tree::Array(children) => Tree::Array(all(children)),
        Tree::Push(children) => Tree::Push(all(children)),
        Tree::Set(children) => Tree::Set(without_repeats(all(children))),
        // Each value is its key.
        Tree::Map(children) => Tree::Map(without_repeats(all(children))),
        other => other.clone(),
    }
}

/// Whether the other implementation takes it: its sets and keys are values without children, and no NaN.
fn is_taken_elsewhere(tree: &Tree) -> bool {
    let is_plain =
        |child: &Tree| matches!(child, Tree::Simple(_) | Tree::Error(_) | Tree::Integer(_) | Tree::Bulk(_));
    match tree {
        Tree::Array(children) | Tree::Push(children) => children.iter().all(is_taken_elsewhere),
        Tree::Map(children) | Tree::Set(children) => children.iter().all(is_plain),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_read_back_whatever_the_pieces(
        trees in vec(prop_oneof![9 => tree(), 1 => vec(tree(), 1..4).prop_map(Tree::Push)], 1..5),
        sizes in vec(1_usize..40, 1..9),
    ) {
        prop_assert_eq!(&decoded(&encoded(&trees, RespVersion::Resp3), &sizes), &trees);
        let second: Vec<Tree> = trees.iter().map(as_second).collect();
        prop_assert_eq!(&decoded(&encoded(&trees, RespVersion::Resp2), &sizes), &second);
    }

    #[test]
    fn requests_read_back_whatever_the_pieces(
        sent in vec(vec(vec(any::<u8>(), 0..40), 1..6), 0..8),
        sizes in vec(1_usize..40, 1..9),
    ) {
        let mut stream = Vec::new();
        sent.iter().for_each(|request| encode_request(&mut stream, request));
        prop_assert_eq!(requests(&stream, &sizes), sent);
    }

    #[test]
    fn another_implementation_reads_replies(tree in tree()) {
        let bytes = encoded(std::slice::from_ref(&tree), RespVersion::Resp2);
        let (frame, taken) = redis_protocol::resp2::decode::decode(&bytes).expect("RESP2").expect("whole");
        prop_assert_eq!((from_second(frame), taken), (as_second(&tree), bytes.len()));
        if is_taken_elsewhere(&tree) {
            let bytes = encoded(std::slice::from_ref(&tree), RespVersion::Resp3);
            let (frame, taken) =
                redis_protocol::resp3::decode::complete::decode(&bytes).expect("RESP3").expect("whole");
            prop_assert_eq!((from_third(frame), taken), (unordered(&tree), bytes.len()));
        }
    }

    #[test]
    fn another_implementation_writes_requests(sent in vec(vec(any::<u8>(), 0..40), 1..6)) {
        let frame = Frame2::Array(sent.iter().cloned().map(Frame2::BulkString).collect());
        let mut stream = vec![0; frame.encode_len(false)];
        redis_protocol::resp2::encode::encode(&mut stream, &frame, false).expect("there is room");
        let mut own = Vec::new();
        encode_request(&mut own, &sent);
        prop_assert_eq!(&own, &stream);
        prop_assert_eq!(requests(&stream, &[stream.len()]), vec![sent]);
    }
}

#[test]
fn text_cannot_pretend_to_be_a_second_reply() {
    let mut bytes = Vec::new();
    let mut encoder = ReplyEncoder::new(&mut bytes, RespVersion::Resp3);
    encoder.simple("a\r\n+b");
    encoder.error("ERR\n", "\r\n:1\r\n");
    encoder.big_number("1\r\n2");
    assert_eq!(bytes, [b"+a  +b\r\n".as_slice(), b"-ERR    :1  \r\n", b"(1  2\r\n"].concat());
}

#[test]
fn replies_have_the_bytes_that_redis_writes() {
    let both = |write: fn(&mut ReplyEncoder<'_>), second: &str, third: &str| {
        for (version, wanted) in [(RespVersion::Resp2, second), (RespVersion::Resp3, third)] {
            let mut bytes = Vec::new();
            write(&mut ReplyEncoder::new(&mut bytes, version));
            assert_eq!(String::from_utf8_lossy(&bytes), wanted);
        }
    };
    both(|encoder| encoder.simple("OK"), "+OK\r\n", "+OK\r\n");
    both(|encoder| encoder.error("ERR", "no"), "-ERR no\r\n", "-ERR no\r\n");
    both(|encoder| encoder.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n");
    both(|encoder| encoder.integer(10), ":10\r\n", ":10\r\n");
    both(|encoder| encoder.bulk(b"ab"), "$2\r\nab\r\n", "$2\r\nab\r\n");
    both(|encoder| encoder.null(), "$-1\r\n", "_\r\n");
    both(|encoder| encoder.null_array(), "*-1\r\n", "_\r\n");
    both(|encoder| encoder.array(3), "*3\r\n", "*3\r\n");
    both(|encoder| encoder.map(3), "*6\r\n", "%3\r\n");
    both(|encoder| encoder.set(3), "*3\r\n", "~3\r\n");
    both(|encoder| encoder.push(3), "*3\r\n", ">3\r\n");
    both(|encoder| encoder.double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n");
    both(
        |encoder| encoder.double(-1e300),
        "$24\r\n-1.0000000000000001e+300\r\n",
        ",-1.0000000000000001e+300\r\n",
    );
    both(|encoder| encoder.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    both(|encoder| encoder.boolean(true), ":1\r\n", "#t\r\n");
    both(|encoder| encoder.verbatim(*b"mkd", b"# a"), "$3\r\n# a\r\n", "=7\r\nmkd:# a\r\n");
    both(|encoder| encoder.big_number("-12"), "$3\r\n-12\r\n", "(-12\r\n");
    both(
        |encoder| encoder.error("ERR", &ensile_resp::ProtocolError::ExpectedBulk(b'x').to_string()),
        "-ERR Protocol error: expected '$', got 'x'\r\n",
        "-ERR Protocol error: expected '$', got 'x'\r\n",
    );
}

#[test]
fn no_reply_is_longer_than_its_limit() {
    let write = |reply: &mut ReplyEncoder<'_>| {
        reply.array(12);
        reply.simple("OK");
        reply.error("ERR", "some reason");
        reply.integer(i64::MIN);
        reply.bulk(&[b'x'; 40]);
        reply.null();
        reply.null_array();
        reply.map(0);
        reply.set(0);
        reply.double(-1.5e300);
        reply.boolean(true);
        reply.verbatim(*b"txt", &[b'y'; 30]);
        reply.big_number("123456789012345678901234567890");
    };
    for version in [RespVersion::Resp2, RespVersion::Resp3] {
        let mut whole = b"before".to_vec();
        write(&mut ReplyEncoder::new(&mut whole, version));
        for limit in 0..whole.len() + 40 {
            let mut sent = b"before".to_vec();
            let mut reply = ReplyEncoder::new(&mut sent, version).at_most(limit);
            write(&mut reply);
            let is_beyond = reply.is_beyond();
            assert!(sent.len() <= "before".len() + limit && whole.starts_with(&sent), "{limit}");
            assert_eq!(is_beyond, sent.len() < whole.len(), "{limit}: nothing is left out unsaid");
            assert!(!is_beyond || limit < whole.len() + HEADER_BYTES_MAX, "{limit}");
        }
    }
}
