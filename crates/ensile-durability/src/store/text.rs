//! The grammar that the store's text files share: lines of named values, and a checksum as the last line.
//!
//! ```text
//! text := title lines "crc32c " 8 hex digits
//! line := name " " value (" " name " " value)*
//! ```
//! Invariant: a text has one spelling. What [`with_checksum`] writes [`checked_body`] accepts, and nothing else.
//!
//! Neighbours: the manifest, the marks of folders and the hint are such texts.

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{Disk, DiskError, FolderId};

use crate::error::unless_missing;

/// The first bytes of a file, `bytes_max` at most; `None` if there is no file.
pub(super) fn read(disk: &dyn Disk, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let Some(file) = unless_missing(disk.open_to_read(name))? else { return Ok(None) };
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// These lines, and their checksum behind them.
pub(super) fn with_checksum(body: &str) -> String {
    assert!(body.ends_with('\n'), "the checksum has a line of its own");
    let text = format!("{body}crc32c {}\n", checksum(body));
    debug_assert_eq!(checked_body(&text), Ok(body));
    text
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc32c(body.as_bytes()))
}

/// The lines before the checksum, if it is theirs.
pub(super) fn checked_body(text: &str) -> Result<&str, &'static str> {
    let without_end = text.strip_suffix('\n').ok_or("its last line is cut")?;
    let at = without_end.rfind('\n').ok_or("it has no checksum")? + 1;
    let (body, last) = without_end.split_at(at);
    let crc = last.strip_prefix("crc32c ").ok_or("it has no checksum")?;
    if crc == checksum(body) { Ok(body) } else { Err("its checksum is wrong") }
}

/// The values of a line of named values, `name value name value ..`, if these are the names.
pub(super) fn values<'l, const N: usize>(line: &'l str, names: &[&str; N]) -> Option<[&'l str; N]> {
    let words: Vec<&str> = line.split(' ').collect();
    let found = words.chunks_exact(2).map(|pair| pair[0]);
    if words.len() != 2 * N || !found.eq(names.iter().copied()) {
        return None;
    }
    Some(std::array::from_fn(|at| words[2 * at + 1]))
}

/// An epoch; the largest one is never used.
pub(super) fn parse_epoch(word: &str) -> Option<Epoch> {
    word.parse().ok().filter(|epoch| *epoch < Epoch::MAX.number()).map(Epoch::new)
}

/// A folder's number as text has it.
pub(super) fn shown_folder_id(FolderId { inode, born_nanos }: &FolderId) -> String {
    let born = born_nanos.map_or("none".to_owned(), |born| born.to_string());
    format!("inode {inode} born {born}")
}

/// The number that this text has.
pub(super) fn parse_folder_id(inode: &str, born: &str) -> Option<FolderId> {
    let born_nanos = if born == "none" { None } else { Some(born.parse().ok()?) };
    Some(FolderId { inode: inode.parse().ok()?, born_nanos })
}
