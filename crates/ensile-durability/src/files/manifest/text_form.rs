//! Text of a manifest: the lines that `Display` writes, and that [`Manifest::parse`] reads. The format of a manifest is
//! the oldest format that permits all of its lines ([`Manifest::format`]; L7).
//!
//! Neighbours: [`super::file`] reads and writes the text. The line of a value is in the file of the value.

use std::collections::BTreeSet;
use std::fmt;

use ensile_disk::{BootId, FolderId};

use super::contents::{Making, Manifest};
use crate::DurabilityError;
use crate::entry_type::EntryType;
use crate::files::block::FORMAT;
use crate::files::manifest::application::ApplicationName;
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::lineage::Lineage;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::names::MANIFEST;
use crate::files::text::{
    Lines, add_lines, all_parsed, checked_body, next_parsed, parse_epoch, parse_folder_id, shown_folder_id,
    values, with_checksum,
};
use crate::identity::Identity;

/// Beginning of the first line, before the number of the format.
const TITLE: &str = "ensile manifest ";
/// Beginning of the line of [`Manifest::ancestors`].
const ANCESTORS: &str = "ancestors ";
/// Format of a manifest without pictures and ranges, in which each generation has logs. Programs that know neither
/// pictures nor ranges can read this format.
const FORMAT_BEFORE_PICTURES: u32 = 3;
/// Format of a manifest with a picture, a checkpoint by ranges, an archive, a process-safe life, a generation without a
/// log, or generations that have left the list.
const FORMAT_BEFORE_NAMES: u32 = 4;
/// Format of a manifest with an application, or with a copy that has not ended. Older programs do not know these lines,
/// and would report damage.
const FORMAT_BEFORE_LOGGED_PICTURES: u32 = 5;
/// Format of a backup with an older state that is a picture with a log (N21).
const FORMAT_BEFORE_TYPES: u32 = 6;
/// Newest format: types of the entries. Older programs do not know the lines, and would report damage.
const MANIFEST_FORMAT: u32 = 7;
const _: () = assert!(
    FORMAT_BEFORE_PICTURES < FORMAT_BEFORE_NAMES
        && FORMAT_BEFORE_NAMES < FORMAT_BEFORE_LOGGED_PICTURES
        && FORMAT_BEFORE_LOGGED_PICTURES < FORMAT_BEFORE_TYPES
        && FORMAT_BEFORE_TYPES < MANIFEST_FORMAT,
    "L7: a later format has a larger number"
);

