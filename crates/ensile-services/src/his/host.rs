//! What is kept of a web host, and how operations change it (SLACH §5: its country, its URLs, its network delay).
//!
//! Invariant: an operation depends on itself and the host only, and one that is refused changes nothing.
//!
//! Neighbours: [`super`] has the commands, `persist` logs.

use serde::{Deserialize, Serialize};

use crate::service::CallError;

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct HostInformation {
    /// The day of the last daily figures, counted from 1970; 0 for none.
    pub day: u32,
    /// Days of which there were figures.
    pub days: u32,
    /// Its country, two letters; zeros for not known.
    pub country: [u8; 2],
    /// URLs of it that are stored.
    pub urls: i64,
    /// The moving average of its network delay, in microseconds; 0 for not measured.
    pub delay_micros: u64,
}

/// Figures of a host that come once a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct DailyFigures {
    /// Of which day, counted from 1970.
    pub day: u32,
    /// Its country, two letters.
    pub country: [u8; 2],
    /// URLs of it that are stored.
    pub urls: i64,
    /// Its network delay, in microseconds.
    pub delay_micros: u64,
}

/// A change of what is known of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub enum HostOperation {
    /// A day's figures.
    Daily(DailyFigures),
    /// URLs that are stored, more or less.
    Add(i64),
    /// A measured delay, in microseconds.
    Delay(u64),
    /// It is no longer kept.
    Forget,
}

/// A measured delay counts one in so many in the average.
const DELAY_WEIGHT: u64 = 8;

impl HostOperation {
    /// Why it cannot be made.
    pub(super) fn check(&self, host: Option<&HostInformation>) -> Result<(), CallError> {
        let Self::Add(by) = self else { return Ok(()) };
        let before = host.map_or(0, |host| host.urls);
        before.checked_add(*by).map(drop).ok_or(CallError::Overflow)
    }

    /// Makes it, and tells what its reply is.
    pub(super) fn make(&self, host: &mut Option<HostInformation>) -> i64 {
        if *self == Self::Forget {
            return i64::from(host.take().is_some());
        }
        let host = host.get_or_insert_default();
        match *self {
            // Figures of an older day than those that are there come too late.
            Self::Daily(figures) if figures.day < host.day => 0,
            Self::Daily(DailyFigures { day, country, urls, delay_micros }) => {
                host.days = host.days.saturating_add(u32::from(day > host.day));
                (host.day, host.country, host.urls, host.delay_micros) = (day, country, urls, delay_micros);
                1
            }
            Self::Add(by) => {
                host.urls = host.urls.wrapping_add(by);
                host.urls
            }
            Self::Delay(micros) => {
                let (before, weight) = (u128::from(host.delay_micros), u128::from(DELAY_WEIGHT));
                let is_first = host.delay_micros == 0;
                let average = ((weight - 1) * before + u128::from(micros)) / weight;
                host.delay_micros = if is_first { micros } else { average as u64 };
                i64::try_from(host.delay_micros).unwrap_or(i64::MAX)
            }
            Self::Forget => 0,
        }
    }
}
