//! Damage as a matrix (L5): each kind of damage, before, at and after D, has one verdict. `docs/protocols/durability.md`
//! has the table; `every_bit` damages a whole folder everywhere.

mod cells;
mod every_bit;
mod folder;