/// Reason why a text is no usable manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The text is damaged, with the detail.
    Damaged(&'static str),
    /// The text is intact, but has an unsupported format (L7).
    Foreign(&'static str),
}

impl Unusable {
    /// Converts the reason into the error that a reader of the manifest returns.
    pub(crate) fn into_error(self) -> DurabilityError {
        match self {
            Self::Damaged(detail) => DurabilityError::damaged_file(MANIFEST, 0, detail),
            Self::Foreign(detail) => {
                DurabilityError::Unknown { file: MANIFEST.to_owned(), offset: 0, detail }
            }
        }
    }
}

impl Manifest {
    /// Reads the text that `Display` writes.
    pub(super) fn parse(text: &str) -> Result<Self, Unusable> {
        let body = checked_body(text).map_err(Unusable::Damaged)?;
        let (title, lines) = body.split_once('\n').ok_or(Unusable::Damaged("it has no title"))?;
        let format = title.strip_prefix(TITLE).and_then(|number| number.parse().ok());
        let format: u32 = format.ok_or(Unusable::Damaged("its title cannot be read"))?;
        if format > MANIFEST_FORMAT {
            return Err(Unusable::Foreign("a newer version of Ensile made it"));
        }
        if format < FORMAT_BEFORE_PICTURES {
            return Err(Unusable::Foreign("a version of Ensile before its first release made it"));
        }
        let manifest = parse_lines(lines).ok_or(Unusable::Damaged("a line cannot be read"))?;
        // Between two releases, programs wrote the lines of format 5 into manifests of format 4.
        let is_early = (format, manifest.format()) == (FORMAT_BEFORE_NAMES, FORMAT_BEFORE_LOGGED_PICTURES);
        if manifest.format() != format && !is_early {
            return Err(Unusable::Damaged("its format is not that of its lines"));
        }
        let kept = manifest.kept_files().flat_map(|state| &state.generations);
        if manifest.generations.iter().chain(kept).any(|generation| generation.format != FORMAT) {
            return Err(Unusable::Foreign("its logs are of another version's format"));
        }
        if manifest.is_whole() {
            Ok(manifest)
        } else {
            Err(Unusable::Damaged("its lines contradict each other"))
        }
    }

    /// Oldest format that has every line of this manifest. Older programs can go on reading a manifest without new
    /// lines.
    fn format(&self) -> u32 {
        // A program without types would forget the types.
        if !self.types.is_empty() {
            return MANIFEST_FORMAT;
        }
        let is_newer = self.checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.is_of_first_release());
        let lacks_log = self.generations.iter().any(|generation| generation.logs == 0);
        // A program without archives would remove files that the archive lacks.
        let has_spans = self.generations.iter().any(|generation| !generation.spans.is_empty());
        // A program without mapped buffers would lose the entries in the buffers.
        let has_more = self.has_archive() || self.made_from.is_some() || has_spans || self.mapped.is_some();
        let remembers = !self.lineage.is_empty() || !self.ancestors.is_empty() || self.ships_to.is_some();
        // A program that knows no picture with a log would restore the picture alone.
        let newest = self.is_of_backup().then(|| self.newest_files_state()).flatten();
        if newest.iter().chain(self.kept_files()).any(|state| state.picture().is_some()) {
            return FORMAT_BEFORE_TYPES;
        }
        // A program without unfinished copies would make a new database here. A program without application names would
        // forget the owner.
        if self.unfinished.is_some() || self.application.is_some() {
            return FORMAT_BEFORE_LOGGED_PICTURES;
        }
        if is_newer || lacks_log || has_more || remembers {
            FORMAT_BEFORE_NAMES
        } else {
            FORMAT_BEFORE_PICTURES
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, parent, reserved, folders, lineage, ancestors, checkpoint, .. } = self;
        let parent = parent.map_or("none".to_owned(), |parent| parent.to_string());
        let state = match self.state {
            Making::Creating => "creating",
            Making::Created => "created",
        };
        let mut body =
            format!("{TITLE}{}\ndatabase {identity} parent {parent} state {state}\n", self.format());
        add_lines(&mut body, [format!("reserved {reserved}")]);
        add_lines(&mut body, self.made_from);
        add_lines(&mut body, self.unfinished);
        let folder = |(name, id)| format!("folder {name} {}", shown_folder_id(id));
        add_lines(&mut body, folders.iter().map(folder));
        add_lines(&mut body, self.archived);
        add_lines(&mut body, Some(lineage).filter(|lineage| !lineage.is_empty()));
        if !ancestors.is_empty() {
            let ancestors: Vec<_> = ancestors.iter().map(Identity::to_string).collect();
            add_lines(&mut body, [format!("{ANCESTORS}{}", ancestors.join(","))]);
        }
        add_lines(&mut body, self.mapped.map(|boot| format!("mapped {boot}")));
        add_lines(&mut body, self.ships_to);
        add_lines(&mut body, self.application.iter().map(ApplicationName::line));
        add_lines(&mut body, self.types.iter().map(EntryType::line));
        add_lines(&mut body, checkpoint);
        let is_picture = checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
        let (files, pictures): (Vec<_>, Vec<_>) = self.kept.iter().partition(|kept| kept.files().is_some());
        add_lines(&mut body, pictures.iter().filter(|_| is_picture));
        add_lines(&mut body, &self.generations);
        add_lines(&mut body, pictures.iter().filter(|_| !is_picture));
        add_lines(&mut body, files);
        f.write_str(&with_checksum(&body))
    }
}

