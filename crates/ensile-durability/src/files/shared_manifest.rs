//! Numbered manifests of a shared store. A manifest names the store's owner, and the files of a state that another
//! machine can take over (`docs/internals/formats/shared.md`).
//!
//! Invariants: H1 and H2. A manifest has exactly one spelling.
//!
//! Neighbours: `shipping::shipper` and `shipping::take_over` write manifests, and a take-over reads the newest
//! manifest. The lines of the state are lines of `manifest`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ensile_base::Epoch;

use super::manifest::Manifest;
use super::names::{PartName, SegmentFile, SegmentName};
use super::text::{add_lines, all_parsed, checked_body, next_parsed, parse_epoch, values, with_checksum};
use crate::entry_type::EntryType;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::application::ApplicationName;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::types::are_in_order;
use crate::identity::Identity;
use crate::number;

/// First words of the first line. The format's number follows.
const TITLE: &str = "ensile shared manifest ";
/// Format of a manifest without an application and without a durable epoch.
const SHARED_FORMAT_BEFORE_NAMES: u32 = 1;
/// Format of a manifest with an application and without a durable epoch.
const SHARED_FORMAT_BEFORE_DURABLE: u32 = 2;
/// Format of a manifest with a durable epoch and without types.
const SHARED_FORMAT_BEFORE_TYPES: u32 = 3;
/// Newest format. A program for an older format would report its lines as damage.
const SHARED_FORMAT: u32 = 4;
const _: () = assert!(
    SHARED_FORMAT_BEFORE_NAMES < SHARED_FORMAT_BEFORE_DURABLE
        && SHARED_FORMAT_BEFORE_DURABLE < SHARED_FORMAT_BEFORE_TYPES
        && SHARED_FORMAT_BEFORE_TYPES < SHARED_FORMAT,
    "L7: a later format has a larger number"
);
const _: () = assert!(SHARED_FORMAT < 10, "a title is as long as any other: see `HEAD_AT`");
/// Offset in bytes of the second line, [`SharedManifest::head`], by which a shipper recognizes its own manifest.
pub(crate) const HEAD_AT: u64 = TITLE.len() as u64 + 2;
/// Largest length of a manifest in bytes, far above any real length.
pub(crate) const SHARED_MANIFEST_BYTES_MAX: u64 = 64 << 20;
pub(crate) const MANIFESTS: &str = "manifests";

pub(crate) fn manifest_name(number: u64) -> String {
    format!("{MANIFESTS}/manifest-{number}")
}

/// Number of the manifest with this object name; `None` for any other name.
pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    let number = number::parse(name.strip_prefix(MANIFESTS)?.strip_prefix("/manifest-")?)?;
    (manifest_name(number) == name).then_some(number)
}

/// A file of the database in the shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedFile {
    /// Database that shipped the file.
    pub(crate) shipper: Identity,
    /// Salt of the file's checkpoint or generation. Name and salt together identify the file's bytes.
    pub(crate) salt: Salt,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
    /// Length in bytes of each object of the file except the last, smaller than `bytes`; `None` if the file is one
    /// object.
    pub(crate) object_bytes: Option<u64>,
}

