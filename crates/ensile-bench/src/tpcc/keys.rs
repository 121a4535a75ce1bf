//! Keys of TPC-C's tables and indexes, made in one place: as narrow as their numbers allow. So every key except names
//! fits eight bytes, one slice of the index.
//!
//! In builds with the feature `peer-keys` keys are as wide as C++ Silo's, for the comparison with C++ Silo: four bytes
//! for each integer, and history by its columns.
//!
//! Neighbours: [`super::tables`] declares tables with these keys.

use super::schema::History;

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u8 = 10;

pub(crate) use width::{
    CustomerOrderKey, HistoryKey, LineNumber, history, order_of_customer, orders_of_customer,
};
use width::{DistrictNumber, WarehouseNumber};

/// Keys as narrow as their numbers.
#[cfg(not(feature = "peer-keys"))]
mod width {
    use crate::tpcc::keys::{CustomerKey, DISTRICTS, History};

    pub(crate) type WarehouseNumber = u16;
    pub(crate) type DistrictNumber = u8;
    pub(crate) type LineNumber = u8;
    /// A unique number: see [`history`].
    pub(crate) type HistoryKey = u64;
    /// A customer, and below the customer the number of an order.
    pub(crate) type CustomerOrderKey = u64;

    /// Bits of [`order_of_customer`] below the customer: the order number.
    const ORDER_BITS: u32 = 28;
    /// Bits of a customer number within its district.
    const CUSTOMER_BITS: u32 = 16;
    /// Bits of a district number.
    const DISTRICT_BITS: u32 = 4;

    const _: () = assert!(ORDER_BITS + CUSTOMER_BITS + DISTRICT_BITS + u16::BITS == u64::BITS);
    const _: () = assert!((DISTRICTS as u32) < 1 << DISTRICT_BITS);

    /// HISTORY has no key in the specification; each writer numbers its own rows.
    pub(crate) fn history(_row: &History, (writer, number): (u16, u64)) -> HistoryKey {
        debug_assert!(number < 1 << 48);
        (u64::from(writer) << 48) | number
    }

    /// The key of an order in the index of orders by customer. The order number is the lowest field, so a customer's
    /// last order is the last entry of [`orders_of_customer`].
    pub(crate) fn order_of_customer(key: CustomerKey, order: u32) -> CustomerOrderKey {
        let (warehouse, district, customer) = key;
        debug_assert!(customer < 1 << CUSTOMER_BITS && order < 1 << ORDER_BITS);
        let district = (u64::from(warehouse) << DISTRICT_BITS) | u64::from(district);
        (((district << CUSTOMER_BITS) | u64::from(customer)) << ORDER_BITS) | u64::from(order)
    }

    /// The range of [`order_of_customer`] with every order of one customer.
    pub(crate) fn orders_of_customer(key: CustomerKey) -> std::ops::RangeInclusive<CustomerOrderKey> {
        let first = order_of_customer(key, 0);
        first..=first | ((1 << ORDER_BITS) - 1)
    }
}

/// Keys as wide as C++ Silo's.
#[cfg(feature = "peer-keys")]
mod width {
    use crate::tpcc::keys::{CustomerKey, History};

    pub(crate) type WarehouseNumber = u32;
    pub(crate) type DistrictNumber = u32;
    pub(crate) type LineNumber = u32;
    /// Customer, its district and warehouse; district and warehouse of the payment; a number in place of the date.
    pub(crate) type HistoryKey = (u32, u32, u32, u32, u32, u32);
    /// Warehouse, district, customer, order.
    pub(crate) type CustomerOrderKey = (u32, u32, u32, u32);

    /// The columns of C++ Silo's key. As in C++ Silo, the date is a number counted by a thread. Here the highest byte
    /// of the date is the writer, so that two threads' payments of one customer are two rows.
    pub(crate) fn history(row: &History, (writer, number): (u16, u64)) -> HistoryKey {
        let date = u32::from(writer) << 24 | number as u32 & 0xff_ffff;
        let home = (u32::from(row.customer_district), u32::from(row.customer_warehouse.get()));
        (row.customer.get(), home.0, home.1, row.district.into(), row.warehouse.get().into(), date)
    }