/// Parses the lines after the title. `None` if a line is unknown or out of place.
fn parse_lines(text: &str) -> Option<Manifest> {
    let mut lines = text.lines().peekable();
    let mut manifest = parse_database(lines.next()?)?;
    manifest.folders.clear();
    manifest.reserved = parse_epoch(lines.next()?.strip_prefix("reserved ")?)?;
    manifest.made_from = next_parsed(&mut lines, MadeFrom::parse);
    manifest.unfinished = next_parsed(&mut lines, UnfinishedCopy::parse);
    while let Some((name, id)) = next_parsed(&mut lines, parse_folder) {
        if manifest.folders.insert(name, id).is_some() {
            return None;
        }
    }
    manifest.archived = next_parsed(&mut lines, ArchiveSeal::parse);
    manifest.lineage = next_parsed(&mut lines, Lineage::parse).unwrap_or_default();
    manifest.ancestors = next_parsed(&mut lines, parse_ancestors).unwrap_or_default();
    manifest.mapped = next_parsed(&mut lines, parse_mapped);
    manifest.ships_to = next_parsed(&mut lines, ShipsTo::parse);
    manifest.application = next_parsed(&mut lines, ApplicationName::parse);
    manifest.types = all_parsed(&mut lines, EntryType::parse);
    manifest.checkpoint = InstalledCheckpoint::parse_next(&mut lines)?;
    // Older pictures follow the newest picture. If the newest state has files, the older pictures follow its
    // generations.
    let is_picture = manifest.checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
    let mut pictures = if is_picture { parse_pictures(&mut lines) } else { Vec::new() };
    manifest.generations = all_parsed(&mut lines, Generation::parse);
    if !is_picture {
        pictures = parse_pictures(&mut lines);
    }
    let mut files = Vec::new();
    while lines.peek().is_some() {
        files.push(FilesState::parse_next(&mut lines)?);
    }
    manifest.kept = KeptState::merge(pictures, files);
    Some(manifest)
}

/// Parses the pictures at the beginning of the next lines.
fn parse_pictures(lines: &mut Lines<'_>) -> Vec<PictureCheckpoint> {
    std::iter::from_fn(|| PictureCheckpoint::parse_next(lines)).collect()
}

/// Parses the boot of a process-safe life, in its only spelling.
fn parse_mapped(line: &str) -> Option<BootId> {
    let boot = BootId::parse(line.strip_prefix("mapped ")?)?;
    (format!("mapped {boot}") == line).then_some(boot)
}

fn parse_database(line: &str) -> Option<Manifest> {
    let [identity, parent, state] = values(line, "database parent state")?;
    let parent = if parent == "none" { None } else { Some(Identity::parse(parent)?) };
    let state = match state {
        "creating" => Making::Creating,
        "created" => Making::Created,
        _ => return None,
    };
    // The folders come on later lines.
    let nowhere = FolderId { inode: 0, born_nanos: None };
    Some(Manifest { parent, state, ..Manifest::new(Identity::parse(identity)?, nowhere) })
}

/// Parses the ancestors, which are sorted and unique.
fn parse_ancestors(line: &str) -> Option<BTreeSet<Identity>> {
    let words = line.strip_prefix(ANCESTORS)?.split(',');
    let ancestors: Vec<Identity> = words.map(Identity::parse).collect::<Option<_>>()?;
    ancestors.is_sorted_by(|one, next| one < next).then(|| ancestors.into_iter().collect())
}

fn parse_folder(line: &str) -> Option<(String, FolderId)> {
    let [name, inode, born] = values(line, "folder inode born")?;
    Some((name.to_owned(), parse_folder_id(inode, born)?))
}
