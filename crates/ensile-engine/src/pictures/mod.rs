//! Pictures in memory: the maps of tables' pages, the marks of changes, and the versions that commits leave (SIREN,
//! §2.1, §3.1, §3.3).
//!
//! ```text
//! page_bounds      bounds of pages; the search for a key's page
//! partition        bounds of the next picture, from the rows of marked pages
//! pending_removes  versions left by commits; the state of a page: list, close, marks
//! page_map         the map of a table's pages in one picture
//! table_pages      the published map of a table, and the maps that wait for pins
//! loaded_pages     the pages of a loaded picture
//! attempts         attempts at pictures, and the marks that go from one to the next
//! page_space       buffers of checkpointers
//! prepared_pages   pages and versions that a commit finds before it binds
//! picture_state    the state of a database with pictures: attempts, lists, freed bytes
//! ```
//!
//! Neighbours: down, `record` and `formats`. Up, tables own their pages, commits mark pages and leave versions
//! (`commit::pending_removes`), and `checkpoint` takes pictures.

pub(crate) mod attempts;
pub(crate) mod loaded_pages;
pub(crate) mod page_bounds;
pub(crate) mod page_map;
pub(crate) mod page_space;
pub(crate) mod partition;
#[expect(
    unsafe_code,
    reason = "a version for a picture is a block of its own, which one list at a time owns"
)]
pub(crate) mod pending_removes;
pub(crate) mod picture_state;
pub(crate) mod prepared_pages;
#[expect(unsafe_code, reason = "commits follow a published map by its address, under their pin")]
pub(crate) mod table_pages;
