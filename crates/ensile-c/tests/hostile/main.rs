//! Calls that are wrong, from C's side of the boundary: each gets its code, and leaves everything as it was.
//!
//! Neighbours: `foreign` is an application as C has it; `handles` and `call_backs` use it badly.

mod call_backs;
mod foreign;
mod handles;
