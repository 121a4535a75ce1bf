//! The calendar of a server: the machine's time, or a time that a test moves.
//!
//! Neighbours: expiries, `TIME` and the sweeper ask for the time; [`crate::simulation`] sets the time of a test.

#[cfg(feature = "simulation")]
use ensile_base::clock::Clock;
use ensile_base::clock::unix_millis;

/// Source of the time in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) enum Calendar {
    Machine,
    /// A time that stands still until the clock is advanced.
    #[cfg(feature = "simulation")]
    Manual {
        /// Time at the begin of the clock, in milliseconds since 1970.
        begin_millis: u64,
        clock: Clock,
    },
}

impl Calendar {
    /// Time in milliseconds since 1970.
    #[inline]
    pub(crate) fn millis(&self) -> u64 {
        match self {
            Self::Machine => unix_millis(),
            #[cfg(feature = "simulation")]
            Self::Manual { begin_millis, clock } => begin_millis + clock.nanos() / 1_000_000,
        }
    }

    /// True if a test moves the time, and takes the sweeper's steps.
    pub(crate) fn is_manual(&self) -> bool {
        !matches!(self, Self::Machine)
    }
}