/// An object of a file in the shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedPiece {
    pub(crate) object: String,
    /// Offset of the object in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl SharedFile {
    /// Name of the file in the store, from the file's name in the database's folder. A single object has this name. The
    /// names of several objects begin with this name.
    pub(crate) fn object(&self, name: &str) -> String {
        let Self { shipper, salt, .. } = self;
        let object = format!("{shipper}/{name}.{salt}");
        debug_assert_eq!(file_of(&object), object, "a name without pieces");
        object
    }

    /// Objects of the file, in order.
    pub(crate) fn pieces(&self, name: &str) -> Vec<SharedPiece> {
        let (whole, bytes) = (self.object(name), self.bytes);
        let Some(most) = self.object_bytes else {
            return vec![SharedPiece { object: whole, offset: 0, bytes }];
        };
        assert!(self.is_whole(), "a file of {bytes} bytes in objects of {most}");
        let piece = |offset: u64| {
            let end = (offset + most).min(bytes);
            SharedPiece { object: format!("{whole}.{offset}-{end}"), offset, bytes: end - offset }
        };
        let pieces: Vec<SharedPiece> = (0..bytes.div_ceil(most)).map(|at| piece(at * most)).collect();
        debug_assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), bytes, "H1: no byte is out");
        debug_assert!(
            pieces.is_sorted_by(|one, next| one.offset + one.bytes == next.offset),
            "H1: the objects of a file follow each other"
        );
        pieces
    }

    /// Line of the file of this name in a manifest, with the largest epoch of a log file.
    fn line(&self, word: &str, name: &str, largest: Option<Epoch>) -> String {
        let (object, Self { bytes, crc, .. }) = (self.object(name), self);
        let largest = largest.map_or_else(String::new, |largest| format!(" largest {largest}"));
        let pieces = self.object_bytes.map_or_else(String::new, |most| format!(" objects {most}"));
        format!("{word} {object} bytes {bytes} crc {crc:08x}{largest}{pieces}")
    }

    /// True if `object_bytes` is valid: the file is one object, or at least two objects.
    fn is_whole(&self) -> bool {
        self.object_bytes.is_none_or(|most| most > 0 && most < self.bytes)
    }
}

/// Name in the store of the file of which this object is the whole or a piece.
pub(crate) fn file_of(object: &str) -> &str {
    let mut dots = object.match_indices('.').map(|(at, _)| at);
    dots.nth(1).map_or(object, |end| &object[..end])
}

/// A log file in the shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedLog {
    /// Name without the end epoch of a closed file's name.
    pub(crate) file: SegmentFile,
    pub(crate) shared: SharedFile,
    /// Largest epoch of the entries in the file and in all earlier files of the log.
    pub(crate) largest: Epoch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedManifest {
    /// Identity of the store, drawn with the store's first manifest.
    pub(crate) store: Identity,
    pub(crate) number: u64,
    /// Number of take-overs, plus one.
    pub(crate) term: u64,
    /// Random number that distinguishes manifests with equal other fields.
    pub(crate) attempt: u64,
    /// Database that wrote the manifest.
    pub(crate) shipper: Identity,
    /// Upper bound of shown epochs (L6): no epoch at or above `reserved` was shown before the manifest was written.
    pub(crate) reserved: Epoch,
    /// Epoch above which the last shipping database had no durable entry at the time of its last manifest. The epoch is
    /// at least the epoch of the state; `None` in older formats.
    pub(crate) durable: Option<Epoch>,
    /// I5: name of the shipper's folder at the time of the manifest.
    pub(crate) application: Option<ApplicationName>,
    /// I6: types of the entries, by the shipper's folder at the time of the manifest.
    pub(crate) types: Vec<EntryType>,
    /// Databases that were taken over from, oldest first. A fenced database ships no more.
    pub(crate) fenced: Vec<Identity>,
    /// Number and salt of the shipper's first generation with files still to come. No file of an earlier generation is
    /// still to come.
    pub(crate) next: (u64, Salt),
    pub(crate) parts: Vec<(PartName, SharedFile)>,
    pub(crate) logs: Vec<SharedLog>,
    pub(crate) state: FilesState,
}

/// Reason why this program cannot use a text as a shared manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusableShared {
    /// The text is damaged, in this way.
    Damaged(&'static str),
    /// The manifest is intact, and of a newer format (L7).
    Newer,
}

impl SharedManifest {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, UnusableShared> {
        let damaged = UnusableShared::Damaged;
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let body = checked_body(text).map_err(damaged)?;
        let (title, lines) = body.split_once('\n').ok_or(damaged("it has no title"))?;
        let format: Option<u32> = title.strip_prefix(TITLE).and_then(|number| number.parse().ok());
        let format = format.ok_or(damaged("its title cannot be read"))?;
        if format > SHARED_FORMAT {
            return Err(UnusableShared::Newer);
        }
        let manifest = parse_lines(lines).ok_or(damaged("a line cannot be read"))?;
        if manifest.state.generations.iter().any(|generation| generation.format != FORMAT) {
            return Err(UnusableShared::Newer);
        }
        // For a few days between two releases, manifests of format 1 had the line of the application.
        let least = match (manifest.types.is_empty(), manifest.durable) {
            (false, _) => SHARED_FORMAT,
            (true, Some(_)) => SHARED_FORMAT_BEFORE_TYPES,
            (true, None) => SHARED_FORMAT_BEFORE_NAMES,
        };
        let is_too_old = format < least;
        if format > manifest.format() || is_too_old {
            return Err(damaged("its format is not that of its lines"));
        }
        if manifest.text(format) != text {
            return Err(damaged("a line is spelled otherwise than it is written"));
        }
        if manifest.is_whole() { Ok(manifest) } else { Err(damaged("its lines contradict each other")) }
    }

