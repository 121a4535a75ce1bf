//! Damage to a whole folder, everywhere (L5): `folder` has the folder and the verdict, `every_bit` the kinds of
//! damage, `numbers` those that no checksum shows; `cells` are single cases, one for each cell of the matrix in
//! `docs/internals/protocols/durability.md`.

mod cells;
mod every_bit;
mod folder;
mod numbers;
