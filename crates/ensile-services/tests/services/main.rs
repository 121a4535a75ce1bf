//! The services from outside: commands, replies that wait, recovery, lines.

mod his;
mod lines;
mod panics;
mod pht;
mod power_cuts;
mod processes;
mod protocol;
mod rig;
mod ups;
