//! Errors of a stream, in redis' words: clients and their users know these words.
//!
//! Neighbours: both decoders return the errors; a server sends an error by [`crate::ReplyEncoder::error`].

use std::fmt;

/// A stream that is not RESP, or is beyond a limit. The boundaries of the stream are lost: answer with the error, then
/// close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The line with the number of arguments is too long.
    CountLine,
    /// The number of arguments is invalid, or beyond the limit.
    Count,
    /// Another byte stands where the `$` of an argument should.
    ExpectedBulk(u8),
    /// The line with the length of an argument is too long.
    BulkLine,
    /// The length of an argument is invalid, or beyond the limit.
    BulkLength,
    /// No CR LF stands behind an argument or a line.
    ExpectedCrlf,
    /// The request as a whole is beyond the limit.
    RequestBytes,
    /// An inline command is longer than the limit.
    InlineBytes,
    /// A quote of an inline command is not closed, or a word goes on behind its closing quote.
    Quotes,
    /// No reply begins with this byte.
    ReplyType(u8),
    /// A line of a reply has no value of its type.
    ReplyValue,
    /// A line of a reply is longer than the limit.
    ReplyLine,
    /// A reply has more elements than the limit, or is nested more deeply.
    ReplyElements,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::CountLine => f.write_str("too big mbulk count string"),
            Self::Count => f.write_str("invalid multibulk length"),
            Self::ExpectedBulk(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::BulkLine => f.write_str("too big bulk count string"),
            Self::BulkLength => f.write_str("invalid bulk length"),
            Self::ExpectedCrlf => f.write_str("expected CR LF"),
            Self::RequestBytes => f.write_str("too big request"),
            Self::InlineBytes => f.write_str("too big inline request"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
            Self::ReplyType(byte) => write!(f, "no reply begins with '{}'", byte.escape_ascii()),
            Self::ReplyValue => f.write_str("invalid value in reply"),
            Self::ReplyLine => f.write_str("too big line in reply"),
            Self::ReplyElements => f.write_str("too many or too deeply nested elements in reply"),
        }
    }
}

impl std::error::Error for ProtocolError {}
