//! TPC-C's tables opened in a database, with their two secondary indexes, and the scale of the business.
//!
//! Neighbours: [`super::load`] fills the tables, the five transactions use them, [`super::consistency`] checks them.

use ensile::{Database, Index, Table};
use ensile_base::sync::{AtomicU32, Ordering};

use super::keys::{
    CustomerKey, CustomerOrderKey, DISTRICTS, DistrictKey, HistoryKey, ItemKey, NameKey, OrderKey,
    OrderLineKey, StockKey, WarehouseKey, order_of_customer,
};
use super::schema::{
    Customer, CustomerData, District, History, Item, NewOrder, Order, OrderLine, Stock, StockInfo, Warehouse,
};

/// Size of the business. The defaults are the specification's numbers for one warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses.
    pub warehouses: u16,
    /// Items of the catalogue, and stock rows of each warehouse: 100,000.
    pub items: u32,
    /// Customers of a district, and its initial orders: 3,000.
    pub customers: u32,
}

impl Scale {
    /// Number of the last delivered order of a fresh district: 2,100 of 3,000.
    pub(crate) fn delivered(self) -> u32 {
        self.customers * 7 / 10
    }
}

/// The tables of TPC-C's transactions, with the state beside the database.
pub struct Tables {
    /// Database of the tables.
    pub db: Database,
    pub(crate) scale: Scale,
    pub(crate) warehouse: Table<WarehouseKey, Warehouse>,
    pub(crate) district: Table<DistrictKey, District>,
    pub(crate) customer: Table<CustomerKey, Customer>,
    pub(crate) customer_data: Table<CustomerKey, CustomerData>,
    pub(crate) customer_by_name: Index<NameKey, CustomerKey, Customer>,
    pub(crate) history: Table<HistoryKey, History>,
    pub(crate) new_order: Table<OrderKey, NewOrder>,
    pub(crate) order: Table<OrderKey, Order>,
    pub(crate) order_by_customer: Index<CustomerOrderKey, OrderKey, Order>,
    pub(crate) order_line: Table<OrderLineKey, OrderLine>,
    pub(crate) item: Table<ItemKey, Item>,
    pub(crate) stock: Table<StockKey, Stock>,
    pub(crate) stock_info: Table<StockKey, StockInfo>,
    /// The first order of each district that may still wait for delivery. Deliveries start their scan at this order,
    /// not at the remains of delivered orders that are not yet cleaned away. The number only moves up, after a commit.
    pub(crate) undelivered: Vec<AtomicU32>,
    /// Order numbers by district, for a run without order numbers from the district's row.
    order_ids: Vec<OwnLine<AtomicU32>>,
    /// A set of tables for each warehouse; empty if the tables are not split.
    parts: Vec<Tables>,
    /// Number of the next writer of history rows. A terminal is one writer per slice, with its own row numbers.
    writers: AtomicU32,
}

/// Places of a warehouse among the hints: more than districts, so that no two warehouses' hints lie on one line.
const HINTS_PER_WAREHOUSE: usize = 32;

/// A value that shares its cache line, and the line fetched with it, with no other value.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLine<T>(pub T);

/// Maximum number of writers in one life of the process; the loader of the first life is writer 0.
const WRITERS_PER_LIFE: u32 = 1 << 10;

impl Tables {
    /// Opens the tables in `db`, and creates missing tables.
    pub fn open(db: &Database, scale: Scale) -> ensile::Result<Self> {
        Self::open_set(db, scale, "")
    }

    /// Opens one set of tables for each warehouse (Silo §5.4, `Split`), the catalogue of items included, and creates
    /// missing sets. Of the five transactions only new-order supports split tables.
    pub(crate) fn open_split(db: &Database, scale: Scale) -> ensile::Result<Self> {
        let part = |warehouse: u16| Self::open_set(db, scale, &format!(" of warehouse {warehouse}"));
        let parts: Vec<Self> = (1..=scale.warehouses).map(part).collect::<ensile::Result<_>>()?;
        Ok(Self { parts, ..part(1)? })
    }

