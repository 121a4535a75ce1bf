//! Checks that refuse the opening of a table before anything is made.
//!
//! Neighbours: [`super`] calls the checks.

use ensile_base::limits::{INDEXES_PER_TABLE_MAX, NAME_BYTES_MAX};

use crate::error::{Error, Result};
use crate::formats::definition::Definition;
use crate::tables::{IndexCore, IndexSpec, TableCore, TableSpec, check_length};

/// Refuses empty or too long names, too many indexes, and two indexes of the same name. The check needs no stored
/// state.
pub(super) fn check_spec(spec: &TableSpec) -> Result<()> {
    let names = spec.indexes.iter().map(|index| index.name.as_str()).chain([spec.name.as_str()]);
    for name in names {
        check_length("a table's or index's name", name.len(), NAME_BYTES_MAX)?;
        if name.is_empty() {
            return Err(Error::Misuse(
                "the name of a table or index is empty: give it a name of 1 to 255 bytes".to_owned(),
            ));
        }
    }
    for name in [&spec.key_type, &spec.value_type] {
        check_length("a type's name", name.len(), usize::from(u16::MAX))?;
    }
    let layout_bytes = spec.value_layout.as_ref().map_or(0, String::len);
    check_length("the list of a type's fields", layout_bytes, usize::from(u16::MAX))?;
    if spec.indexes.len() > INDEXES_PER_TABLE_MAX {
        let (count, count_max) = (spec.indexes.len(), INDEXES_PER_TABLE_MAX);
        return Err(Error::too_many("the number of indexes of a table", count, count_max));
    }
    for (at, index) in spec.indexes.iter().enumerate() {
        if spec.indexes[..at].iter().any(|other| other.name == index.name) {
            return Err(Error::Misuse(format!("table {}: two indexes are named {}", spec.name, index.name)));
        }
    }
    Ok(())
}

/// Refuses a table whose stored key type or value type is not the type of `spec` (X1).
pub(super) fn check_types(spec: &TableSpec, key_type: &str, value_type: &str) -> Result<()> {
    if spec.key_type == key_type && spec.value_type == value_type {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "table {} maps {key_type} to {value_type}, not {} to {}: open it with its own types",
        spec.name, spec.key_type, spec.value_type
    )))
}

/// Refuses rows of other fields (X2). A type that states no fields is not compared.
pub(super) fn check_layout(spec: &TableSpec, layout: Option<&str>) -> Result<()> {
    match (layout, spec.value_layout.as_deref()) {
        (Some(stored), Some(given)) if stored != given => Err(Error::Misuse(format!(
            "table {} has rows of {} with the fields {stored}, not {given}: open it with its own type, or give the other \
             type another name; if a field only has another name now, keep the name by `as`",
            spec.name, spec.value_type
        ))),
        _ => Ok(()),
    }
}

/// Refuses to open an open table again with other indexes.
pub(super) fn check_same_indexes(spec: &TableSpec, table: &TableCore) -> Result<()> {
    let same = |index: &IndexSpec, open: &IndexCore| {
        (&index.name, index.version, index.unique, &index.key_type)
            == (&open.name, open.version, open.unique, &open.key_type)
    };
    let all_same = spec.indexes.len() == table.indexes.len()
        && spec.indexes.iter().zip(&table.indexes).all(|(index, open)| same(index, open));
    // A table opened without a list of indexes keeps its indexes: the writes maintain the indexes all the same.
    if !spec.defines_indexes || all_same {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "table {} is open with other indexes: define all of them at its first opening",
        spec.name
    )))
}

/// Refuses to open a table with indexes as a table without: rows would change without the indexes.
pub(super) fn check_indexes_named(spec: &TableSpec, stored: &Definition) -> Result<()> {
    if stored.indexes.is_empty() || spec.defines_indexes {
        return Ok(());
    }
    let names: Vec<&str> = stored.indexes.iter().map(|index| index.name.as_str()).collect();
    Err(Error::Misuse(format!(
        "table {} has secondary indexes ({}): open it with Database::define and their key functions first",
        spec.name,
        names.join(", ")
    )))
}
