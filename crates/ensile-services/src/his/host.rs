//! The information on a web host, and its operations (SLACH §5: country, URLs, network delay).
//!
//! Invariant: an operation depends on itself and the host only, and a refused operation changes nothing.
//!
//! Neighbours: [`super`] has the commands, `persistence` logs.

use serde::{Deserialize, Serialize};

use crate::service::CallError;

/// Information on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct HostInformation {
    /// Day of the last daily figures, counted from 1970; 0 for none.
    pub day: u32,
    /// Number of days with figures.
    pub days: u32,
    /// Country, two letters; zeros if unknown.
    pub country: [u8; 2],
    /// Number of stored URLs of the host.
    pub urls: i64,
    /// Moving average of the network delay, in microseconds; 0 if not measured.
    pub delay_micros: u64,
}

/// Daily figures of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub struct DailyFigures {
    /// Day of the figures, counted from 1970.
    pub day: u32,
    /// Country, two letters.
    pub country: [u8; 2],
    /// Number of stored URLs of the host.
    pub urls: i64,
    /// Network delay, in microseconds.
    pub delay_micros: u64,
}

/// A change of the information on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)] // persist
pub enum HostOperation {
    /// A day's figures.
    Daily(DailyFigures),
    /// Number of stored URLs to add.
    Add(i64),
    /// A measured delay, in microseconds.
    Delay(u64),
    /// Removal of the host.
    Forget,
}

/// Inverse weight of a measured delay in the average.
const DELAY_WEIGHT: u64 = 8;

impl HostOperation {
    /// Checks that the operation is possible. The error is the reason.
    pub(super) fn check(&self, host: Option<&HostInformation>) -> Result<(), CallError> {
        let Self::Add(by) = self else { return Ok(()) };
        let before = host.map_or(0, |host| host.urls);
        before.checked_add(*by).map(drop).ok_or(CallError::Overflow)
    }

    /// Makes the change. Returns the number for the reply.
    pub(super) fn make(&self, host: &mut Option<HostInformation>) -> i64 {
        if *self == Self::Forget {
            return i64::from(host.take().is_some());
        }
        let host = host.get_or_insert_default();
        match *self {
            // Figures of a day before the last day come too late.
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
                debug_assert!(average <= before.max(micros.into()), "an average is no larger than its parts");
                host.delay_micros = if is_first { micros } else { average as u64 };
                i64::try_from(host.delay_micros).unwrap_or(i64::MAX)
            }
            Self::Forget => 0,
        }
    }
}
