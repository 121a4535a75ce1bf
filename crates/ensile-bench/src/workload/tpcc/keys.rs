//! Keys of TPC-C's tables and indexes, as narrow as their numbers allow: all but the names fit eight bytes, which is
//! one slice of the index.
//!
//! Neighbours: [`super::tables`] declares tables with them.

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u8 = 10;
/// Bits of [`order_of_customer`] below the customer: the order number.
const ORDER_BITS: u32 = 28;
/// Bits of a customer number within its district.
const CUSTOMER_BITS: u32 = 16;
/// Bits of a district number.
const DISTRICT_BITS: u32 = 4;

const _: () = assert!(ORDER_BITS + CUSTOMER_BITS + DISTRICT_BITS + u16::BITS == u64::BITS);
const _: () = assert!((DISTRICTS as u32) < 1 << DISTRICT_BITS);

/// Warehouse.
pub(crate) type WarehouseKey = u16;
/// Warehouse, district.
pub(crate) type DistrictKey = (u16, u8);
/// Warehouse, district, customer.
pub(crate) type CustomerKey = (u16, u8, u32);
/// Warehouse, district, order: of ORDER and of NEW-ORDER.
pub(crate) type OrderKey = (u16, u8, u32);
/// Warehouse, district, order, line.
pub(crate) type OrderLineKey = (u16, u8, u32, u8);
/// Item.
pub(crate) type ItemKey = u32;
/// Warehouse, item.
pub(crate) type StockKey = (u16, u32);
/// A number that never comes twice: see [`history`].
pub(crate) type HistoryKey = u64;
/// Warehouse, district, last name, first name.
pub(crate) type NameKey = (u16, u8, [u8; 16], [u8; 16]);

/// HISTORY has no key in the specification; each writer numbers its own rows.
pub(crate) fn history(writer: u16, number: u64) -> HistoryKey {
    debug_assert!(number < 1 << 48);
    (u64::from(writer) << 48) | number
}

/// The key of an order in the index of orders by customer; its order number is the lowest field, so a customer's
/// last order is the last entry of [`orders_of_customer`].
pub(crate) fn order_of_customer(warehouse: u16, district: u8, customer: u32, order: u32) -> u64 {
    debug_assert!(customer < 1 << CUSTOMER_BITS && order < 1 << ORDER_BITS);
    let district = (u64::from(warehouse) << DISTRICT_BITS) | u64::from(district);
    (((district << CUSTOMER_BITS) | u64::from(customer)) << ORDER_BITS) | u64::from(order)
}

/// The range of [`order_of_customer`] that holds every order of one customer.
pub(crate) fn orders_of_customer(key: CustomerKey) -> std::ops::RangeInclusive<u64> {
    let first = order_of_customer(key.0, key.1, key.2, 0);
    first..=first | ((1 << ORDER_BITS) - 1)
}

/// The range of names that holds every customer of one last name in a district, ordered by first name.
pub(crate) fn customers_named(
    warehouse: u16,
    district: u8,
    last: [u8; 16],
) -> std::ops::RangeInclusive<NameKey> {
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
            let key = order_of_customer(warehouse, district, customer, order);
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
