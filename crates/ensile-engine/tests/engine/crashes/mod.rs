//! Crashes and failing disks: the whole engine on the simulated disk, against a ledger of what it promised.
//!
//! A seeded life is run once, and power fails or the process dies at every call that it made to the disk; what is left
//! is recovered, with power failing in the midst of that too, written to, and crashed again. And each call fails, once
//! and for good.
//!
//! `ci/crashes.sh` runs longer; `ENSILE_SEED=n` begins at that database.

mod driver;
mod failing;
mod life;
mod points;
