//! The pictures of an open database: base of the next picture, work on a part, and owner of the page files.
//!
//! Invariants: N12: no block that a readable manifest reaches is written over. N17: pages tile their section.
//!
//! Neighbours: the state cuts and fills pages ([`super::Pages`]); `files::picture` has the blocks, reader and writer.

pub(crate) mod version_check;

pub(crate) mod newer_picture;

pub(super) mod base_picture;

pub(super) mod picture_part_writer;

pub(super) mod picture_set;
