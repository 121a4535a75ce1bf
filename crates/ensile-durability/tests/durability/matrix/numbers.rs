//! Every number in a name or a file is set to the ends of its range, and the checksums behind it are made right again.
//!
//! Each way into such a folder returns: without a panic, without an endless loop, and without memory that a number only
//! claims. An open gives an error that names a file, or a state that the database had.
//!
//! `ENSILE_DAMAGE=all`, as `ci/damage.sh` sets it, tries all changes; otherwise one of [`SAMPLE`].

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::checksum::crc32c_append;

use super::folder::Folder;
use crate::prelude::*;

/// The ends of a number's range, and what is behind the numbers that a life counts.
const ENDS: [u64; 8] = [0, 1, u32::MAX as u64, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];
/// One of this many changes is in the sample. No list of ends or of ways has a common factor with it.
const SAMPLE: usize = 5;
const HEADER_BYTES: usize = 80;
/// Where an opening block names the salt.
const SALT_AT: usize = 96;
/// Header fields of four and of eight bytes.
const FIELDS: [(usize, usize); 9] =
    [(8, 4), (12, 4), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8), (56, 8), (64, 4)];

/// The folders whose numbers are changed: with a checkpoint, a closed generation, several files of each log.
fn folders() -> [Folder; 2] {
    [false, true].map(|closed| Folder::build(7, 700, closed))
}

/// Goes every way into the folder. What is wrong with what came of it.
fn enter(folder: &Folder, disk: &SimDisk) -> Result<(), String> {
    let on = |disk: &SimDisk| -> Arc<dyn Disk> { Arc::new(disk.fork()) };
    let named = |error: &DurabilityError| {
        let text = error.to_string();
        let places = ["MANIFEST", "HINT", "/FOLDER", "/log-", "/ckpt-", "are used up"];
        if places.iter().any(|place| text.contains(place)) { Ok(()) } else { Err(format!("no name: {text}")) }
    };
    let judged = catching("judge", || folder.judge(disk))?;
    if let Err(why) = judged
        && !why.starts_with("an error that does not say where")
    {
        return Err(why);
    }
    let examined = catching("examine", || examine(&on(disk), &Store::default()))?;
    examined.map(drop).or_else(|error| named(&error))?;
    match catching("repair", || repair(&on(disk), &Framing))? {
        // Why no cut helps.
        Ok(_) | Err(DurabilityError::Config(_)) => {}
        Err(error) => named(&error)?,
    }
    let mut show = |_: ensile_durability::Entry<'_>| ControlFlow::Continue(());
    let shown = catching("visit", || visit_log(&on(disk), &Framing, &mut show))?;
    shown.map(drop).or_else(|error| named(&error))?;
    let lived = catching("open", || {
        let disk = disk.fork();
        let life = Life::open(&disk, 3, settings())?;
        let mut worker = life.rig.worker();
        life.commit_epoch(&mut worker, 1, Some(b"later"));
        life.checkpoint()?;
        drop(worker);
        life.checkpoints.close(&life.store);
        life.rig.log.close()?;
        drop(life);
        Life::open(&disk, 3, settings()).map(drop)
    })?;
    lived.or_else(|error| named(&error))
}

fn catching<T: Debug>(what: &str, run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| format!("{what} panicked"))
}

/// Changed copies of a folder, and what is wrong with what came of them.
struct Trials<'f> {
    folder: &'f Folder,
    count: usize,
    wrong: Vec<String>,
}

impl<'f> Trials<'f> {
    fn over(folder: &'f Folder) -> Self {
        Self { folder, count: 0, wrong: Vec::new() }
    }

    /// The names of its files that `is_taken` picks.
    fn names(&self, is_taken: impl Fn(&str) -> bool) -> Vec<String> {
        self.folder.disk.files().into_iter().filter(|name| is_taken(name)).collect()
    }

    /// Goes into a copy with these bytes in the place of a file, or of no file.
    fn put(&mut self, told: &str, name: &str, bytes: Vec<u8>) {
        self.enter(told, |copy| copy.put(name, bytes));
    }

    fn enter(&mut self, told: &str, change: impl FnOnce(&SimDisk)) {
        self.count += 1;
        if !damages_all() && !self.count.is_multiple_of(SAMPLE) {
            return;
        }
        let copy = self.folder.copy();
        change(&copy);
        self.wrong.extend(enter(self.folder, &copy).err().map(|error| format!("{told}: {error}")));
    }

    fn end(self, what: &str) {
        let Self { count, wrong, .. } = self;
        println!("{what}: {count} changes, {} wrong", wrong.len());
        assert!(count > 100 && wrong.is_empty(), "{what}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// The numbers of a text, each with where it begins and ends.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, found)| found.is_ascii_digit()) {
        match found.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => found.push((at, at + 1)),
        }
    }
    found
}

#[test]
fn numbers_in_the_names_of_files_are_numbers_that_a_life_can_have() {
    for folder in folders() {
        let mut trials = Trials::over(&folder);
        for name in trials.names(|name| name.contains("/log-") || name.contains("/ckpt-")) {
            let (bytes, folder_end) = (folder.disk.bytes(&name), name.find('/').expect("it is in a folder"));
            for (at, end) in numbers(&name).into_iter().filter(|(at, _)| *at > folder_end) {
                for number in ENDS {
                    let to = format!("{}{number}{}", &name[..at], &name[end..]);
                    if folder.disk.files().contains(&to) {
                        continue;
                    }
                    trials.put(&format!("{name} also as {to}"), &to, bytes.clone());
                    trials.put(&format!("noise as {to}"), &to, vec![7; 1000]);
                    trials.enter(&format!("{name} as {to}"), |moved| {
                        moved.lose(&name);
                        moved.put(&to, bytes.clone());
                    });
                }
            }
        }
        trials.end("names");
    }
}

