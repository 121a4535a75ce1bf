//! Found texts, kept until a reply announces their number.
//!
//! Neighbours: the walks of `keys`, `hashes` and `sets` find the texts.

use ensile_base::random::Random;
use ensile_resp::ReplyEncoder;

use crate::model::KEY_BYTES_MAX;

/// Texts one behind the other.
#[derive(Default)]
pub(super) struct FoundTexts {
    bytes: Vec<u8>,
    /// Ends of the texts in `bytes`.
    ends: Vec<usize>,
}

impl FoundTexts {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Length of all texts in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True if a reply has no room for the texts. The reply is then an error.
    pub(super) fn is_beyond_reply(&self) -> bool {
        self.bytes.len() + self.ends.len() * "$0\r\n\r\n".len() > ensile_serving::REPLY_BYTES
    }

    /// A text by its place.
    fn text(&self, at: usize) -> &[u8] {
        debug_assert!(at < self.ends.len(), "the place is below the number of texts");
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }

    /// The texts in a random order.
    pub(super) fn shuffled(&self, random: &mut Random) -> Self {
        let mut places: Vec<usize> = (0..self.count()).collect();
        for end in (1..places.len()).rev() {
            places.swap(end, random.next_below(end as u64 + 1) as usize);
        }
        let mut shuffled = Self::default();
        places.into_iter().for_each(|place| shuffled.push(self.text(place)));
        shuffled
    }

    /// True if a reply may have no room for the texts. A command that takes texts away refuses before.
    pub(super) fn may_be_beyond_reply(&self) -> bool {
        let lengths = (self.ends.len() + 4) * "$16777216\r\n\r\n".len();
        self.bytes.len() + lengths + KEY_BYTES_MAX > ensile_serving::REPLY_BYTES
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[*begin..*end])
    }

    /// Writes the texts as bulk strings, without their number.
    pub(super) fn write(&self, reply: &mut ReplyEncoder<'_>) {
        self.iter().for_each(|text| reply.bulk(text));
    }

    pub(super) fn write_array(&self, reply: &mut ReplyEncoder<'_>) {
        reply.array(self.count());
        self.write(reply);
    }
}
