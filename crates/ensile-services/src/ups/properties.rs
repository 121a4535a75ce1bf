//! The properties of a URL, and their operations (SLACH §5: crawl and modification times, language, further features).
//!
//! Invariant: an operation depends on itself and the URL's properties only, and a refused operation changes nothing.
//!
//! Neighbours: [`super`] has the commands, `persistence` logs.

use serde::{Deserialize, Serialize};

use crate::service::CallError;

/// Names of a URL's counters.
pub const COUNTERS: [&str; 4] = ["inlinks", "outlinks", "clicks", "duplicates"];

/// Properties of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct UrlProperties {
    /// Time of the last crawl, in seconds since 1970; 0 for never.
    pub crawled: u64,
    /// Time of the last seen modification, in seconds since 1970; 0 if unknown.
    pub modified: u64,
    /// Language of the text, two letters; zeros if unknown.
    pub language: [u8; 2],
    /// Number of successful crawls.
    pub crawls: u32,
    /// Number of failed crawls since the last successful crawl.
    pub failures: u32,
    /// Features that classifiers have found, a bit each.
    pub classes: u32,
    /// Counters in the order of [`COUNTERS`].
    pub counters: [i64; 4],
}

/// A change of a URL's properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub enum UrlOperation {
    /// A successful crawl.
    Crawled {
        /// Time of the crawl, in seconds since 1970.
        at: u64,
        /// Time of the page's modification, in seconds since 1970; 0 if unknown.
        modified: u64,
        /// Language of the text; zeros if unknown.
        language: [u8; 2],
    },
    /// A failed crawl.
    Failed,
    /// A change of a counter.
    Count {
        /// Place in [`COUNTERS`].
        counter: u8,
        /// Number to add.
        by: i64,
    },
    /// A change of features.
    Classify {
        /// Bits to set.
        set: u32,
        /// Bits to clear before.
        clear: u32,
    },
    /// Removal of the URL.
    Forget,
}

impl UrlOperation {
    /// Checks that the operation is possible. The error is the reason.
    pub(super) fn check(&self, url: Option<&UrlProperties>) -> Result<(), CallError> {
        let Self::Count { counter, by } = self else { return Ok(()) };
        let before = url.map_or(0, |url| url.counters[usize::from(*counter)]);
        before.checked_add(*by).map(drop).ok_or(CallError::Overflow)
    }

    /// Makes the change. Returns the changed number for the reply.
    pub(super) fn make(&self, url: &mut Option<UrlProperties>) -> i64 {
        if *self == Self::Forget {
            return i64::from(url.take().is_some());
        }
        let url = url.get_or_insert_default();
        match *self {
            Self::Crawled { at, modified, language } => {
                // Crawlers report in any order; the newest report counts.
                if at >= url.crawled && language != [0; 2] {
                    url.language = language;
                }
                url.crawled = url.crawled.max(at);
                url.modified = url.modified.max(modified);
                url.failures = 0;
                url.crawls = url.crawls.saturating_add(1);
                i64::from(url.crawls)
            }
            Self::Failed => {
                url.failures = url.failures.saturating_add(1);
                i64::from(url.failures)
            }
            Self::Count { counter, by } => {
                let count = &mut url.counters[usize::from(counter)];
                *count = count.wrapping_add(by);
                *count
            }
            Self::Classify { set, clear } => {
                url.classes = url.classes & !clear | set;
                i64::from(url.classes)
            }
            Self::Forget => 0,
        }
    }
}
