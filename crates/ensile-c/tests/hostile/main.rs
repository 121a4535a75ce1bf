//! Wrong calls, from C's side of the boundary: each call gets its code, and changes nothing.
//!
//! Neighbours: `foreign` is an application in the terms of C; `handles`, `call_backs`, `poisoned` and `checked` misuse
//! the application.

mod call_backs;
mod checked;
mod foreign;
mod handles;
mod poisoned;
