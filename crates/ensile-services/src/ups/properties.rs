//! What is kept of a URL, and how operations change it (SLACH §5: crawl and modification times, language, other
//! features).
//!
//! Invariant: an operation depends on itself and the URL's properties only, and one that is refused changes nothing.
//!
//! Neighbours: [`super`] has the commands, `persist` logs.

use serde::{Deserialize, Serialize};

use crate::service::CallError;

/// The counters of a URL, by their names.
pub const COUNTERS: [&str; 4] = ["inlinks", "outlinks", "clicks", "duplicates"];

/// What is known of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct UrlProperties {
    /// When it was last crawled, in seconds since 1970; 0 for never.
    pub crawled: u64,
    /// When it was last seen to be modified; 0 for not known.
    pub modified: u64,
    /// Of its text, two letters; zeros for not known.
    pub language: [u8; 2],
    /// Crawls that succeeded.
    pub crawls: u32,
    /// Crawls that failed since the last one that succeeded.
    pub failures: u32,
    /// Features that classifiers have found, a bit each.
    pub classes: u32,
    /// By the order of [`COUNTERS`].
    pub counters: [i64; 4],
}

/// A change of a URL's properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub enum UrlOperation {
    /// It was crawled.
    Crawled {
        /// When, in seconds since 1970.
        at: u64,
        /// When it was modified; 0 for not known.
        modified: u64,
        /// Of its text; zeros for not known.
        language: [u8; 2],
    },
    /// It could not be crawled.
    Failed,
    /// A counter changes.
    Count {
        /// Its place in [`COUNTERS`].
        counter: u8,
        /// By how much.
        by: i64,
    },
    /// Features are found, and others are no longer.
    Classify {
        /// Bits that are set.
        set: u32,
        /// Bits that are cleared before.
        clear: u32,
    },
    /// It is no longer kept.
    Forget,
}

impl UrlOperation {
    /// Why it cannot be made.
    pub(super) fn check(&self, url: Option<&UrlProperties>) -> Result<(), CallError> {
        let Self::Count { counter, by } = self else { return Ok(()) };
        let before = url.map_or(0, |url| url.counters[usize::from(*counter)]);
        before.checked_add(*by).map(drop).ok_or(CallError::Overflow)
    }

    /// Makes it, and tells what its reply is: the number that it has changed.
    pub(super) fn make(&self, url: &mut Option<UrlProperties>) -> i64 {
        if *self == Self::Forget {
            return i64::from(url.take().is_some());
        }
        let url = url.get_or_insert_default();
        match *self {
            Self::Crawled { at, modified, language } => {
                // Crawlers report in any order; the newest counts.
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
