//! The services from outside: commands, replies that wait, recovery, lines.

mod handshakes;
mod his;
mod lines;
mod memory;
mod panics;
mod pht;
mod power_cuts;
mod processes;
mod protocol;
mod rig;
mod transactions;
mod ups;
