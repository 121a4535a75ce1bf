//! Requests: arrays of bulk strings, and inline commands.
//!
//! A request's arguments are places, counted from the request's first byte: in the received bytes, or, for an inline
//! command, in the decoder's own bytes, because these lack quotes and escapes. The places of an incomplete request stay
//! valid when the caller removes the bytes before the request: the next call begins at the request's first byte.
//!
//! Neighbours: [`crate::header`] and [`crate::inline`] read lines; a loop of sockets calls [`RequestDecoder::decode`].

use crate::encode::{bulk, sized_line};
use crate::error::ProtocolError;
use crate::header::header;
use crate::inline;

/// Limits of requests. A request beyond a limit is a [`ProtocolError`] as soon as its header shows the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Largest number of arguments of a request, the command's name among them. The default is redis' number.
    pub arguments_max: usize,
    /// Longest argument in bytes. The default is redis' number.
    pub bulk_bytes_max: usize,
    /// Longest inline command in bytes, without its end of line. The default is redis' number.
    pub inline_bytes_max: usize,
    /// Longest request in bytes, headers included: a connection may have to buffer this number. Larger values count as
    /// 4 GiB - 1 bytes.
    pub request_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            arguments_max: 1 << 20,
            bulk_bytes_max: 512 << 20,
            inline_bytes_max: 64 << 10,
            request_bytes_max: 1 << 30,
        }
    }
}

impl RequestLimits {
    fn within_places(self) -> Self {
        let places = u32::MAX as usize;
        Self {
            inline_bytes_max: self.inline_bytes_max.min(self.request_bytes_max).min(places),
            request_bytes_max: self.request_bytes_max.min(places),
            ..self
        }
    }
}

/// Place of an argument, counted from its request's first byte, or in the decoder's own bytes.
#[derive(Clone, Copy, Debug)]
struct ArgumentPlace {
    from: u32,
    to: u32,
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
struct WholeRequest {
    /// First byte in the input of this call.
    from: usize,
    /// True if the arguments are in `inline_words`.
    is_inline: bool,
    /// End of the arguments in `places`.
    places_to: usize,
}

/// Outcome of a step.
enum Decoded {
    /// More bytes must arrive.
    Incomplete,
    /// Bytes of a request without a reply: an empty line, an array of no arguments.
    Nothing(usize),
    /// A request with this number of bytes; true if inline.
    Whole(usize, bool),
}

/// Decodes the requests of one connection; the crate's documentation lists the promises.
///
/// The decoder's memory is at most a few times the bytes that have arrived and are not consumed, and the decoder keeps
/// [`RequestDecoder::KEEP_BYTES`] at most from call to call.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: RequestLimits,
    /// Arguments of the complete requests, then of the request under way.
    places: Vec<ArgumentPlace>,
    whole: Vec<WholeRequest>,
    inline_words: Vec<u8>,
    /// Position to go on from in the request under way, from its first byte.
    position: usize,
    /// Number of arguments still to come in the request under way. Zero before its header.
    missing: usize,
    /// Length of the argument under way, once read.
    bulk_bytes: Option<usize>,
    failed: Option<ProtocolError>,
}

impl RequestDecoder {
    /// Largest memory kept of the room for earlier requests, in bytes.
    pub const KEEP_BYTES: usize = 16 << 10;

    /// Creates a decoder at the beginning of a stream.
    #[must_use]
    pub fn new(limits: RequestLimits) -> Self {
        Self {
            limits: limits.within_places(),
            places: Vec::new(),
            whole: Vec::new(),
            inline_words: Vec::new(),
            position: 0,
            missing: 0,
            bulk_bytes: None,
            failed: None,
        }
    }