    /// True if the fields agree, the state is valid, and the manifest names every file of the state (H1).
    pub(crate) fn is_whole(&self) -> bool {
        let Self { number, term, shipper, reserved, durable, types, fenced, parts, logs, state, .. } = self;
        let is_numbered = *number > 0 && *term == fenced.len() as u64 + 1 && !fenced.contains(shipper);
        let part_names: BTreeSet<String> = parts.iter().map(|(part, _)| part.to_string()).collect();
        let log_bytes: BTreeMap<_, _> = logs.iter().map(|log| (log.file.name, log.shared.bytes)).collect();
        let mut named = state.checkpoint.iter().flat_map(|installed| installed.files());
        let has_parts = named.all(|name| part_names.contains(&name));
        let has_logs = state.generations.iter().all(|generation| {
            let spans = generation.spans.iter().enumerate();
            let is_listed = generation.spans.len() == generation.logs as usize;
            is_listed
                && spans.into_iter().all(|(logger, span)| {
                    (span.first..=span.last).all(|number| {
                        let name =
                            SegmentName { generation: generation.number, logger: logger as u32, number };
                        let bytes = log_bytes.get(&name);
                        bytes.is_some_and(|bytes| number < span.last || *bytes >= span.bytes)
                    })
                })
        });
        let files = parts.iter().map(|(_, shared)| shared).chain(logs.iter().map(|log| &log.shared));
        let are_whole = files.into_iter().all(SharedFile::is_whole);
        is_numbered
            && are_whole
            && are_in_order(types)
            && durable.is_none_or(|durable| durable >= state.epoch())
            && has_parts
            && has_logs
            && Manifest::is_whole_state(state, *shipper, *reserved)
    }

    /// Second line of the text, at offset [`HEAD_AT`]. No other manifest has the same line.
    pub(crate) fn head(&self) -> String {
        let Self { store, number, term, attempt, .. } = self;
        format!("store {store} number {number} term {term} attempt {attempt:016x}\n")
    }

    /// Oldest format that has all fields of the manifest.
    fn format(&self) -> u32 {
        match (self.durable, &self.application) {
            _ if !self.types.is_empty() => SHARED_FORMAT,
            (Some(_), _) => SHARED_FORMAT_BEFORE_TYPES,
            (None, Some(_)) => SHARED_FORMAT_BEFORE_DURABLE,
            (None, None) => SHARED_FORMAT_BEFORE_NAMES,
        }
    }

    /// Names of the objects of the manifest's files.
    pub(crate) fn objects(&self) -> impl Iterator<Item = String> + '_ {
        let parts = self.parts.iter().flat_map(|(part, shared)| shared.pieces(&part.to_string()));
        let logs = self.logs.iter().flat_map(|log| log.shared.pieces(&log.file.to_string()));
        parts.chain(logs).map(|piece| piece.object)
    }

    fn text(&self, format: u32) -> String {
        let Self { shipper, reserved, fenced, next, .. } = self;
        let durable = self.durable.map_or_else(String::new, |durable| format!(" durable {durable}"));
        let mut body = format!("{TITLE}{format}\n{}", self.head());
        add_lines(&mut body, [format!("shipper {shipper} reserved {reserved}{durable}")]);
        add_lines(&mut body, self.application.iter().map(ApplicationName::line));
        add_lines(&mut body, self.types.iter().map(EntryType::line));
        add_lines(&mut body, fenced.iter().map(|fenced| format!("fenced {fenced}")));
        add_lines(&mut body, [format!("next generation {} salt {}", next.0, next.1)]);
        let part = |(part, shared): &(PartName, SharedFile)| shared.line("part", &part.to_string(), None);
        add_lines(&mut body, self.parts.iter().map(part));
        let log = |log: &SharedLog| log.shared.line("log", &log.file.to_string(), Some(log.largest));
        add_lines(&mut body, self.logs.iter().map(log));
        add_lines(&mut body, [KeptState::Files(self.state.clone())]);
        debug_assert!(body[HEAD_AT as usize..].starts_with(&self.head()), "a shipper finds its own manifest");
        with_checksum(&body)
    }
}

