//! A database's folder looked at, or repaired, without opening the database.
//!
//! [`verify`] reads every byte and judges it as an open would; [`inspect`] tells besides which tables there are, and how
//! many rows they have, for which it builds them in memory; [`repair`] cuts a damaged folder to its last consistent
//! epoch. None of them runs while a process has the database open.
//!
//! Neighbours: the files are the durability crate's; here stands what their entries mean. The `ensile` command prints.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc as StdArc;

use ensile_disk::{Disk, RealDisk};
pub use ensile_durability::examine::{
    CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss, Remedy, Repaired, Role,
};
use ensile_durability::{DurabilityError, Entry, Recoverable, Refused};
use ensile_index::{Direction, Masstree, Range, ScanVisitor, Witness};
use ensile_memory::{Memory, MemoryConfig};

use crate::catalog::Definition;
use crate::error::Result;
use crate::record::{Handle, Scratch, Seen};
use crate::replay::{Replay, checkpointed};
use crate::table::CATALOG_ID;
use crate::transaction::log_entry::Writes;

/// A table as the folder holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Its number in the files.
    pub id: u32,
    /// Its name; `None` if the catalogue does not name it.
    pub name: Option<String>,
    /// The type of its keys.
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// Its secondary indexes, which are not in the files but built at open.
    pub indexes: Vec<String>,
    /// Its rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// Reads every byte of the folder and judges it as an open would.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder is not there, cannot be read, or is in use. Damage is no error: it is what the
/// answer is about.
pub fn verify(path: &Path) -> Result<Examination> {
    let disk = existing(path)?;
    Ok(ensile_durability::examine::examine(&disk, &Framing)?)
}

/// As [`verify`], and tells the tables; none where something is damaged, as their rows would be a guess.
///
/// # Errors
/// As for [`verify`].
pub fn inspect(path: &Path) -> Result<(Examination, Vec<TableFacts>)> {
    let disk = existing(path)?;
    // The rows live in it.
    let memory = Memory::new(&MemoryConfig::default());
    let replay = Replay::new(&memory);
    let found = ensile_durability::examine::examine(&disk, &replay)?;
    let trees = replay.finish();
    let tables = if found.damage.is_empty() { tables_of(&trees) } else { Vec::new() };
    Ok((found, tables))
}

/// Cuts a damaged folder to its last consistent epoch, and keeps a copy of what it cuts. `None` if nothing is damaged.
///
/// # Errors
/// As for [`verify`]; and if no consistent state can be had from what is there: the message says why.
pub fn repair(path: &Path) -> Result<Option<Repaired>> {
    let disk = existing(path)?;
    Ok(ensile_durability::examine::repair(&disk, &Framing)?)
}

fn existing(path: &Path) -> Result<StdArc<dyn Disk>> {
    Ok(StdArc::new(RealDisk::existing(path).map_err(DurabilityError::from)?))
}

/// Takes entries apart and keeps nothing.
struct Framing;

impl Recoverable for Framing {
    fn replay(&self, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        entries.iter().enumerate().try_for_each(|(entry, Entry { body, .. })| {
            let broken = Writes(body).find_map(std::result::Result::err);
            broken.map_or(Ok(()), |detail| Err(Refused { entry, detail }))
        })
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        entries.iter().enumerate().try_for_each(|(entry, Entry { body, .. })| {
            checkpointed(body).map(|_| ()).map_err(|detail| Refused { entry, detail: detail.to_owned() })
        })
    }
}

/// What is in recovered trees, by the catalogue among them.
fn tables_of(trees: &crate::replay::Trees) -> Vec<TableFacts> {
    let mut tables: BTreeMap<u32, TableFacts> = BTreeMap::new();
    for (&id, tree) in trees {
        let table = tables.entry(id).or_insert_with(|| TableFacts { id, ..TableFacts::default() });
        each_row(tree, &mut |key, value| {
            table.rows += 1;
            table.bytes += (key.len() + value.len()) as u64;
        });
    }
    if let Some(catalog) = tables.get_mut(&CATALOG_ID) {
        catalog.name = Some("the catalogue".to_owned());
    }
    if let Some(tree) = trees.get(&CATALOG_ID) {
        each_row(tree, &mut |name, definition| {
            let Some(Definition { id, key_type, value_type, indexes }) = Definition::decode(definition)
            else {
                return;
            };
            let table = tables.entry(id).or_insert_with(|| TableFacts { id, ..TableFacts::default() });
            table.name = Some(String::from_utf8_lossy(name).into_owned());
            (table.key_type, table.value_type) = (key_type, value_type);
            table.indexes = indexes.into_iter().map(|index| index.name).collect();
        });
    }
    tables.into_values().collect()
}

/// Visits every row of a recovered tree.
fn each_row(tree: &Masstree, visit: &mut dyn FnMut(&[u8], &[u8])) {
    const ALL: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
    let mut rows = Rows { tree, scratch: Scratch::default(), visit };
    tree.scan(ALL, Direction::Forward, &mut rows, crate::record::blocks::sole_owner(tree));
}

struct Rows<'t, 'v> {
    tree: &'t Masstree,
    scratch: Scratch,
    visit: &'v mut dyn FnMut(&[u8], &[u8]),
}

impl ScanVisitor for Rows<'_, '_> {
    fn witness(&mut self, _witness: Witness) {}

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        let record = Handle::from_value(value).at(crate::record::blocks::sole_owner(self.tree));
        if matches!(record.read(&mut self.scratch), Seen::Present(_)) {
            (self.visit)(key, self.scratch.bytes());
        }
        ControlFlow::Continue(())
    }
}
