//! Choice of a backup's state as the source of an epoch. Pure: epochs go in, the decision comes out.
//!
//! | state | has itself | with an archive |
//! |---|---|---|
//! | picture at e_c | e_c | counted epochs of (e_c, ..], as far as the archive continues from e_c without a gap |
//! | copy of files, closed at S | counted epochs of [e_h, S], by its own log | counted epochs of (S, ..], likewise |
//!
//! Invariants: A5 (no discarded epoch, and none below e_h), A2 (forward within one range). The choice with the least
//! work comes first: an unchanged state; a copy's own log; then the newest state from which the archive continues.
//!
//! Neighbours: [`super::copy_source`] asks; `recovery::archive` has the archive.

use ensile_base::Epoch;

use crate::files::manifest::backup_states::KeptState;
use crate::recovery::archive::ForwardReach;

/// Epochs reachable from a state of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateReach {
    /// Epoch at whose end the state stands.
    epoch: Epoch,
    /// Ranges of epochs in the state's own files, ends included, oldest first, up to `epoch`.
    own: Vec<(Epoch, Epoch)>,
    /// Epochs reachable by an archive.
    forward: ForwardReach,
}

/// Way from a state to an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestoreWay {
    /// The state unchanged.
    AsItIs,
    /// A shorter part of the copy's own log.
    Back,
    /// The archive's log after the state.
    Forward,
}

/// The state at the end of epoch `at`, and its further treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChosenState {
    pub(super) at: Epoch,
    pub(super) way: RestoreWay,
}

/// Reason why an epoch is unreachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EpochNotHad {
    /// The epoch is before the first epoch of the backup.
    Before,
    /// No commit of the epoch counted.
    Discarded,
    /// The epoch is after the last available epoch, or a file in between is missing.
    Missing,
    /// Reason from the archive.
    NotCounted(String),
}

impl StateReach {
    /// Reachable epochs of this state. `forward` has the epochs to which the archive brings the state.
    pub(super) fn new(state: &KeptState, forward: ForwardReach) -> Self {
        let epoch = state.epoch();
        let own = state.files().map_or_else(|| vec![(epoch, epoch)], |files| files.own_epochs());
        assert!(own.last().is_some_and(|(_, last)| *last == epoch), "a state has its own epoch");
        assert!(forward.end.is_none_or(|end| end >= epoch), "A2: forward");
        Self { epoch, own, forward }
    }

    /// True if the state has this epoch in its own files.
    fn has(&self, epoch: Epoch) -> bool {
        self.own.iter().any(|(first, last)| *first <= epoch && epoch <= *last)
    }

    /// Smallest epoch in the state's own files.
    fn least(&self) -> Epoch {
        self.own.first().map_or(self.epoch, |(first, _)| *first)
    }

    /// True if the archive brings the state forward to this epoch.
    fn reaches(&self, epoch: Epoch) -> bool {
        self.forward.counted.iter().any(|(first, last)| *first <= epoch && epoch <= *last)
    }
}

/// Chooses the state, and its treatment, for the database at the end of epoch `to`. `states` has the newest first.
/// `counted` is the archive's answer for `to`.
///
/// # Errors
/// Reason why the epoch is unreachable.
pub(super) fn choose(
    states: &[StateReach],
    to: Epoch,
    counted: Result<(), String>,
) -> Result<ChosenState, EpochNotHad> {
    assert!(states.is_sorted_by(|newer, older| newer.epoch > older.epoch), "the newest first");
    let chosen = |state: &StateReach, way| Ok(ChosenState { at: state.epoch, way });
    if let Some(state) = states.iter().find(|state| state.epoch == to) {
        return chosen(state, RestoreWay::AsItIs);
    }
    if let Some(state) = states.iter().find(|state| state.has(to)) {
        return chosen(state, RestoreWay::Back);
    }
    let reaching = states.iter().find(|state| state.reaches(to));
    debug_assert!(reaching.is_none_or(|state| state.epoch < to), "A2: an archive brings a state forward");
    match (reaching, counted) {
        (Some(state), Ok(())) => chosen(state, RestoreWay::Forward),
        (Some(_), Err(why)) => Err(EpochNotHad::NotCounted(why)),
        (None, _) if states.iter().all(|state| to < state.least()) => Err(EpochNotHad::Before),
        // The epoch is between two lives of a copy.
        (None, _) if states.iter().any(|state| state.least() < to && to < state.epoch) => {
            Err(EpochNotHad::Discarded)
        }
        (None, Err(why)) => Err(EpochNotHad::NotCounted(why)),
        (None, Ok(())) => Err(EpochNotHad::Missing),
    }
}

/// Text of the reason for these states, with the available epochs. `archive` has the epoch after which the archive
/// begins, and its missing files, in brackets.
pub(super) fn format_reason(
    why: &EpochNotHad,
    states: &[StateReach],
    to: Epoch,
    archive: Option<(Epoch, String)>,
) -> String {
    let before = states.iter().find(|state| state.epoch < to);
    let begins = archive.as_ref().map(|(begins, _)| *begins);
    let (with, missing) = match &archive {
        Some((_, missing)) => (" with this archive", missing.as_str()),
        None => ("", ""),
    };
    let why = match why {
        EpochNotHad::Before => {
            let alone = match begins {
                Some(Epoch::ZERO) => {
                    "; the archive was begun with the database: `ensile restore-archive` needs no backup"
                }
                _ => "",
            };
            format!("epoch {to} is before all that the backup has{alone}")
        }
        EpochNotHad::Discarded => {
            format!("epoch {to} was discarded: it lies between two lives of the database")
        }
        EpochNotHad::NotCounted(why) => format!("{why}{missing}"),
        EpochNotHad::Missing => match (before, begins) {
            (Some(StateReach { epoch, forward: ForwardReach { end: Some(end), .. }, .. }), _) => format!(
                "from the backup's state of epoch {epoch} on the archive goes up to epoch {end} only{missing}"
            ),
            (Some(StateReach { epoch, .. }), Some(begins)) if *epoch < begins => format!(
                "the archive begins behind epoch {begins}, and the backup's newest state before epoch {to} is of epoch \
                 {epoch}: what was committed in between is in neither{missing}"
            ),
            (_, Some(_)) => format!("no state of the backup can be brought to epoch {to}{missing}"),
            (_, None) => {
                format!("epoch {to} is not in the backup; the database's archive may have what is missing")
            }
        },
    };
    format!("{why}. What can be had from this backup{with}: {}", format_epochs(&reachable(states)))
}

/// All available epochs, in order.
pub(super) fn reachable(states: &[StateReach]) -> Vec<(Epoch, Epoch)> {
    let mut all: Vec<(Epoch, Epoch)> =
        states.iter().flat_map(|state| state.own.iter().chain(&state.forward.counted).copied()).collect();
    all.sort_unstable();
    let mut joined = Vec::<(Epoch, Epoch)>::new();
    for (first, last) in all {
        match joined.last_mut() {
            Some(before) if first <= before.1.next() => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    debug_assert!(joined.is_sorted_by(|one, next| one.1.next() < next.0), "A5: spans have gaps: {joined:?}");
    joined
}

/// Epochs, as an error names them.
fn format_epochs(epochs: &[(Epoch, Epoch)]) -> String {
    let one = |(first, last): &(Epoch, Epoch)| match first == last {
        true => format!("epoch {first}"),
        false => format!("epochs {first} to {last}"),
    };
    if epochs.is_empty() {
        "nothing".to_owned()
    } else {
        epochs.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