    /// Memory of the decoder in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<ArgumentPlace>()
            + self.whole.capacity() * size_of::<WholeRequest>()
            + self.inline_words.capacity()
    }

    /// Forgets the results of the last call, and gives back all room that no request under way needs. Serves a caller
    /// whose client is silent.
    pub fn release_room(&mut self) {
        self.forget_whole();
        self.places.shrink_to_fit();
        self.whole.shrink_to_fit();
        self.inline_words.shrink_to_fit();
    }

    /// Decodes at most `requests_max` requests of `input`.
    ///
    /// `input` is everything that has arrived and was not consumed: the input begins where [`Requests::consumed_bytes`]
    /// of the call before ended. Bytes that are handed over again must be the same bytes.
    pub fn decode<'a>(&'a mut self, input: &'a [u8], requests_max: usize) -> Requests<'a> {
        self.forget_whole();
        let mut consumed = 0;
        while self.failed.is_none() && self.whole.len() < requests_max {
            match self.step(&input[consumed..]) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Nothing(bytes)) => {
                    consumed += bytes;
                    self.position = 0;
                }
                Ok(Decoded::Whole(bytes, is_inline)) => {
                    self.whole.push(WholeRequest { from: consumed, is_inline, places_to: self.places.len() });
                    consumed += bytes;
                    self.position = 0;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        Requests { decoder: self, input, consumed }
    }

    /// Forgets the results of the last call behind a request: the next call's input begins with this request
    /// ([`Requests::begin`]), and not behind [`Requests::consumed_bytes`]. Serves a caller that cannot take all
    /// requests now.
    pub fn go_back(&mut self) {
        self.forget_whole();
        self.places.clear();
        self.places.shrink_to(Self::KEEP_BYTES / 2 / size_of::<ArgumentPlace>());
        (self.position, self.missing, self.bulk_bytes, self.failed) = (0, 0, None, None);
    }

    /// True if no part of a request is decoded behind the complete requests: another decoder can take the rest of the
    /// stream over.
    #[must_use]
    pub fn is_between_requests(&self) -> bool {
        self.position == 0 && self.missing == 0 && self.failed.is_none()
    }

    /// Forgets the complete requests of the call before.
    fn forget_whole(&mut self) {
        if let Some(last) = self.whole.last() {
            self.places.drain(..last.places_to);
            self.whole.clear();
            self.inline_words.clear();
            self.places.shrink_to(Self::KEEP_BYTES / 2 / size_of::<ArgumentPlace>());
            self.whole.shrink_to(Self::KEEP_BYTES / 4 / size_of::<WholeRequest>());
            self.inline_words.shrink_to(Self::KEEP_BYTES / 4);
        }
    }

    fn step(&mut self, input: &[u8]) -> Result<Decoded, ProtocolError> {
        match input.first() {
            None => Ok(Decoded::Incomplete),
            Some(b'*') => self.array(input),
            Some(_) => self.inline(input),
        }
    }

    #[inline]
    fn array(&mut self, input: &[u8]) -> Result<Decoded, ProtocolError> {
        if self.missing == 0 {
            let line = header(input, 1).number(ProtocolError::CountLine, ProtocolError::Count)?;
            let Some((count, next)) = line else { return Ok(Decoded::Incomplete) };
            if count <= 0 {
                return Ok(Decoded::Nothing(next));
            }
            self.missing = usize::try_from(count)
                .ok()
                .filter(|count| *count <= self.limits.arguments_max)
                .ok_or(ProtocolError::Count)?;
            self.position = next;
        }
        while self.missing > 0 {
            if self.bulk_bytes.is_none() && !self.bulk_header(input)? {
                return Ok(Decoded::Incomplete);
            }
            let Some(bytes) = self.bulk_bytes else { return Ok(Decoded::Incomplete) };
            let end = self.position + bytes;
            match input.get(end..) {
                Some([b'\r', b'\n', ..]) => {}
                Some([_, _, ..]) => return Err(ProtocolError::ExpectedCrlf),
                _ => return Ok(Decoded::Incomplete),
            }
            // The limit of a request's bytes keeps both places within 32 bits.
            self.places.push(ArgumentPlace { from: self.position as u32, to: end as u32 });
            self.position = end + 2;
            self.bulk_bytes = None;
            self.missing -= 1;
        }
        Ok(Decoded::Whole(self.position, false))
    }

    /// Reads the length of the argument that begins at the position, and moves the position to the argument's first
    /// byte. False if the line is incomplete.
    #[inline]
    fn bulk_header(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        match input.get(self.position) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
        }
        let line = header(input, self.position + 1);
        let line = line.number(ProtocolError::BulkLine, ProtocolError::BulkLength)?;
        let Some((bytes, next)) = line else { return Ok(false) };
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= self.limits.bulk_bytes_max)
            .ok_or(ProtocolError::BulkLength)?;
        if next.saturating_add(bytes).saturating_add(2) > self.limits.request_bytes_max {
            return Err(ProtocolError::RequestBytes);
        }
        self.position = next;
        self.bulk_bytes = Some(bytes);
        Ok(true)
    }

    #[cold]
    fn inline(&mut self, input: &[u8]) -> Result<Decoded, ProtocolError> {
        let searched = self.position.min(input.len());
        let found = input[searched..].iter().position(|&byte| byte == b'\n');
        let end = found.map_or(input.len(), |found| searched + found);
        let line = &input[..end];
        let line = match line.split_last() {
            // A CR at the end of a line without LF may be a part of the line's end.
            Some((b'\r', line)) => line,
            _ => line,
        };
        if line.len() > self.limits.inline_bytes_max {
            return Err(ProtocolError::InlineBytes);
        }
        if found.is_none() {
            self.position = end;
            return Ok(Decoded::Incomplete);
        }
        let arguments_before = self.places.len();
        let (places, arguments_max) = (&mut self.places, self.limits.arguments_max);
        inline::split(line, &mut self.inline_words, |from, to| {
            if places.len() - arguments_before == arguments_max {
                return Err(ProtocolError::Count);
            }
            places.push(ArgumentPlace { from: from as u32, to: to as u32 });
            Ok(())
        })?;
        if self.places.len() == arguments_before {
            return Ok(Decoded::Nothing(end + 1));
        }
        Ok(Decoded::Whole(end + 1, true))
    }
}

