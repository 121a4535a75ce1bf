//! Damage to a whole folder, everywhere (L5): `folder` has the folder and the verdict, `every_bit` the kinds of damage.

mod every_bit;
mod folder;