    fn open_set(db: &Database, scale: Scale, suffix: &str) -> ensile::Result<Self> {
        let name = |table: &str| format!("{table}{suffix}");
        let customer = db
            .define::<CustomerKey, Customer>(&name("customer"))
            .index("by_name", 1, |key: &CustomerKey, row: &Customer| (key.0, key.1, row.last, row.first))
            .open()?;
        let order = db
            .define::<OrderKey, Order>(&name("order"))
            .unique_index("by_customer", 1, |key: &OrderKey, row: &Order| {
                order_of_customer((key.0, key.1, row.customer.get()), key.2)
            })
            .open()?;
        let hints = usize::from(scale.warehouses) * HINTS_PER_WAREHOUSE;
        Ok(Self {
            db: db.clone(),
            scale,
            warehouse: db.table(&name("warehouse"))?,
            district: db.table(&name("district"))?,
            customer_by_name: customer.index("by_name")?,
            customer,
            customer_data: db.table(&name("customer_data"))?,
            history: db.table(&name("history"))?,
            new_order: db.table(&name("new_order"))?,
            order_by_customer: order.index("by_customer")?,
            order,
            order_line: db.table(&name("order_line"))?,
            item: db.table(&name("item"))?,
            stock: db.table(&name("stock"))?,
            stock_info: db.table(&name("stock_info"))?,
            undelivered: (0..hints).map(|_| AtomicU32::new(1)).collect(),
            order_ids: (0..hints).map(|_| OwnLine(AtomicU32::new(scale.customers + 1))).collect(),
            parts: Vec::new(),
            writers: AtomicU32::new(1),
        })
    }

    /// The tables with the rows of a warehouse.
    #[inline]
    pub(crate) fn of(&self, warehouse: u16) -> &Self {
        self.parts.get(usize::from(warehouse) - 1).unwrap_or(self)
    }

    /// Every set of tables.
    pub fn sets(&self) -> &[Self] {
        if self.parts.is_empty() { std::slice::from_ref(self) } else { &self.parts }
    }

    /// The next order number of a district from the counter beside the database. The counter never goes back: a
    /// rolled-back order leaves a gap.
    pub(crate) fn next_order_id(&self, warehouse: u16, district: u8) -> u32 {
        let counter = &self.order_ids[Self::district_index(warehouse, district)].0;
        // Relaxed: only the uniqueness of the number matters.
        counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes room for the history of a process that continues after `lives` other processes on the same folder.
    pub(crate) fn begin_life(&self, lives: u32) {
        // Relaxed: set before any terminal exists.
        self.writers.store(lives * WRITERS_PER_LIFE + 1, Ordering::Relaxed);
    }

    /// A unique number for a writer of history.
    pub(crate) fn next_writer(&self) -> u16 {
        // Relaxed: only the number matters.
        let writer = self.writers.fetch_add(1, Ordering::Relaxed);
        u16::try_from(writer).expect("fewer writers than the key of history has room for")
    }

    /// The first order of a district that may be undelivered; warehouses and districts count from 1.
    #[inline]
    pub(crate) fn undelivered(&self, warehouse: u16, district: u8) -> &AtomicU32 {
        let of_warehouse = (usize::from(warehouse) - 1) * HINTS_PER_WAREHOUSE;
        &self.undelivered[of_warehouse + usize::from(district) - 1]
    }

    /// The place of a district in per-district lists; warehouses and districts count from 1.
    #[inline]
    pub(crate) fn district_index(warehouse: u16, district: u8) -> usize {
        (usize::from(warehouse) - 1) * usize::from(DISTRICTS) + usize::from(district) - 1
    }
}

/// The error of a missing row, a row that the schema promises.
#[cold]
pub(crate) fn missing(what: &str) -> ensile::Error {
    ensile::Error::Misuse(format!("a row of {what} that TPC-C relies on is not there"))
}
