//! Views of a decoded reply: a tree of borrowed values over the flat list of elements.
//!
//! Neighbours: [`super`] has read the elements and checked every text, so views never fail.

use super::{Element, ElementKind, double};
use crate::header::integer;

/// A reply, and the number of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct DecodedReply<'a> {
    elements: &'a [Element],
    input: &'a [u8],
    consumed: usize,
}

impl<'a> DecodedReply<'a> {
    pub(super) fn new(elements: &'a [Element], input: &'a [u8], consumed: usize) -> Self {
        Self { elements, input, consumed }
    }

    /// Number of bytes of the reply at the beginning of the input. The next call's input begins there.
    #[must_use]
    pub fn consumed_bytes(&self) -> usize {
        self.consumed
    }

    /// The reply.
    #[must_use]
    pub fn reply(&self) -> Reply<'a> {
        let mut whole =
            Replies { elements: self.elements, input: self.input, at: 0, end: self.elements.len(), left: 1 };
        whole.next().unwrap_or(Reply::Null)
    }
}

/// A reply of either version.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// A line of text.
    Simple(&'a [u8]),
    /// An error: its code, a space, the message.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A string of arbitrary bytes.
    Bulk(&'a [u8]),
    /// No value.
    Null,
    /// A floating point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Text for a person, and its format in three letters.
    Verbatim([u8; 3], &'a [u8]),
    /// A whole number of arbitrary size, in digits.
    BigNumber(&'a [u8]),
    /// Replies in order.
    Array(Replies<'a>),
    /// Pairs of key and value.
    Map(Replies<'a>),
    /// Replies in no order.
    Set(Replies<'a>),
    /// A message that answers no request.
    Push(Replies<'a>),
}

/// The children of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Replies<'a> {
    elements: &'a [Element],
    input: &'a [u8],
    at: usize,
    end: usize,
    left: usize,
}

impl<'a> Replies<'a> {
    fn text(&self, element: Element) -> &'a [u8] {
        &self.input[element.from as usize..element.to as usize]
    }

    fn children(&self, element: Element) -> Self {
        Self { at: self.at, end: element.to as usize, left: element.from as usize, ..*self }
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        let mut element = *self.elements[..self.end].get(self.at)?;
        while element.kind == ElementKind::Attribute {
            self.at = element.to as usize;
            element = *self.elements[..self.end].get(self.at)?;
        }
        self.at += 1;
        self.left -= 1;
        let children = |replies: &mut Self| {
            let children = replies.children(element);
            replies.at = element.to as usize;
            children
        };
        Some(match element.kind {
            ElementKind::Simple => Reply::Simple(self.text(element)),
            ElementKind::Error => Reply::Error(self.text(element)),
            ElementKind::Integer => Reply::Integer(integer(self.text(element)).unwrap_or(0)),
            ElementKind::Bulk => Reply::Bulk(self.text(element)),
            ElementKind::Null | ElementKind::Attribute => Reply::Null,
            ElementKind::Double => Reply::Double(double(self.text(element)).unwrap_or(f64::NAN)),
            ElementKind::Boolean => Reply::Boolean(self.text(element) == b"t"),
            ElementKind::Verbatim => {
                let text = self.text(element);
                Reply::Verbatim([text[0], text[1], text[2]], &text[4..])
            }
            ElementKind::BigNumber => Reply::BigNumber(self.text(element)),
            ElementKind::Array => Reply::Array(children(self)),
            ElementKind::Map => Reply::Map(children(self)),
            ElementKind::Set => Reply::Set(children(self)),
            ElementKind::Push => Reply::Push(children(self)),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Replies<'_> {}
