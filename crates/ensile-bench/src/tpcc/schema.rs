//! TPC-C's nine tables (clause 1.3) as fixed layouts. CUSTOMER and STOCK are partitioned vertically, as clause 1.4
//! allows: columns that transactions change stand apart from rarely touched columns, so that neither records nor the
//! log copy the latter.
//!
//! Every field has its declared width: character fields are arrays filled up with zeros, money is in cents, taxes and
//! discounts are in ten-thousandths, dates are microseconds since 1970 with 0 for "not yet". Multi-byte numbers are
//! little-endian and unaligned, so no row has padding and the bytes mean the same on every machine. The columns of a
//! row's key live in the key ([`super::keys`]) and are not stored twice.
//!
//! Neighbours: [`super::tables`] opens the tables; the five transactions read and change the rows.

use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Declares rows: plain bytes, cheap to copy, readable from anywhere.
macro_rules! rows {
    ($($(#[$attribute:meta])* $name:ident: $layout:literal { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }
        ensile::fixed_layout!($name { $($field: $type),* }, $layout);
    )*};
}

rows! {
    /// The address of a person or house.
    Address: "tpcc.address v1" {
        street_1: [u8; 20],
        street_2: [u8; 20],
        city: [u8; 20],
        state: [u8; 2],
        zip: [u8; 9],
    }
    /// WAREHOUSE.
    Warehouse: "tpcc.warehouse v1" {
        ytd: I64,
        tax: I32,
        name: [u8; 10],
        address: Address,
    }
    /// DISTRICT.
    District: "tpcc.district v1" {
        ytd: I64,
        tax: I32,
        next_order: U32,
        name: [u8; 10],
        address: Address,
    }
    /// CUSTOMER.
    Customer: "tpcc.customer v1" {
        balance: I64,
        ytd_payment: I64,
        payment_count: U32,
        delivery_count: U32,
        discount: I32,
        credit: [u8; 2],
        first: [u8; 16],
        middle: [u8; 2],
        last: [u8; 16],
        credit_limit: I64,
        since: U64,
        phone: [u8; 16],
        address: Address,
    }
    /// C_DATA of CUSTOMER, touched only by payments of bad credit.
    CustomerData: "tpcc.customer_data v1" {
        data: [u8; 500],
    }
    /// HISTORY: one payment.
    History: "tpcc.history v1" {
        customer: U32,
        customer_district: u8,
        customer_warehouse: U16,
        district: u8,
        warehouse: U16,
        date: U64,
        amount: I32,
        data: [u8; 24],
    }
    /// NEW-ORDER: the key is the information; the byte exists because a row needs a value.
    NewOrder: "tpcc.new_order v1" {
        waiting: u8,
    }
    /// ORDER.
    Order: "tpcc.order v1" {
        customer: U32,
        entry_date: U64,
        carrier: u8,
        line_count: u8,
        all_local: u8,
    }
    /// ORDER-LINE.
    OrderLine: "tpcc.order_line v1" {
        item: U32,
        supply_warehouse: U16,
        quantity: u8,
        amount: I32,
        delivery_date: U64,
        district_info: [u8; 24],
    }
    /// ITEM.
    Item: "tpcc.item v1" {
        image: U32,
        price: I32,
        name: [u8; 24],
        data: [u8; 50],
    }
    /// The columns of STOCK that orders change.
    Stock: "tpcc.stock v1" {
        quantity: I32,
        ytd: U32,
        order_count: U32,
        remote_count: U32,
    }
    /// The columns of STOCK that never change.
    StockInfo: "tpcc.stock_info v1" {
        data: [u8; 50],
        district_info: [[u8; 24]; 10],
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Customer, CustomerData, District, History, Item, NewOrder, Order, OrderLine, Stock, StockInfo,
        Warehouse,
    };

    #[test]
    fn rows_with_their_keys_have_the_sizes_of_the_specification() {
        // Bytes per row of clause 4.2.2; a row may differ by the width of its numbers, never by a missing column.
        let sizes = [
            ("warehouse", 2 + size_of::<Warehouse>(), 89),
            ("district", 3 + size_of::<District>(), 95),
            ("customer", 7 + size_of::<Customer>() + size_of::<CustomerData>(), 655),
            ("history", 8 + size_of::<History>(), 46),
            ("new_order", 7 + size_of::<NewOrder>(), 8),
            ("order", 7 + size_of::<Order>(), 24),
            ("order_line", 8 + size_of::<OrderLine>(), 54),
            ("stock", 6 + size_of::<Stock>() + size_of::<StockInfo>(), 306),
            ("item", 4 + size_of::<Item>(), 82),
        ];
        for (table, bytes, specified) in sizes {
            assert!(
                bytes + 3 >= specified && bytes <= specified + 20,
                "{table}: {bytes} against {specified}"
            );
        }
    }
}
