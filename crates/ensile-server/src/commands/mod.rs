//! Commands over data: a file with the functions for each type of value.
//!
//! Invariants:
//! - A command that fails has written nothing to its transaction but removals of expired keys, so the other commands of
//!   an `EXEC` keep their effect.
//! - A command over data touches nothing but its transaction and its reply, so it can run again after a conflict.
//!
//! Neighbours: `command_table` names the functions, and `execution` calls them; [`crate::model::Keyspace`] has the
//! rows.

mod arguments;
pub(crate) mod common_subsequence;
mod decimal;
mod elements;
mod error;
pub(crate) mod expiry;
mod found;
mod found_entries;
mod found_members;
pub(crate) mod hashes;
pub(crate) mod keys;
pub(crate) mod list_waits;
pub(crate) mod lists;
pub(crate) mod memory;
mod random_elements;
mod scan;
mod scores;
pub(crate) mod sets;
pub(crate) mod sorted_set_operations;
pub(crate) mod sorted_set_ranges;
pub(crate) mod sorted_set_waits;
pub(crate) mod sorted_sets;
mod stream_arguments;
pub(crate) mod stream_info;
pub(crate) mod stream_reads;
pub(crate) mod streams;
pub(crate) mod strings;

use ensile_resp::{ReplyEncoder, Request};

pub(crate) use arguments::{PATTERN_BYTES_MAX, check_channel};
pub(crate) use error::{CommandError, RaisedError, shown_text};

use crate::blocking::{KeyWait, LookTerms};
use crate::channels::LoopChannels;
use crate::model::Keyspace;

/// Largest number of waited keys of a client. A wake-up looks at every key of the client.
const WAITED_KEYS_MAX: usize = 1024;

/// Result of a command over data.
pub(crate) type CommandResult = Result<(), CommandError>;

/// Function of a command over data.
pub(crate) type DataFunction = fn(&mut DataCall<'_, '_>, &mut ReplyEncoder<'_>) -> CommandResult;

/// A request for a command over data, within a transaction.
pub(crate) struct DataCall<'c, 'db> {
    pub(crate) keyspace: Keyspace<'c, 'db>,
    pub(crate) request: Request<'c>,
    /// Channels of the server, for the numbers of listeners.
    pub(crate) channels: &'c LoopChannels,
    /// Terms of a wait for keys.
    pub(crate) look: LookTerms<'c>,
}

impl<'c> DataCall<'c, '_> {
    /// Lets the client wait for keys without elements. The command has written nothing, returns the error, and runs
    /// again later, as a new transaction. After `Ok` the command may not wait, and replies the absence.
    ///
    /// # Errors
    /// [`CommandError::Wait`].
    pub(crate) fn wait(&self, wait: KeyWait) -> CommandResult {
        if self.look.may_wait && wait.keys.len() > WAITED_KEYS_MAX {
            return Err(CommandError::Text("too many keys: a client waits for 1024 keys at most"));
        }
        if self.look.may_wait { Err(CommandError::Wait(wait)) } else { Ok(()) }
    }

    /// An argument of the request, the first behind the name is 1. The request has the command's number of arguments.
    #[inline]
    pub(crate) fn argument(&self, at: usize) -> &'c [u8] {
        debug_assert!(at < self.request.len(), "the number of arguments was checked");
        self.request.get(at).unwrap_or_default()
    }

    /// The arguments of the request from this one on.
    pub(crate) fn arguments(&self, from: usize) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        let request = self.request;
        (from..request.len()).map(move |at| request.get(at).unwrap_or_default())
    }
}
