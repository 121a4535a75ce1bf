//! Decisions in the life of a checkpoint, without effects: circumstances and outcomes of actions lead to an action.
//!
//! ```text
//!          due, and there is room: e_l = E          E >= e_l + 1: slices         all parts synced: e_h = E
//! Idle ------------------------------------> Opening ----------------> Walking ----------------------------> Walked
//!   ^                                           |                         | a part failed        marks of e_h: |
//!   |                                           v                         v                      manifest      v
//!   +---- the attempt's files are removed --- Failing <-------------------+-------- not replaced ----------- (busy)
//!   +---- covered files are removed --------- Clearing <------------------------------ replaced --------------+
//! ```
//! A picture opens in three steps: pages are published, the freeze S is announced, pages are dealt out; in between the
//! stage is `Opening` again. In `Closing`, before `Walked`, its directory and root are written.
//!
//! While a checkpointer carries out a `Duty`, the stage is `Busy` and the other checkpointers wait. A close, a poisoned
//! log, a removed file, an unknown manifest or a panic leads from any stage to `Ended`. After `Ended`, the attempt
//! under way changes nothing more, except that a manifest already replaced still names its checkpoint.
//!
//! Invariants:
//! - K1: the manifest names a checkpoint once the marks that `strategy` demands are synced in every log. A file is
//!   removed only after the manifest that makes the file superfluous is durable.
//! - A checkpoint closes epochs early, as strict waiters do (E5 keeps the least spacing).
//! - A failed attempt is cleaned up once no checkpointer writes, and changes nothing else: the log goes on.
//! - N13: each attempt ends its published pages once, when no checkpointer is to take more pages.
//!
//! Neighbours: `manager` carries out actions and reports their outcomes. `control` decides when a checkpoint is due.

// Order of the modules, low to high: a file uses files before it.
mod state;

mod range_schedule;

mod action;
mod history;
mod strategy;

mod attempt;
mod schedule;

mod machine;

pub(super) use action::{
    Action, Answers, Circumstances, CutParts, NotInstalled, OpenFigures, PartTask, Rules, Terms,
};
pub(super) use machine::{CLOSED, CheckpointStateMachine};
pub(super) use range_schedule::Taken;
