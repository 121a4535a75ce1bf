//! UPS in this process: URLs with properties, looked up and crawled at random (SLACH §5, §6.2).
//!
//! Neighbours: [`super::checkpoint_loss`] and [`super::logging`] call this module; the requests of [`super::services`]
//! have the same URLs.

use ensile_base::random::Random;
use ensile_bench::{Failure, Result};
use ensile_objects::{Objects, ObjectsBuilder};
use ensile_services::ups::{UrlOperation, UrlProperties};

/// Digits of a URL's number; the host has another three digits.
const DIGITS: usize = 12;
const HOST_DIGITS: usize = 3;
/// A URL, with the places of its numbers.
const URL: &[u8] = b"http://host000.example/page000000000000";
pub(super) const URL_BYTES: usize = URL.len();
const HOST_AT: usize = 11;
const PAGE_AT: usize = URL_BYTES - DIGITS;

/// Writes a number's digits, padded with zeros in front.
pub(super) fn write_digits(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Writes the URL of this number; the URL has [`URL_BYTES`].
pub(super) fn write_url(url: &mut [u8], number: u64) {
    url.copy_from_slice(URL);
    write_digits(&mut url[HOST_AT..HOST_AT + HOST_DIGITS], number % 1_000);
    write_digits(&mut url[PAGE_AT..], number);
}

/// URLs of this process.
pub(super) struct Urls {
    pub(super) objects: Objects<Vec<u8>, UrlProperties>,
    count: u64,
    url: Vec<u8>,
}

impl Urls {
    /// Opens the URLs of a folder. The folder must have no URLs yet.
    pub(super) fn open(builder: ObjectsBuilder) -> Result<Self> {
        Ok(Self { objects: builder.open()?, count: 0, url: URL.to_vec() })
    }

    /// Number of URLs.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Makes `more` further URLs.
    pub(super) fn add(&mut self, more: u64) -> Result<()> {
        for _ in 0..more {
            self.count += 1;
            self.crawl(self.count - 1)?;
        }
        Ok(())
    }

    /// One request: a crawl in `writes_percent` of a hundred requests, else a look.
    #[inline]
    pub(super) fn request(&mut self, random: &mut Random, writes_percent: u64) -> Result<()> {
        let number = random.next_below(self.count);
        if random.percent(writes_percent) {
            return self.crawl(number);
        }
        write_url(&mut self.url, number);
        let crawls = self.objects.look(&self.url, |url| url.map(|url| url.crawls))?.0.ok_or_else(lost)?;
        std::hint::black_box(crawls);
        Ok(())
    }

    #[inline]
    fn crawl(&mut self, number: u64) -> Result<()> {
        write_url(&mut self.url, number);
        let crawl = UrlOperation::Crawled { at: 1_700_000_000, modified: 1_600_000_000, language: *b"en" };
        std::hint::black_box(self.objects.submit(self.url.clone(), &crawl)?.0);
        Ok(())
    }

    /// Makes a checkpoint. Returns the bytes of the checkpoint.
    pub(super) fn checkpoint(&self) -> Result<u64> {
        let report = self.objects.checkpoint().wait()?;
        Ok(report.bytes_written)
    }
}

#[cold]
fn lost() -> Failure {
    Failure::Usage("a URL that was made is lost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{URL, write_url};

    #[test]
    fn a_url_has_its_number() {
        let mut url = URL.to_vec();
        write_url(&mut url, 1_234_567);
        assert_eq!(url, b"http://host567.example/page000001234567");
        write_url(&mut url, 0);
        assert_eq!(url, URL);
    }
}
