//! The log and its recovery through the public API: logging, recovering, poison, latency, and a seeded simulation.
#![cfg(not(any(loom, shuttle)))]

mod archives;
mod campaign;
mod checkpoints;
mod damage;
mod files;
mod first_open;
mod formats;
mod full;
mod full_opens;
mod hints;
mod leases;
mod lives;
mod locks;
mod logging;
mod matrix;
mod next_files;
mod poison;
mod recovering;
mod repair_crashes;
mod repairing;
mod replay_order;
mod reserved;
mod rig;
mod simulation;
mod waiting;
