//! Rows of fixed layout: their memory is their encoding.
//!
//! The compiler checks the layout: zerocopy's traits refuse types with padding, pointers or invalid bit patterns.
//! Numbers are stored in the order of the machine. The type's name in the catalogue has the order, so a machine of the
//! other order refuses the table by name. Among machines of one order such a database moves freely.
//!
//! Invariant: X2: The catalogue keeps the fields of the type. Another type of the same name and width is refused.
//!
//! Neighbours: [`super::value`](super) has the trait; benchmarks' rows are of this kind.

use std::any::TypeId;

/// Name of a field's type in the catalogue: a number's own name, or the type as the macro's caller wrote the type,
/// without spaces.
#[must_use]
pub fn field_type<T: 'static>(written: &str) -> String {
    macro_rules! number_of {
        ($($number:ident)*) => {
            [$((TypeId::of::<$number>(), stringify!($number))),*]
        };
    }
    let numbers = number_of!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);
    let number = numbers.into_iter().find(|(number, _)| *number == TypeId::of::<T>());
    number.map_or_else(|| written.split_whitespace().collect(), |(_, name)| name.to_owned())
}

/// Makes a `repr(C)` struct of fixed width a value: encoding is one copy, and reading in place is none.
///
/// The struct derives zerocopy's `FromBytes`, `IntoBytes`, `Immutable` and `KnownLayout`. The macro lists all fields in
/// the order of their declaration, and the compiler checks the list.
///
/// The catalogue keeps the name with the width and the machine's byte order, `Account v1[16] le` for example, and the
/// fields with their types. A table of rows of another name, width or order, or of other fields, is refused. Choose a
/// new name when the meaning of a field changes. A field with another name keeps the name of the catalogue by `as`:
/// `{ amount as balance: i64, .. }`. A type that is no number counts as written, so write the former type after a
/// change of its name alone.
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
/// ensile::fixed_layout!(Account { balance: i64, opened: u32, owner: u32 }, "Account v1");
///
/// let account = Account { balance: 100, opened: 20_000, owner: 7 };
/// let mut bytes = Vec::new();
/// account.encode(&mut ValueBuffer::new(&mut bytes));
/// assert_eq!(Account::decode(&bytes), Ok(account));
/// assert_eq!(Account::decode(&bytes[1..]).unwrap_err().to_string(), "15 bytes where 16 are due");
/// assert_eq!(Account::layout().as_deref(), Some("{balance:i64,opened:u32,owner:u32}"));
/// ```
///
///
/// A list that is not the struct's does not compile:
/// ```compile_fail
/// # extern crate ensile_engine as ensile;
/// # use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// # #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// # #[zerocopy(crate = "ensile::codec::zerocopy")]
/// # #[repr(C)]
/// # struct Account { balance: i64, opened: u32, owner: u32 }
/// ensile::fixed_layout!(Account { balance: i64, owner: u32, opened: u32 }, "Account v1"); // another order
/// ```
#[macro_export]
macro_rules! fixed_layout {
    ($type:ty { $($field:tt $(as $stored:ident)?: $field_type:ty),+ $(,)? }, $name:expr $(,)?) => {
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

            fn layout() -> ::std::option::Option<::std::string::String> {
                // The two lines do not compile unless the list has each field, with its type.
                let _: fn(Self) = |Self { $($field: _),+ }| ();
                $(let _: fn(Self) -> $field_type = |row| row.$field;)+
                let fields = [$(::std::format!(
                    "{}:{}",
                    $crate::fixed_layout!(@name $field $($stored)?),
                    $crate::codec::field_type::<$field_type>(::std::stringify!($field_type)),
                )),+];
                ::std::option::Option::Some(::std::format!("{{{}}}", fields.join(",")))
            }

            #[inline]
            fn view<R>(
                bytes: &[u8],
                read: impl ::std::ops::FnOnce(&Self) -> R,
            ) -> ::std::result::Result<R, $crate::codec::CodecError> {
                // Misaligned bytes cannot be borrowed as the struct, and are copied instead.
                match <Self as $crate::codec::zerocopy::FromBytes>::ref_from_bytes(bytes) {
                    ::std::result::Result::Ok(value) => ::std::result::Result::Ok(read(value)),
                    ::std::result::Result::Err(_) => {
                        <Self as $crate::codec::Value>::decode(bytes).map(|value| read(&value))
                    }
                }
            }
        }

        const _: () = {
            let offsets = [$(::std::mem::offset_of!($type, $field)),+];
            let mut at = 1;
            while at < offsets.len() {
                assert!(offsets[at - 1] <= offsets[at], "the fields stand in the order of the struct");
                at += 1;
            }
        };
    };
    (@name $field:tt $stored:ident) => {
        ::std::stringify!($stored)
    };
    (@name $field:tt) => {
        ::std::stringify!($field)
    };
    ($type:ty, $name:expr $(,)?) => {
        ::std::compile_error!(
            "list the fields of the struct: fixed_layout!(Account { balance: i64, owner: u64 }, \"Account v1\")"
        );
    };
}
