//! Life of a database: its number, its process, and its gate. A closed or forked database refuses work (I4).
//!
//! Neighbours: each call of an application checks the life first; `database::owner` ends the life.

use ensile_base::sync::{AtomicU64, OnceLock, Ordering, plain_access};
use ensile_disk::{Process, ProcessMarks};
use ensile_durability::UserCode;

use crate::commit_gate::Gate;
use crate::error::{Error, Result};
use crate::tables::TableCore;

/// Mark with value 1 while the database is open, in the process of the open (I4).
const OPEN: usize = 0;
/// Mark with the database's id, in the process of the open (I4).
const DATABASE: usize = 1;
/// Mark with the database's id, in the process of the open, unless the memory has a limit: the one look answers for
/// process, table and room (I4, M4).
const PUTS: usize = 2;

static NEXT_ID: OnceLock<AtomicU64> = OnceLock::new();

pub(crate) struct DatabaseLife {
    /// Number that distinguishes the databases of a process.
    pub(crate) id: u64,
    /// Gate of commits: the closed state, and the turn of a closure.
    pub(crate) gate: Gate,
    /// Marks that a fork clears in the child: see [`OPEN`], [`DATABASE`] and [`PUTS`].
    marks: ProcessMarks,
}

impl DatabaseLife {
    /// Begins the life of a database, in the process of the open.
    pub(super) fn begin(process: &Process, is_memory_limited: bool) -> Self {
        // Relaxed: only uniqueness matters.
        let id = NEXT_ID.get_or_init(|| AtomicU64::new(1)).fetch_add(1, Ordering::Relaxed);
        let (marks, gate) = (process.marks(), Gate::new(process.clone()));
        marks.set(OPEN, 1);
        marks.set(DATABASE, id);
        marks.set(PUTS, if is_memory_limited { 0 } else { id });
        Self { id, gate, marks }
    }

    /// Refuses a table of another database, and every table in a forked child.
    #[inline]
    pub(crate) fn check_table(&self, table: &TableCore) -> Result<()> {
        plain_access::load(table);
        if table.database == self.marks.get(DATABASE) { Ok(()) } else { self.check_table_again(table) }
    }

    /// True if a put into the table needs no further check. False proves nothing: [`Self::check_table`] and the room of
    /// the memory decide.
    #[inline]
    pub(crate) fn takes_puts(&self, table: &TableCore) -> bool {
        plain_access::load(table);
        table.database == self.marks.get(PUTS)
    }

    /// Slow path of [`Self::check_table`], with the exact error. Also entered if a fork has cleared the marks.
    #[cold]
    fn check_table_again(&self, table: &TableCore) -> Result<()> {
        self.check_process()?;
        if table.database == self.id { Ok(()) } else { Err(foreign_table(table)) }
    }

    /// Refuses work after `close`, all work in a forked child, and all work in user code of objects (O8). The caller
    /// holds no lock yet (I4).
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.marks.get(OPEN) != 0 && !UserCode::is_running() { Ok(()) } else { self.check_open_again() }
    }

    /// As [`Self::check_open`], for a caller that was found outside user code before.
    #[inline]
    pub(crate) fn check_still_open(&self) -> Result<()> {
        if self.marks.get(OPEN) != 0 { Ok(()) } else { self.check_open_again() }
    }

    /// Slow path of [`Self::check_open`], with the exact error.
    #[cold]
    fn check_open_again(&self) -> Result<()> {
        UserCode::check_outside()?;
        self.check_process()?;
        if self.gate.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// True if the calling process opened the database, and is no fork of that process.
    pub(crate) fn is_own_process(&self) -> bool {
        self.marks.process().is_this()
    }

    /// Refuses work in a forked child (I4).
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_own_process() { Ok(()) } else { Err(Error::forked()) }
    }

    /// Marks the database closed: from now on [`Self::check_open`] fails, and the gate refuses commits.
    pub(crate) fn mark_closed(&self) {
        self.gate.close();
        self.marks.set(OPEN, 0);
    }
}

#[cold]
fn foreign_table(table: &TableCore) -> Error {
    Error::Misuse(format!("table {} belongs to another database: open it in this one", table.name()))
}
