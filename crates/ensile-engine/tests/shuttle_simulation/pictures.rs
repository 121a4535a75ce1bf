//! What an installed picture must show: of each key the newest write of an epoch up to e_c, and nothing of a key whose
//! newest change is a delete (N1 to N4, N12, N13; `docs/internals/protocols/pictures.md`).
//!
//! The picture is read from the disk alone, as `ensile verify` reads it. What it has to show comes from the history.
//!
//! Neighbours: `life` checks what crashes leave; `client` records the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;
use ensile_durability::{Entry, LoadedPages, Recoverable, Refused, examination};
use ensile_sim::SimDisk;
use ensile_sim::history::{History, Key, Operation, Outcome, Value};

use crate::life::{manifest, number, whole};
use crate::picture_pages::{LastPicture, LoadedFirstKeys};
use crate::plan::{Pictures, Plan};
use crate::seen;

/// Names of late tables begin so; behind it stands the table's place.
pub(crate) const LATE: &str = "late";
/// The name of the table with the other rows.
pub(crate) const ROWS: &str = "rows";
/// The section of the catalogue (`docs/internals/formats/rows.md`).
const CATALOGUE: u32 = 0;

/// A row of a picture, as its file has it.
struct LoadedRow {
    section: u32,
    tid: Tid,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Takes what a load brings.
#[derive(Default)]
struct Loaded {
    rows: Mutex<Vec<LoadedRow>>,
    first_keys: LoadedFirstKeys,
}

impl Recoverable for Loaded {
    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut rows = self.rows.lock().expect("no panic");
        rows.extend(entries.iter().map(|entry| {
            // `docs/internals/formats/checkpoint.md`: the key's length, the key, the value.
            let (length, row) = entry.body.split_first_chunk().expect("a key has a length");
            let (key, value) = row.split_at(usize::from(u16::from_le_bytes(*length)));
            LoadedRow { section, tid: entry.tid, key: key.to_vec(), value: value.to_vec() }
        }));
        Ok(())
    }

    fn load_pages(&self, pages: &LoadedPages<'_>) -> bool {
        self.first_keys.note(pages);
        // It marks nothing.
        false
    }
}

/// The picture that is installed on the disk of a database that nobody has open.
struct Picture {
    number: u64,
    /// e_c.
    epoch: Epoch,
    versions: BTreeMap<Key, (Tid, Value)>,
    /// Keys that came from a page and from beside it.
    twice: BTreeSet<Key>,
}

/// The number of the checkpoint that the manifest names, or 0.
pub(crate) fn installed(disk: &SimDisk) -> u64 {
    let manifest = manifest(disk);
    let number = |line: &str| {
        // A range's line has the key first at which it begins.
        let of_range =
            || line.starts_with("range ").then(|| line.split_once(" checkpoint ").map(|(_, words)| words));
        let words = line.strip_prefix("picture ").or_else(|| line.strip_prefix("checkpoint "));
        words.or_else(|| of_range()?)?.split(' ').next()?.parse().ok()
    };
    manifest.lines().filter_map(number).max().unwrap_or(0)
}

/// Checks what is installed. A crash leaves the checkpoint that was installed last, or a newer one.
pub(crate) fn check(
    disk: &SimDisk,
    plan: &Plan,
    installed_before: u64,
    history: &History,
    last: &mut LastPicture,
) {
    let (number, picture) = read(disk, plan, last);
    assert!(number >= installed_before, "checkpoint {installed_before} was installed, and now {number} is");
    if let Some(picture) = picture {
        picture.check(history);
    }
}

/// The number of what is installed, or 0, and the picture if it is one.
fn read(disk: &SimDisk, plan: &Plan, last: &mut LastPicture) -> (u64, Option<Picture>) {
    let (loaded, disk): (_, Arc<dyn Disk>) = (Loaded::default(), Arc::new(disk.mounted()));
    let found = examination::examine(&disk, &loaded)
        .unwrap_or_else(|error| panic!("what is left is not whole: {error}"));
    assert!(found.is_whole(), "what is left is damaged: {:?} {:?}", found.damage, found.unread);
    let Some(checkpoint) = found.checkpoint else { return (0, None) };
    let Some(epoch) = checkpoint.picture_epoch() else { return (checkpoint.number, None) };
    let durable = found.durable_epoch.expect("it is whole");
    assert!(durable >= epoch, "picture {} at e_c {epoch}: D is {durable} (N12)", checkpoint.number);
    seen::PAGES.count(last, &checkpoint, loaded.first_keys);
    let rows = loaded.rows.into_inner().expect("no panic");
    let (versions, twice) = (BTreeMap::new(), BTreeSet::new());
    let picture = Picture { number: checkpoint.number, epoch, versions, twice };
    (checkpoint.number, Some(picture.with(&rows, plan)))
}

