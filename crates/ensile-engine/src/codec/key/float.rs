//! Floating-point keys, in the total order of IEEE 754.
//!
//! Floats themselves are no keys: they are not `Ord`, and `-0.0 == 0.0` though their bits differ. The wrappers say
//! which order is meant.
//!
//! Neighbours: [`super::key`](super) states the encoding.

use std::cmp::Ordering;

use super::fixed_width;

/// Defines a wrapper around a float type. Its order is the order of the bits as a signed integer, with negative values
/// turned around.
macro_rules! total_order {
    ($type:ident, $float:ty, $bits:ty) => {
        #[doc = concat!("An `", stringify!($float), "` as a key, in the order of `", stringify!($float), "::total_cmp`:")]
        /// negative NaN, negative numbers, `-0.0`, `0.0`, positive numbers, NaN. `-0.0` and `0.0` are two keys.
        ///
        /// ```
        /// # extern crate ensile_engine as ensile;
        #[doc = concat!("use ensile::codec::", stringify!($type), ";")]
        #[doc = concat!("assert!(", stringify!($type), "(-0.0) < ", stringify!($type), "(0.0));")]
        /// ```
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $type(
            /// The number.
            pub $float,
        );

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $type {}

        fixed_width!(
            $type,
            stringify!($float),
            |value| {
                let bits = value.0.to_bits();
                let negative = bits >> (<$bits>::BITS - 1) == 1;
                (if negative { !bits } else { bits ^ (1 << (<$bits>::BITS - 1)) }).to_be_bytes()
            },
            |bytes| {
                let bits = <$bits>::from_be_bytes(bytes);
                let positive = bits >> (<$bits>::BITS - 1) == 1;
                Ok(Self(<$float>::from_bits(if positive { bits ^ (1 << (<$bits>::BITS - 1)) } else { !bits })))
            }
        );
    };
}

total_order!(TotalF32, f32, u32);
total_order!(TotalF64, f64, u64);
