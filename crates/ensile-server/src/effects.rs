//! Effects of a transaction outside of the database, which take place once, after the commit.
//!
//! Invariant J1: a command notes effects and does nothing else. A run of a transaction begins without effects, and a
//! command that fails leaves none. The effects of a run that has not committed are dropped.
//!
//! Neighbours: commands note effects through [`crate::model::Keyspace`]; `execution` has them take place.

use ensile::{Error, Result};

use crate::blocking::Arrival;
use crate::channels::{ChannelKind, Message};

/// Largest memory of the messages of a transaction, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Largest number of arrivals that a transaction notes one by one.
const ARRIVALS_MAX: usize = 4096;

/// Effects of a run, in the order of the commands.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    messages: Vec<Message>,
    /// Memory of the messages in bytes.
    message_bytes: usize,
    /// Elements that others may wait for.
    arrivals: Vec<Arrival>,
    /// Looks at keys, those of commands that failed too.
    keys: KeyFigures,
}

/// Looks of transactions at keys, and removals of expired keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyFigures {
    /// Number of reads that found their key.
    pub(crate) hits: u64,
    /// Number of reads without their key.
    pub(crate) misses: u64,
    /// Number of expired keys whose rows were removed.
    pub(crate) expired: u64,
}

impl KeyFigures {
    /// The sum of two figures.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            expired: self.expired + other.expired,
        }
    }
}

/// A place in the list of effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectMark {
    messages: usize,
    message_bytes: usize,
    arrivals: usize,
}

impl Effects {
    /// Notes a message to the listeners of a channel.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the transaction has too many messages.
    pub(crate) fn publish(&mut self, kind: ChannelKind, channel: &[u8], text: &[u8]) -> Result<()> {
        let message = Message { kind, channel: channel.into(), text: text.into() };
        let bytes = self.message_bytes + message.memory_bytes();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "the transaction's sum of messages",
                bytes,
                bytes_max: MESSAGE_BYTES_MAX,
            });
        }
        self.message_bytes = bytes;
        self.messages.push(message);
        Ok(())
    }

    /// Notes elements that others may wait for.
    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        if self.arrivals.len() < ARRIVALS_MAX {
            self.arrivals.push(arrival);
            return;
        }
        // Wake-ups for all keys of the databases stand for the single ones: a wake-up in vain is no harm.
        let mut databases: Vec<u32> = self.arrivals.iter().chain([&arrival]).map(Arrival::database).collect();
        databases.sort_unstable();
        databases.dedup();
        self.arrivals = databases.into_iter().map(Arrival::Swapped).collect();
        debug_assert!(self.arrivals.len() < ARRIVALS_MAX, "there are few databases");
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.arrivals.is_empty()
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.arrivals.clear();
        self.message_bytes = 0;
        self.keys = KeyFigures::default();
    }

    /// Notes a read of a key.
    #[inline]
    pub(crate) fn note_read(&mut self, is_present: bool) {
        if is_present {
            self.keys.hits += 1;
        } else {
            self.keys.misses += 1;
        }
    }

    /// Notes the removal of an expired key.
    pub(crate) fn note_expired(&mut self) {
        self.keys.expired += 1;
    }

    /// Takes the looks at keys.
    #[inline]
    pub(crate) fn take_keys(&mut self) -> KeyFigures {
        std::mem::take(&mut self.keys)
    }

    /// The place behind the last effect.
    #[inline]
    pub(crate) fn mark(&self) -> EffectMark {
        EffectMark {
            messages: self.messages.len(),
            message_bytes: self.message_bytes,
            arrivals: self.arrivals.len(),
        }
    }

    /// Drops the effects behind a place: the commands have failed, or their script is rolled back.
    #[inline]
    pub(crate) fn back_to(&mut self, mark: EffectMark) {
        debug_assert!(mark.messages <= self.messages.len(), "J1: effects go back to an earlier place");
        self.messages.truncate(mark.messages);
        self.arrivals.truncate(mark.arrivals);
        self.message_bytes = mark.message_bytes;
    }

    /// The messages, the earliest first.
    #[inline]
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Takes the messages, the earliest first.
    pub(crate) fn take_messages(&mut self) -> Vec<Message> {
        self.message_bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Takes the arrivals of elements.
    pub(crate) fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Memory of the effects in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.message_bytes + self.arrivals.capacity() * size_of::<Arrival>()
    }
}