impl Picture {
    /// With these rows.
    fn with(mut self, rows: &[LoadedRow], plan: &Plan) -> Self {
        let mut tables = BTreeMap::new();
        for row in rows.iter().filter(|row| row.section == CATALOGUE) {
            // A definition: its version, the table.
            let table = u32::from_le_bytes(row.value[1..5].try_into().expect("four bytes"));
            let name = String::from_utf8(row.key.clone()).expect("a table's name is text");
            // Its definition may be displaced as any row is.
            let before = tables.insert(table, (row.tid, name));
            assert!(before.is_none_or(|before| before.0 == row.tid), "{self}: table {table} is there twice");
        }
        for row in rows.iter().filter(|row| row.section != CATALOGUE) {
            let missing = || panic!("{self}: rows of table {}, which is missing", row.section);
            let (_, name) = tables.get(&row.section).unwrap_or_else(missing);
            let key = match name.strip_prefix(LATE) {
                Some(late) => plan.keys + late.parse::<u64>().expect("its place"),
                None => number(&row.key),
            };
            let version = (row.tid, whole(&row.value));
            let Some(before) = self.versions.insert(key, version) else { continue };
            // N11: once from a page, and once from beside it.
            let may_come_twice = plan.pictures == Some(Pictures::SemiFuzzy) && before == version;
            let is_new = self.twice.insert(key);
            let tids = (before.0, row.tid);
            assert!(may_come_twice && is_new, "{self}: key {key} is there twice or more: {tids:?}");
        }
        self
    }

    fn check(&self, history: &History) {
        let expected = versions_at(history, self.epoch);
        for (key, (tid, value)) in &self.versions {
            assert!(tid.epoch() <= self.epoch, "{self}: key {key} is too new, of {tid}");
            match expected.get(key) {
                None => panic!("{self}: key {key} of {tid} was never written"),
                Some((newest, _)) if newest != tid => {
                    let how = if tid < newest { "old" } else { "new" };
                    panic!("{self}: key {key} is too {how}, of {tid} and not of {newest}");
                }
                Some((_, newest)) => assert_eq!(*newest, Some(*value), "{self}: key {key} of {tid}"),
            }
        }
        for (key, (tid, value)) in expected {
            let is_missing = value.is_some() && !self.versions.contains_key(&key);
            assert!(!is_missing, "{self}: key {key} of {tid} is missing");
        }
    }
}

impl std::fmt::Display for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "picture {} at e_c {}", self.number, self.epoch)
    }
}

/// The newest change of each key at the end of an epoch that is durable: its TID, and the value or `None` for a delete.
/// What crashes before have taken back is lost in the history. Of the last life everything up to a durable epoch
/// counts, also if nobody was told that it committed.
pub(crate) fn versions_at(history: &History, epoch: Epoch) -> BTreeMap<Key, (Tid, Option<Value>)> {
    let mut newest: BTreeMap<Key, (Tid, Option<Value>)> = BTreeMap::new();
    for (at, header) in history.headers().iter().enumerate() {
        let counts = matches!(header.outcome, Outcome::Committed | Outcome::Unknown);
        if !counts || header.tid == Tid::ZERO || header.tid.epoch() > epoch {
            continue;
        }
        for operation in history.operations(at) {
            let (key, value) = match operation {
                Operation::Write { key, value } => (key, Some(value)),
                Operation::Delete { key } => (key, None),
                _ => continue,
            };
            // Of one transaction the last change counts.
            let entry = newest.entry(key).or_insert((header.tid, value));
            if entry.0 <= header.tid {
                *entry = (header.tid, value);
            }
        }
    }
    newest
}