impl fmt::Display for SharedManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(self.format()))
    }
}

/// Parses the lines behind the title.
fn parse_lines(text: &str) -> Option<SharedManifest> {
    let mut lines = text.lines().peekable();
    let [store, number, term, attempt] = values(lines.next()?, "store number term attempt")?;
    let line = lines.next()?;
    let (line, durable) = match line.split_once(" durable ") {
        Some((line, durable)) => (line, Some(parse_epoch(durable)?)),
        None => (line, None),
    };
    let [shipper, reserved] = values(line, "shipper reserved")?;
    let application = next_parsed(&mut lines, ApplicationName::parse);
    let types = all_parsed(&mut lines, EntryType::parse);
    let fenced = all_parsed(&mut lines, |line| Identity::parse(line.strip_prefix("fenced ")?));
    let [generation, salt] = values(lines.next()?.strip_prefix("next ")?, "generation salt")?;
    let next = (number::parse(generation)?, Salt::parse(salt)?);
    let parts = all_parsed(&mut lines, parse_part);
    let logs = all_parsed(&mut lines, parse_log);
    let state = FilesState::parse_next(&mut lines)?;
    let manifest = SharedManifest {
        store: Identity::parse(store)?,
        number: number::parse(number)?,
        term: number::parse(term)?,
        attempt: u64::from_str_radix(attempt, 16).ok()?,
        shipper: Identity::parse(shipper)?,
        reserved: parse_epoch(reserved)?,
        durable,
        application,
        types,
        fenced,
        next,
        parts,
        logs,
        state,
    };
    lines.next().is_none().then_some(manifest)
}

fn parse_part(line: &str) -> Option<(PartName, SharedFile)> {
    let (line, object_bytes) = parse_pieces(line)?;
    let [object, bytes, crc] = values(line, "part bytes crc")?;
    let (name, shared) = parse_file(object, bytes, crc, object_bytes)?;
    Some((PartName::parse_path(name)?, shared))
}

fn parse_log(line: &str) -> Option<SharedLog> {
    let (line, object_bytes) = parse_pieces(line)?;
    let [object, bytes, crc, largest] = values(line, "log bytes crc largest")?;
    let (name, shared) = parse_file(object, bytes, crc, object_bytes)?;
    let file = SegmentFile::parse_path(name).filter(|file| file.to.is_none())?;
    Some(SharedLog { file, shared, largest: parse_epoch(largest)? })
}

/// Splits the length of each object from the end of a file's line. The line of a file that is one object has no such
/// length.
fn parse_pieces(line: &str) -> Option<(&str, Option<u64>)> {
    match line.split_once(" objects ") {
        Some((line, most)) => Some((line, Some(most.parse().ok()?))),
        None => Some((line, None)),
    }
}

/// Parses the columns of a file's line. Returns the name in the database's folder, and the file.
fn parse_file<'l>(
    object: &'l str,
    bytes: &str,
    crc: &str,
    object_bytes: Option<u64>,
) -> Option<(&'l str, SharedFile)> {
    let (shipper, rest) = object.split_once('/')?;
    let (name, salt) = rest.rsplit_once('.')?;
    let (shipper, salt) = (Identity::parse(shipper)?, Salt::parse(salt)?);
    let (bytes, crc) = (bytes.parse().ok()?, u32::from_str_radix(crc, 16).ok()?);
    Some((name, SharedFile { shipper, salt, bytes, crc, object_bytes }))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
