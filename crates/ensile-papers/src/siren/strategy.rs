//! The strategy of checkpoints in a run, and the pace of a run with pictures.
//!
//! Neighbours: [`super::run`] opens databases by these; [`super::arguments`] takes them from the command line.

use std::path::Path;

use clap::ValueEnum;
use ensile::{Builder, Database, Durability, Tuning, checkpoint};

/// Content of a checkpoint, and place of displaced versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Fuzzy, as SiloR's, with the log.
    Fuzzy,
    /// Fuzzy, and the log has before-images besides, as a log for undo and redo has.
    UndoRedo,
    /// A picture; displaced versions stay in memory until their page is written (§3.1).
    Lists,
    /// A picture; displaced versions are written at once (§3.3).
    SemiFuzzy,
    /// Semi-fuzzy, without a log: a result is durable once a picture has the result (§5).
    NoLog,
}

impl Strategy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fuzzy => "fuzzy (SiloR)",
            Self::UndoRedo => "fuzzy, undo and redo",
            Self::Lists => "lists",
            Self::SemiFuzzy => "semi-fuzzy",
            Self::NoLog => "no log",
        }
    }

    /// True if the database has a log.
    pub(super) fn has_log(self) -> bool {
        self != Self::NoLog
    }

    /// A builder of a database of this strategy. With a log transactions are relaxed.
    pub(super) fn builder(self, path: &Path) -> Builder {
        let builder = Database::builder(path);
        if self.has_log() { builder.durability(Durability::Relaxed) } else { builder.without_log() }
    }

    /// Sets the checkpoint options of a database.
    pub(super) fn tune(self, tuning: &mut Tuning) {
        tuning.checkpoint_strategy = Some(match self {
            Self::Fuzzy | Self::UndoRedo => checkpoint::Strategy::Fuzzy,
            _ => checkpoint::Strategy::Pictures,
        });
        tuning.semi_fuzzy = matches!(self, Self::SemiFuzzy | Self::NoLog);
    }
}

/// A strategy, and the part that is as slow as the device of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Lists; the walk is paced.
    Lists,
    /// Lists; the device is slow (for the files of `--device`).
    ListsOnDevice,
    /// Semi-fuzzy; the walk is paced, and displaced versions are written at the full speed of the disk.
    SemiFuzzy,
    /// Semi-fuzzy; the device is slow for pages and displaced versions together.
    SemiFuzzyOnDevice,
}

impl Way {
    pub(super) fn strategy(self) -> Strategy {
        match self {
            Self::Lists | Self::ListsOnDevice => Strategy::Lists,
            Self::SemiFuzzy | Self::SemiFuzzyOnDevice => Strategy::SemiFuzzy,
        }
    }

    pub(super) fn is_on_slow_device(self) -> bool {
        matches!(self, Self::ListsOnDevice | Self::SemiFuzzyOnDevice)
    }

    /// Name in tables and figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::ListsOnDevice => "lists, slow device",
            Self::SemiFuzzy => "semi-fuzzy",
            Self::SemiFuzzyOnDevice => "semi-fuzzy, slow device",
        }
    }
}
