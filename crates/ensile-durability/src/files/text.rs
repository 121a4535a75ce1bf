//! Grammar of the store's text files: lines `name value name value ..`, and as the last line `crc32c` with 8 hex
//! digits.
//!
//! Invariant: A text has a single spelling. [`checked_body`] accepts exactly the texts of [`with_checksum`].
//!
//! Neighbours: The manifest, the shared manifest, the list of an archive, the marks of folders, the hint and the rates
//! are texts of this grammar.

use std::fmt::Display;
use std::iter::Peekable;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{Disk, DiskError, FolderId};

use crate::error::unless_missing;

/// Lines of a text, in reading order.
pub(crate) type Lines<'l> = Peekable<std::str::Lines<'l>>;

/// Reads at most `bytes_max` bytes from the beginning of a file; `None` if the file is missing.
pub(crate) fn read(disk: &dyn Disk, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let Some(file) = unless_missing(disk.open_to_read(name))? else { return Ok(None) };
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    debug_assert!(bytes.len() as u64 <= bytes_max, "{name} is read beyond its limit");
    Ok(Some(bytes))
}

/// Appends the line of the checksum to the lines of `body`.
pub(crate) fn with_checksum(body: &str) -> String {
    assert!(body.ends_with('\n'), "the checksum has a line of its own");
    let text = format!("{body}crc32c {}\n", checksum(body));
    debug_assert_eq!(checked_body(&text), Ok(body));
    text
}

fn checksum(body: &str) -> String {
    let digits = format!("{:08x}", crc32c(body.as_bytes()));
    debug_assert_eq!(digits.len(), 8, "a checksum has a single spelling");
    digits
}

/// Lines before the checksum, if the checksum is correct; otherwise the detail for an error.
pub(crate) fn checked_body(text: &str) -> Result<&str, &'static str> {
    let without_end = text.strip_suffix('\n').ok_or("its last line is cut")?;
    let at = without_end.rfind('\n').ok_or("it has no checksum")? + 1;
    let (body, last) = without_end.split_at(at);
    debug_assert!(body.ends_with('\n') && !last.contains('\n'), "the last line stands alone");
    let crc = last.strip_prefix("crc32c ").ok_or("it has no checksum")?;
    if crc == checksum(body) { Ok(body) } else { Err("its checksum is wrong") }
}

/// The value of the next line, if `parse` reads the line: the line is taken then. A line that no parser reads stays,
/// and makes the text unreadable in the end.
pub(crate) fn next_parsed<T>(lines: &mut Lines<'_>, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let parsed = parse(lines.peek()?)?;
    lines.next();
    Some(parsed)
}

/// The values of the next lines, as far as `parse` reads the lines.
pub(crate) fn all_parsed<T>(lines: &mut Lines<'_>, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
    std::iter::from_fn(|| next_parsed(lines, &parse)).collect()
}

pub(crate) fn add_lines<T: Display>(text: &mut String, values: impl IntoIterator<Item = T>) {
    debug_assert!(text.ends_with('\n'), "a line stands behind a line");
    values.into_iter().for_each(|value| *text += &format!("{value}\n"));
}

/// Values of a line `name value name value ..`. `None` if the names differ from the words of `names`.
pub(crate) fn values<'l, const N: usize>(line: &'l str, names: &str) -> Option<[&'l str; N]> {
    let words: Vec<&str> = line.split(' ').collect();
    let found = words.chunks_exact(2).map(|pair| pair[0]);
    if words.len() != 2 * N || !found.eq(names.split(' ')) {
        return None;
    }
    Some(std::array::from_fn(|at| words[2 * at + 1]))
}

/// Reads an epoch. [`Epoch::MAX`] is refused, because it is never used.
pub(crate) fn parse_epoch(word: &str) -> Option<Epoch> {
    word.parse().ok().filter(|epoch| *epoch < Epoch::MAX.number()).map(Epoch::new)
}

/// Text of a folder's inode and birth time.
pub(crate) fn shown_folder_id(FolderId { inode, born_nanos }: &FolderId) -> String {
    let born = born_nanos.map_or("none".to_owned(), |born| born.to_string());
    let shown = format!("inode {inode} born {born}");
    debug_assert_eq!(
        values(&shown, "inode born").and_then(|[inode, born]| parse_folder_id(inode, born)),
        Some(FolderId { inode: *inode, born_nanos: *born_nanos }),
        "the text of a folder reads back"
    );
    shown
}

/// Reads a folder's inode and birth time from the values of [`shown_folder_id`].
pub(crate) fn parse_folder_id(inode: &str, born: &str) -> Option<FolderId> {
    let born_nanos = if born == "none" { None } else { Some(born.parse().ok()?) };
    Some(FolderId { inode: inode.parse().ok()?, born_nanos })
}
