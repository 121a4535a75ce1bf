//! The page files of pictures: one file in the folder of each checkpointer. A page stays in its place until the page
//! changes. `docs/internals/formats/pictures.md` has the grammar.
//!
//! Invariants: N10, N12, N17. The manifest vouches for the root, the root for parts and pending removes, a part for its
//! pages: by place, number, checkpoint and header checksum.
//!
//! Neighbours: `checkpoint::picture` writes the pages of a state; the manifest names the root; recovery loads;
//! `crate::backup` copies the blocks.

pub(crate) mod block_writer;
pub(crate) mod blocks;
pub(crate) mod blocks_read;
pub(crate) mod directory;
pub(crate) mod extents;
pub(crate) mod file;
pub(crate) mod installed_file;
pub(crate) mod loaded_picture;
pub(crate) mod location;
pub(crate) mod page;
pub(crate) mod pending_removes;
pub(crate) mod reader;
pub(crate) mod root;
