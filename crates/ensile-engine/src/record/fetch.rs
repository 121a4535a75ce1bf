//! Range of a record to prefetch while only the record's address is known. If the table's rows have one length, the
//! range is exactly the record's lines. Otherwise the range is a guess, and the remainder follows once the record's
//! size is known.
//!
//! Neighbours: each table has a [`Fetch`]; multi-gets, batches and scans prefetch with it.

use ensile_memory::SizeClass;

use super::layout::HEADER_BYTES;
use super::reference::{Address, Record};

/// Length of the prefetch, in bytes, for rows of different lengths.
const GUESS: usize = 128;
/// Largest length of a prefetch in bytes: the processor prefetches the following lines by itself.
const BYTES_MAX: usize = 768;

/// Amount of a table's records to prefetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    /// Length of the first prefetch in bytes.
    at_once: u16,
    /// True if the table's rows have different lengths.
    is_guess: bool,
}

impl Fetch {
    /// For readers of a record's first words only, which show if the record is the needed version.
    pub(crate) const HEADER: Self = Self { at_once: 1, is_guess: false };

    /// For rows of `bytes` bytes each; `None` for rows of different lengths.
    pub(crate) fn of_rows(bytes: Option<usize>) -> Self {
        let at_once = bytes.map_or(GUESS, |bytes| bytes.saturating_add(HEADER_BYTES).min(BYTES_MAX));
        debug_assert!(
            (1..=BYTES_MAX).contains(&at_once),
            "rows have bytes, and no more is prefetched than pays"
        );
        Self { at_once: at_once as u16, is_guess: bytes.is_none() }
    }

    /// Prefetches the record.
    #[inline]
    pub(crate) fn ask(self, record: Address) {
        record.prefetch_exactly(usize::from(self.at_once));
    }

    /// As [`Fetch::ask`], for a record with a known or likely class: no guess is needed.
    #[inline]
    pub(crate) fn ask_knowing(self, record: Address, class: SizeClass) {
        let bytes = if self.is_guess { class.bytes().min(BYTES_MAX) } else { usize::from(self.at_once) };
        debug_assert!(bytes <= BYTES_MAX);
        record.prefetch_exactly(bytes);
    }

    /// True if [`Fetch::ask_for_rest`] may have work.
    #[inline]
    pub(crate) fn is_guess(self) -> bool {
        self.is_guess
    }

    /// Prefetches the lines beyond a guess, after the request for the first lines.
    #[inline]
    pub(crate) fn ask_for_rest(record: Record<'_>) {
        let bytes = record.class().bytes().min(BYTES_MAX);
        if bytes > GUESS {
            record.address().prefetch_rest(GUESS, bytes);
        }
    }
}

const _: () = assert!(GUESS <= BYTES_MAX && BYTES_MAX <= u16::MAX as usize);
