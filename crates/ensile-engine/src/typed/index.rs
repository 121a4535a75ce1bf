//! Secondary indexes as applications hold them, and how their keys are computed.
//!
//! Neighbours: made by [`Table::index`](crate::Table::index); read through [`Readable`](crate::Readable); the engine
//! calls the key function whenever a row is written.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use ensile_base::sync::Arc;

use crate::codec::bounds::delimited;
use crate::codec::{Key, Value};
use crate::tables::{IndexCore, IndexKeyFn, TableCore};

/// A handle on a secondary index: rows of a `Table<K, V>` in the order of a secondary key `S`, those of one secondary
/// key in the order of their primary keys.
///
/// Cheap to clone, and shared between threads freely. The index follows its table by itself: it is never written to.
pub struct Index<S, K, V> {
    pub(crate) table: Arc<TableCore>,
    pub(crate) core: Arc<IndexCore>,
    types: Types<S, K, V>,
}

/// Holds none of them, so a handle is `Send` and `Sync` whatever they are.
type Types<S, K, V> = PhantomData<fn() -> (S, K, V)>;

impl<S, K, V> Index<S, K, V> {
    pub(super) fn new(table: Arc<TableCore>, core: Arc<IndexCore>) -> Self {
        Self { table, core, types: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Whether no two rows have the same secondary key.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.core.unique
    }
}

impl<S, K, V> Clone for Index<S, K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.table), Arc::clone(&self.core))
    }
}

impl<S, K, V> fmt::Debug for Index<S, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, name) = (self.table.name(), &self.core.name);
        write!(
            f,
            "Index<{}, {}, {}>({table:?}, {name:?})",
            type_name::<S>(),
            type_name::<K>(),
            type_name::<V>()
        )
    }
}

/// What the engine calls with a row's bytes to have its secondary key, delimited because the primary key follows it.
pub(super) fn key_function<S: Key, K: Key, V: Value>(
    key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
) -> IndexKeyFn {
    Box::new(move |primary, row, out| {
        let primary = K::decode(primary).map_err(|error| format!("primary key: {error}"))?;
        let secondary = V::view(row, |row| key(&primary, row)).map_err(|error| format!("row: {error}"))?;
        if let Some(secondary) = &secondary {
            out.extend_from_slice(delimited::<S>(secondary).as_ref());
        }
        Ok(secondary.is_some())
    })
}
