//! Rows of fixed layout: their memory is their encoding.
//!
//! The layout is checked when the program is compiled: zerocopy's traits refuse types with padding, pointers or invalid
//! bit patterns. Numbers are stored in the order of the machine, which the type's name in the catalogue says: a table
//! from a machine of the other order is refused by name. Among machines of one order such a database moves freely.
//!
//! Neighbours: [`super::value`](super) has the trait; benchmarks' rows are of this kind.

/// Makes a `repr(C)` struct of fixed width a value: encoding is one copy, and reading in place is none.
///
/// The struct derives zerocopy's `FromBytes`, `IntoBytes`, `Immutable` and `KnownLayout`. The name is kept in the
/// catalogue together with the width and the machine's byte order, `Account v1[16] le` for example: choose a new one
/// when the meaning of a field changes.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Value;
/// use ensile::codec::ValueBuffer;
/// use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[zerocopy(crate = "ensile::codec::zerocopy")] // not needed by a crate that depends on zerocopy itself
/// #[repr(C)]
/// struct Account {
///     balance: i64,
///     opened: u32,
///     owner: u32,
/// }
/// ensile::fixed_layout!(Account, "Account v1");
///
/// let account = Account { balance: 100, opened: 20_000, owner: 7 };
/// let mut bytes = Vec::new();
/// account.encode(&mut ValueBuffer::new(&mut bytes));
/// assert_eq!(Account::decode(&bytes), Ok(account));
/// assert_eq!(Account::decode(&bytes[1..]).unwrap_err().to_string(), "15 bytes where 16 are due");
/// ```
#[macro_export]
macro_rules! fixed_layout {
    ($type:ty, $name:expr) => {
        impl $crate::codec::Value for $type {
            const BYTES: ::std::option::Option<usize> =
                ::std::option::Option::Some(::std::mem::size_of::<Self>());

            #[inline]
            fn encode(&self, out: &mut $crate::codec::ValueBuffer<'_>) {
                out.extend_from_slice($crate::codec::zerocopy::IntoBytes::as_bytes(self));
            }

            #[inline]
            fn decode(bytes: &[u8]) -> ::std::result::Result<Self, $crate::codec::CodecError> {
                <Self as $crate::codec::zerocopy::FromBytes>::read_from_bytes(bytes).map_err(|_| {
                    $crate::codec::CodecError::length(bytes.len(), ::std::mem::size_of::<Self>())
                })
            }

            fn type_name() -> ::std::string::String {
                let order = if ::std::cfg!(target_endian = "little") { "le" } else { "be" };
                ::std::format!("{}[{}] {order}", $name, ::std::mem::size_of::<Self>())
            }

            #[inline]
            fn view<R>(
                bytes: &[u8],
                read: impl ::std::ops::FnOnce(&Self) -> R,
            ) -> ::std::result::Result<R, $crate::codec::CodecError> {
                // Bytes that lie askew cannot be borrowed as the struct; then a copy serves.
                match <Self as $crate::codec::zerocopy::FromBytes>::ref_from_bytes(bytes) {
                    ::std::result::Result::Ok(value) => ::std::result::Result::Ok(read(value)),
                    ::std::result::Result::Err(_) => {
                        <Self as $crate::codec::Value>::decode(bytes).map(|value| read(&value))
                    }
                }
            }
        }
    };
}
