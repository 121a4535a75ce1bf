//! The tables of a database: the directory by id, the logged tables, and the catalogue.
//!
//! Neighbours: `tables` has the parts; `open::catalogue` opens tables; commits look tables up.

use ensile_base::sync::{Condvar, Mutex, plain_access};

use crate::tables::catalog::Catalog;
use crate::tables::logged_tables::LoggedTables;
use crate::tables::{Directory, TableCore};

pub(crate) struct TableRegistry {
    /// Open tables and indexes, by id.
    pub(crate) directory: Directory,
    /// Tables that a checkpoint walks.
    pub(crate) logged: LoggedTables,
    pub(crate) catalog: Mutex<Catalog>,
    /// Signal at the end of filling a table's indexes, after a success or a failure.
    pub(crate) filled: Condvar,
}

impl TableRegistry {
    pub(super) fn new(logged: LoggedTables, catalog: Catalog) -> Self {
        let (catalog, filled) = (Mutex::new(catalog), Condvar::new());
        Self { directory: Directory::new(), logged, catalog, filled }
    }

    /// The table of a write-set entry.
    #[inline]
    pub(crate) fn table(&self, id: u32) -> &TableCore {
        let Some(table) = self.directory.get(id) else {
            unreachable!("entries name tables that were checked")
        };
        plain_access::load(table);
        table
    }

    /// The table of a write-set entry; `None` for an index.
    #[inline(always)]
    pub(crate) fn logged_table(&self, id: u32) -> Option<&TableCore> {
        let table = self.directory.logged_table(id)?;
        plain_access::load(&**table);
        Some(table)
    }
}