#[test]
fn numbers_in_manifest_hint_and_marks_are_numbers_that_a_life_can_have() {
    for folder in folders() {
        let mut trials = Trials::over(&folder);
        let is_text = |name: &str| ["MANIFEST", "HINT", "FOLDER"].iter().any(|end| name.ends_with(end));
        for name in trials.names(is_text) {
            let text = String::from_utf8(folder.disk.bytes(&name)).expect("it is text");
            let Some(checksum) = text.rfind("crc32c") else {
                assert!(name == "HINT" && text.is_empty(), "{name}: {text}");
                continue;
            };
            let body = &text[..checksum];
            for (at, end) in numbers(body) {
                // Digits of identities, salts and seals, and of a folder's name, are none.
                if !body[..at].ends_with(' ') || !body[end..].starts_with([' ', '\n']) {
                    continue;
                }
                for number in ENDS {
                    let changed = format!("{}{number}{}", &body[..at], &body[end..]);
                    let crc = crc32c(changed.as_bytes());
                    let told = format!("{name}: {} at {at} is {number}", &body[at..end]);
                    trials.put(&told, &name, format!("{changed}crc32c {crc:08x}\n").into_bytes());
                }
            }
        }
        trials.end("texts");
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Where each block begins and ends, and its kind.
fn blocks(bytes: &[u8]) -> Vec<(usize, usize, u8)> {
    let (mut at, mut blocks) = (0, Vec::new());
    while bytes.get(at..at + 4) == Some(b"EnsB") {
        let end = at + HEADER_BYTES + (u32_at(bytes, at + 12) as usize).next_multiple_of(8);
        blocks.push((at, end, bytes[at + 6]));
        at = end;
    }
    blocks
}

/// Gives all blocks from the one at `index` on the checksums that they would have been written with.
fn reseal(bytes: &mut [u8], list: &[(usize, usize, u8)], index: usize) {
    let salt = u32_at(bytes, SALT_AT);
    let mut previous = index.checked_sub(1).map(|before| u32_at(bytes, list[before].0 + 76));
    for &(at, end, _) in &list[index..] {
        let payload = crc32c(&bytes[at + HEADER_BYTES..end]);
        let header = &mut bytes[at..at + HEADER_BYTES];
        // A file's first block carries the checksum of the file before.
        if let Some(previous) = previous {
            header[68..72].copy_from_slice(&previous.to_le_bytes());
        }
        header[72..76].copy_from_slice(&payload.to_le_bytes());
        let crc = crc32c_append(if at == 0 { 0 } else { salt }, &header[..76]);
        header[76..].copy_from_slice(&crc.to_le_bytes());
        previous = Some(crc);
    }
}

/// Of each log and each checkpointer's files of one number the first and the last one.
fn first_and_last(names: Vec<String>) -> Vec<String> {
    let log = |name: &String| name.splitn(3, '-').take(2).collect::<Vec<_>>().join("-");
    let mut taken = Vec::new();
    for files in names.chunk_by(|a, b| log(a) == log(b)) {
        taken.extend(files.first().into_iter().chain(files[1..].last()).cloned());
    }
    taken
}

/// The ends of the range of a number of four or of eight bytes.
fn ends(width: usize) -> Vec<u64> {
    if width == 4 {
        return [0, 1 << 31, u32::MAX - 1, u32::MAX].map(u64::from).into();
    }
    vec![0, 1 << 63, u64::MAX - 1, u64::MAX]
}

/// The numbers of a block, payload's too, by its kind: where each begins in the block, and its bytes.
fn fields(kind: u8, payload_bytes: usize) -> Vec<(usize, usize)> {
    let payload: &[(usize, usize)] = match kind {
        // The first entry: its TID, its length.
        0 | 3 if payload_bytes > 0 => &[(0, 8), (8, 4)],
        // The totals of a checkpoint's file.
        4 => &[(0, 8), (8, 8)],
        // An opening block: salt, kind of entries, checkpoint, file.
        2 | 5 => &[(16, 4), (20, 4), (24, 8), (32, 4)],
        _ => &[],
    };
    FIELDS.iter().copied().chain(payload.iter().map(|(at, bytes)| (HEADER_BYTES + at, *bytes))).collect()
}

#[test]
fn numbers_in_blocks_are_numbers_that_a_life_can_have() {
    for folder in folders() {
        let mut trials = Trials::over(&folder);
        let names = trials.names(|name| name.contains("/log-") || name.contains("/ckpt-"));
        for name in first_and_last(names) {
            let bytes = folder.disk.bytes(&name);
            let list = blocks(&bytes);
            for (index, &(from, end, kind)) in list.iter().enumerate() {
                // Of each kind the first and the last one.
                let is_first = list.iter().position(|other| other.2 == kind) == Some(index);
                let is_last = list.iter().rposition(|other| other.2 == kind) == Some(index);
                if !is_first && !is_last {
                    continue;
                }
                for (at, width) in fields(kind, end - from - HEADER_BYTES) {
                    for number in ends(width) {
                        let mut changed = bytes.clone();
                        changed[from + at..from + at + width].copy_from_slice(&number.to_le_bytes()[..width]);
                        reseal(&mut changed, &list, index);
                        let told = format!("{name}: block {index}, {width} bytes at {at} are {number}");
                        trials.put(&told, &name, changed);
                    }
                }
            }
        }
        trials.end("blocks");
    }
}