/// Requests found by a call of [`RequestDecoder::decode`], in order.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    decoder: &'a RequestDecoder,
    input: &'a [u8],
    consumed: usize,
}

impl<'a> Requests<'a> {
    /// Number of requests.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.decoder.whole.len()
    }

    /// True without requests.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.decoder.whole.is_empty()
    }

    /// Number of decoded bytes at the beginning of the input: the next call's input begins behind these bytes.
    #[must_use]
    #[inline]
    pub fn consumed_bytes(&self) -> usize {
        self.consumed
    }

    /// Error in the bytes behind these requests: answer the requests, then send the error, then close.
    #[must_use]
    pub fn error(&self) -> Option<ProtocolError> {
        self.decoder.failed
    }

    /// Request number `index`.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<Request<'a>> {
        let decoder = self.decoder;
        let whole = decoder.whole.get(index)?;
        let places_from = index.checked_sub(1).map_or(0, |before| decoder.whole[before].places_to);
        Some(Request {
            places: &decoder.places[places_from..whole.places_to],
            bytes: if whole.is_inline { &decoder.inline_words } else { &self.input[whole.from..] },
        })
    }

    /// Begin of request number `index` in the input.
    #[must_use]
    pub fn begin(&self, index: usize) -> Option<usize> {
        self.decoder.whole.get(index).map(|whole| whole.from)
    }

    /// All requests.
    pub fn iter(&self) -> impl Iterator<Item = Request<'a>> + use<'a> {
        let requests = *self;
        (0..requests.len()).filter_map(move |index| requests.get(index))
    }
}

/// A request: at least one argument. The first argument is the command's name.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    places: &'a [ArgumentPlace],
    bytes: &'a [u8],
}

#[expect(clippy::len_without_is_empty, reason = "a request has an argument at least")]
impl<'a> Request<'a> {
    /// Number of arguments, the command's name among them.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The argument number `index`; the command's name is number 0.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let place = self.places.get(index)?;
        Some(&self.bytes[place.from as usize..place.to as usize])
    }

    /// All arguments.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let request = *self;
        (0..request.len()).filter_map(move |index| request.get(index))
    }

    /// Appends the request as an array of bulk strings, such as for a decoder that reads the request later.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        sized_line(buffer, b'*', self.len());
        self.iter().for_each(|argument| bulk(buffer, argument));
    }
}

/// A request that a program makes of its arguments, such as a script that calls a command.
///
/// ```
/// use ensile_resp::RequestBuffer;
///
/// let mut buffer = RequestBuffer::default();
/// buffer.push(b"GET");
/// buffer.push(b"key");
/// let request = buffer.request().expect("it has arguments");
/// assert_eq!(request.iter().collect::<Vec<_>>(), [&b"GET"[..], b"key"]);
/// ```
#[derive(Debug, Default)]
pub struct RequestBuffer {
    places: Vec<ArgumentPlace>,
    bytes: Vec<u8>,
}

impl RequestBuffer {
    /// Removes all arguments.
    pub fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
    }

    /// Appends an argument. False if all arguments together would be longer than 4 GiB - 1 bytes: nothing is appended.
    pub fn push(&mut self, argument: &[u8]) -> bool {
        let from = self.bytes.len();
        let places = (u32::try_from(from), u32::try_from(from.saturating_add(argument.len())));
        let (Ok(from), Ok(to)) = places else { return false };
        self.bytes.extend_from_slice(argument);
        self.places.push(ArgumentPlace { from, to });
        true
    }

    /// Memory of the buffer in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.places.capacity() * size_of::<ArgumentPlace>() + self.bytes.capacity()
    }

    /// The request; `None` without an argument.
    #[must_use]
    pub fn request(&self) -> Option<Request<'_>> {
        (!self.places.is_empty()).then_some(Request { places: &self.places, bytes: &self.bytes })
    }
}

#[cfg(test)]
mod tests;
