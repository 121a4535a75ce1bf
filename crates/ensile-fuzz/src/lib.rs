//! Fuzz targets as ordinary functions: a target takes any bytes, and panics at a broken promise.
//!
//! `fuzz/` wraps the targets for cargo-fuzz: coverage guides the bytes. `tests/corpora.rs` replays the kept corpora in
//! `fuzz/corpus` and mutates the kept inputs on the stable toolchain, with every run of the tests.
//!
//! Neighbours: the key codec (engine), the index, the formats of log and page files, recovery, the RESP codec, and the
//! commands and scripts of the server are fuzzed; the disk is `ensile-sim`'s.
#![forbid(unsafe_code)]

mod commands;
mod index;
mod input;
mod key_order;
mod log_blocks;
mod mutation;
mod page_files;
mod recovery;
mod resp;
mod sandbox;
mod served;

pub use commands::commands;
pub use index::index;
pub use key_order::key_order;
pub use log_blocks::log_blocks;
pub use mutation::mutate;
pub use page_files::page_files;
pub use recovery::recovery;
pub use resp::resp;
pub use sandbox::sandbox;

/// A target: name of the target and of its corpus, and function of the target.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 8] = [
    ("key_order", key_order),
    ("index", index),
    ("log_blocks", log_blocks),
    ("page_files", page_files),
    ("recovery", recovery),
    ("resp", resp),
    ("commands", commands),
    ("sandbox", sandbox),
];
