//! Lines of `ensile inspect`: generations, checkpoint, files and tables.
//!
//! Neighbours: [`ensile::folder::inspect`] collects the facts; `objects` prints the same lines.

use std::fmt::Write as _;

use ensile::folder::{
    AgeFacts, CheckpointFacts, Examination, FileFacts, PageFileFacts, PictureFacts, RangeFacts, Role,
    SectionFacts, TableFacts,
};

use super::backup_facts;
use super::figures::{format_bytes, format_epoch_range, hex, percent};

/// Lines about generations, checkpoint and files.
pub(crate) fn detail_lines(found: &Examination, tables: &[TableFacts]) -> String {
    let mut text = String::from("generations (one for each open):\n");
    for generation in &found.generations {
        let epochs = match generation.durable {
            None => format!("from epoch {}", generation.first.number()),
            Some(durable) if durable < generation.first => {
                format!("none before epoch {}", generation.first.number())
            }
            Some(durable) => format_epoch_range(generation.first, durable),
        };
        let state = if generation.is_closed { "closed" } else { "last" };
        let logs = match generation.logs {
            0 => "without a log".to_owned(),
            1 => "in 1 log".to_owned(),
            logs => format!("in {logs} logs"),
        };
        let _ = writeln!(
            text,
            "  {}: {state}, {epochs}, {logs}; {} entries to replay, {} in the checkpoint, {} void",
            generation.number, generation.entries, generation.covered_entries, generation.ignored_entries,
        );
    }
    text += &checkpoint_lines(found, tables);
    text.push_str("files:\n");
    let wide = found.files.iter().map(|file| file.name.len()).max().unwrap_or(0);
    for file in &found.files {
        let FileFacts { name, bytes, entries, epochs, .. } = file;
        let what = role(&file.role);
        let more = epochs.map_or_else(String::new, |(low, high)| {
            format!(", {entries} entries of {}", format_epoch_range(low, high))
        });
        let _ = writeln!(text, "  {name:wide$}  {:>10}  {what}{more}", format_bytes(*bytes));
    }
    text
}

/// A line for each table.
pub(super) fn table_lines(tables: &[TableFacts]) -> String {
    let mut text = String::from("tables:\n");
    let wide = tables.iter().map(|table| table.name.as_deref().unwrap_or("?").len()).max().unwrap_or(0);
    for table in tables {
        let TableFacts { id, key_type, value_type, value_layout, indexes, rows, bytes, .. } = table;
        let name = table.name.as_deref().unwrap_or("?");
        let indexes =
            if indexes.is_empty() { String::new() } else { format!(", indexes {}", indexes.join(", ")) };
        let images = match table.before_images {
            0 => String::new(),
            images => format!(", {images} before-images in the log"),
        };
        let types = if key_type.is_empty() {
            String::new()
        } else {
            let fields = value_layout.as_ref().map_or_else(String::new, |fields| format!(" {fields}"));
            format!(": {key_type} -> {value_type}{fields}{indexes}")
        };
        let _ = writeln!(
            text,
            "  {id:>4}  {name:wide$}  {rows:>10} rows  {:>10}{types}{images}",
            format_bytes(*bytes)
        );
    }
    text
}

/// Lines about the checkpoint, and about the pages of a picture.
fn checkpoint_lines(found: &Examination, tables: &[TableFacts]) -> String {
    let Some(facts) = &found.checkpoint else { return "checkpoint: none\n".to_owned() };
    let CheckpointFacts { number, low, high, files, entries, bytes, ranges, picture } = facts;
    let shown = match facts.picture_epoch() {
        Some(epoch) => format!("picture at the end of epoch {}", epoch.number()),
        None => format!("entries below epoch {}, valid from epoch {}", low.number(), high.number()),
    };
    let mut text = format!(
        "checkpoint {number}: {shown}; {entries} entries in {files} files, {}\n",
        format_bytes(*bytes)
    );
    ranges.iter().for_each(|range| text += &range_line(range, tables));
    if let Some(picture) = picture {
        let has_older = backup_facts::has_older(found.backup.as_ref());
        let rest = if has_older { "free or of older pictures" } else { "free" };
        text += &picture_lines(picture, tables, rest);
    }
    text
}

/// Line about a range of a cycling checkpoint.
fn range_line(range: &RangeFacts, tables: &[TableFacts]) -> String {
    let RangeFacts { start, number, low, high, entries, bytes, .. } = range;
    let named = tables.iter().find(|table| table.id == start.section).and_then(|table| table.name.as_deref());
    let from = if start.key.is_empty() { String::new() } else { format!(" key {}", hex(&start.key)) };
    format!(
        "  from table {} {}{from}: checkpoint {number}, entries below epoch {}, valid from epoch {}; {entries} entries, {}\n",
        start.section,
        named.unwrap_or("?"),
        low.number(),
        high.number(),
        format_bytes(*bytes),
    )
}

/// Lines about the pages of a picture: by table, by age and by file. `rest` describes the rest of a page file.
fn picture_lines(picture: &PictureFacts, tables: &[TableFacts], rest: &str) -> String {
    let PictureFacts { sections, ages, parts, displaced, files, .. } = picture;
    let (blocks, tails, tail_bytes) =
        (picture.displaced_blocks, picture.displaced_tails, picture.displaced_tail_bytes);
    let mut text = String::new();
    for SectionFacts { section, pages, entries, bytes, used_bytes } in sections {
        let named = tables.iter().find(|table| table.id == *section).and_then(|table| table.name.as_deref());
        let _ = writeln!(
            text,
            "  table {section} {}: {pages} pages, {entries} entries, {}, {} % filled",
            named.unwrap_or("?"),
            format_bytes(*bytes),
            percent(*used_bytes, *bytes),
        );
    }
    for AgeFacts { checkpoint, pages, bytes } in ages {
        let _ = writeln!(text, "  of checkpoint {checkpoint}: {pages} pages, {}", format_bytes(*bytes));
    }
    let _ = writeln!(
        text,
        "  directory in {parts} parts; {displaced} versions beside the pages, in {blocks} blocks and in {tails} tails \
         of pages, {}",
        format_bytes(tail_bytes)
    );
    for PageFileFacts { name, bytes, used_bytes } in files {
        let other = bytes.saturating_sub(*used_bytes);
        let _ = writeln!(text, "  {name}: {}, {} % {rest}", format_bytes(*bytes), percent(other, *bytes));
    }
    text
}

pub(super) fn role(role: &Role) -> String {
    match role {
        Role::Manifest => "says which of the others count".to_owned(),
        Role::Hint => "a witness of the durable epoch".to_owned(),
        Role::Rates => "what recoveries have cost".to_owned(),
        Role::Reserve => "space for the moment when the disk is full".to_owned(),
        Role::Lock => "the lock's file".to_owned(),
        Role::Folder => "says whose the folder is".to_owned(),
        Role::Log { generation, logger } => format!("log {logger} of generation {generation}"),
        Role::Buffer => "a mapped log buffer, which counts in the boot that wrote it".to_owned(),
        Role::Checkpoint { number } => format!("checkpoint {number}"),
        Role::Discarded(why) => format!("void: {why}; the next open removes it"),
        _ => "not the database's".to_owned(),
    }
}
