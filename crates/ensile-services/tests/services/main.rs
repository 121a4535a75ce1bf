//! The services from outside: commands, replies that wait, recovery, lines.

mod lines;
mod pht;
mod protocol;
mod rig;