    /// The key of an order in the index of orders by customer.
    pub(crate) fn order_of_customer(key: CustomerKey, order: u32) -> CustomerOrderKey {
        (key.0, key.1, key.2, order)
    }

    /// The range of [`order_of_customer`] with every order of one customer.
    pub(crate) fn orders_of_customer(key: CustomerKey) -> std::ops::RangeInclusive<CustomerOrderKey> {
        order_of_customer(key, 0)..=order_of_customer(key, u32::MAX)
    }
}

/// Warehouse.
pub(crate) type WarehouseKey = WarehouseNumber;
/// Warehouse, district.
pub(crate) type DistrictKey = (WarehouseNumber, DistrictNumber);
/// Warehouse, district, customer.
pub(crate) type CustomerKey = (WarehouseNumber, DistrictNumber, u32);
/// Warehouse, district, order: of ORDER and of NEW-ORDER.
pub(crate) type OrderKey = (WarehouseNumber, DistrictNumber, u32);
/// Warehouse, district, order, line.
pub(crate) type OrderLineKey = (WarehouseNumber, DistrictNumber, u32, LineNumber);
/// Item.
pub(crate) type ItemKey = u32;
/// Warehouse, item.
pub(crate) type StockKey = (WarehouseNumber, u32);
/// Warehouse, district, last name, first name.
pub(crate) type NameKey = (WarehouseNumber, DistrictNumber, [u8; 16], [u8; 16]);

#[inline]
pub(crate) fn warehouse(warehouse: u16) -> WarehouseKey {
    warehouse as WarehouseNumber
}

#[inline]
pub(crate) fn district(warehouse: u16, district: u8) -> DistrictKey {
    (warehouse as WarehouseNumber, district as DistrictNumber)
}

#[inline]
pub(crate) fn customer(warehouse: u16, district: u8, customer: u32) -> CustomerKey {
    (warehouse as WarehouseNumber, district as DistrictNumber, customer)
}

#[inline]
pub(crate) fn order(warehouse: u16, district: u8, order: u32) -> OrderKey {
    (warehouse as WarehouseNumber, district as DistrictNumber, order)
}

#[inline]
pub(crate) fn order_line(warehouse: u16, district: u8, order: u32, line: u8) -> OrderLineKey {
    (warehouse as WarehouseNumber, district as DistrictNumber, order, line as LineNumber)
}

#[inline]
pub(crate) fn stock(warehouse: u16, item: u32) -> StockKey {
    (warehouse as WarehouseNumber, item)
}

/// The range of names with every customer of one last name in a district, ordered by first name.
pub(crate) fn customers_named(
    warehouse: u16,
    district: u8,
    last: [u8; 16],
) -> std::ops::RangeInclusive<NameKey> {
    let (warehouse, district) = (warehouse as WarehouseNumber, district as DistrictNumber);
    (warehouse, district, last, [0; 16])..=(warehouse, district, last, [0xff; 16])
}

#[cfg(test)]
mod tests {
    use super::{customers_named, order_of_customer, orders_of_customer};

    #[test]
    fn orders_sort_by_customer_and_then_by_number() {
        let mut keys = Vec::new();
        for (warehouse, district, customer, order) in
            [(1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 2, 1), (1, 2, 1, 1), (1, 10, 3000, 9_000_000), (2, 1, 1, 1)]
        {
            let key = order_of_customer((warehouse, district, customer), order);
            assert!(orders_of_customer((warehouse, district, customer)).contains(&key));
            assert!(!orders_of_customer((warehouse, district, customer + 1)).contains(&key));
            keys.push(key);
        }
        assert!(keys.is_sorted());
    }

    #[test]
    fn a_last_name_holds_all_of_its_first_names() {
        let range = customers_named(3, 4, *b"BARBARBAR\0\0\0\0\0\0\0");
        assert!(range.contains(&(3, 4, *b"BARBARBAR\0\0\0\0\0\0\0", *b"zzzzzzzzzzzzzzzz")));
        assert!(!range.contains(&(3, 4, *b"BARBARBARS\0\0\0\0\0\0", [b'a'; 16])));
    }
}
