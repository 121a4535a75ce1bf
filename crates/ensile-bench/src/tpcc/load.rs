//! Fills TPC-C's tables as clause 4.3.3 asks: items, warehouses, stock, districts, customers, their first payment and
//! their orders. The last three tenths of the orders still wait for delivery.
//!
//! Neighbours: [`super::tables`] defines the tables; [`super::consistency`] holds for the loaded rows.

use ensile::{Receipt, Transaction};
use ensile_base::clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, Ordering};

use super::draw::{Constants, LAST_NAMES, data, digits, last_name, letters, nurand};
use super::keys::{self, DISTRICTS};
use super::schema::{
    Address, Customer, CustomerData, District, History, Item, NewOrder, Order, OrderLine, Stock, StockInfo,
    Warehouse,
};
use super::tables::Tables;
use crate::failure::Result;

/// Rows (orders with their lines) of one loading transaction: enough to hide its fixed cost, few enough for its
/// write-set to stay in the nearest cache.
const ROWS_PER_TRANSACTION: u32 = 32;
/// First payment of each customer, in cents.
const FIRST_PAYMENT: i64 = 1_000;

/// Microseconds since 1970, for dates in rows.
pub(crate) fn date_now() -> u64 {
    clock::unix_seconds() * 1_000_000
}

/// Loads every table with `threads` threads, warehouse by warehouse. Returns the number of rows once they are durable,
/// or at once without a log. Snapshots are a moment old, and show the rows a little later.
pub fn load(tables: &Tables, constants: Constants, seed: u64, threads: usize) -> Result<u64> {
    let next = AtomicU64::new(0);
    let rows = AtomicU64::new(0);
    let warehouses = u64::from(tables.scale.warehouses);
    let work = || -> ensile::Result<()> {
        loop {
            // Relaxed: hands out warehouse numbers; 0 stands for the catalogue of items.
            let warehouse = next.fetch_add(1, Ordering::Relaxed);
            if warehouse > warehouses {
                return Ok(());
            }
            let mut loader = Loader {
                tables,
                constants,
                random: Random::from_seed(seed ^ (warehouse << 20)),
                date: date_now(),
                rows: 0,
                receipt: None,
            };
            if warehouse == 0 {
                for set in tables.sets() {
                    // The same catalogue in each set.
                    loader.random = Random::from_seed(seed);
                    loader.tables = set;
                    loader.items()?;
                }
            } else {
                loader.tables = tables.of(warehouse as u16);
                loader.warehouse(warehouse as u16)?
            }
            if let Some(receipt) = loader.receipt {
                receipt.durable()?;
            }
            // Relaxed: summed up before the threads are joined, read after.
            rows.fetch_add(loader.rows, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut outcome = work();
        for other in others {
            outcome = outcome.and(other.join().expect("a loader does not panic"));
        }
        outcome
    })?;
    Ok(rows.into_inner())
}

/// Loads one warehouse, or the items.
struct Loader<'a> {
    tables: &'a Tables,
    constants: Constants,
    random: Random,
    date: u64,
    rows: u64,
    receipt: Option<Receipt<'a>>,
}

impl Loader<'_> {
    /// Writes rows number `1..=count` in transactions of a fair size. `write` draws and puts the row of a number, and
    /// returns the number of written rows.
    fn rows(
        &mut self,
        count: u32,
        mut write: impl FnMut(&mut Transaction<'_>, &Tables, &mut Random, u32) -> ensile::Result<u64>,
    ) -> ensile::Result<()> {
        let mut first = 1;
        while first <= count {
            let last = count.min(first + ROWS_PER_TRANSACTION - 1);
            let before = self.random.clone();
            let (rows, receipt) = self.tables.db.submit(|tx| {
                // A retry draws the same rows again.
                self.random = before.clone();
                let mut rows = 0;
                for number in first..=last {
                    rows += write(tx, self.tables, &mut self.random, number)?;
                }
                Ok::<_, ensile::Error>(rows)
            })?;
            self.rows += rows;
            self.receipt = Some(receipt);
            first = last + 1;
        }
        Ok(())
    }

    fn items(&mut self) -> ensile::Result<()> {
        self.rows(self.tables.scale.items, |tx, tables, random, item| {
            let row = Item {
                image: (random.next_between(1, 10_000) as u32).into(),
                price: (random.next_between(100, 10_000) as i32).into(),
                name: letters(random, 14),
                data: data(random),
            };
            tx.put(&tables.item, &item, &row)?;
            Ok(1)
        })
    }

    fn warehouse(&mut self, warehouse: u16) -> ensile::Result<()> {
        let customers = i64::from(self.tables.scale.customers);
        self.rows(1, |tx, tables, random, _| {
            let row = Warehouse {
                ytd: (i64::from(DISTRICTS) * customers * FIRST_PAYMENT).into(),
                tax: (random.next_between(0, 2_000) as i32).into(),
                name: letters(random, 6),
                address: address(random),
            };
            tx.put(&tables.warehouse, &keys::warehouse(warehouse), &row)?;
            Ok(1)
        })?;
        self.rows(self.tables.scale.items, |tx, tables, random, item| {
            let row = Stock {
                quantity: (random.next_between(10, 100) as i32).into(),
                ytd: 0.into(),
                order_count: 0.into(),
                remote_count: 0.into(),
            };
            let info =
                StockInfo { data: data(random), district_info: std::array::from_fn(|_| letters(random, 24)) };
            tx.put(&tables.stock, &keys::stock(warehouse, item), &row)?;
            tx.put(&tables.stock_info, &keys::stock(warehouse, item), &info)?;
            Ok(2)
        })?;
        for district in 1..=DISTRICTS {
            self.district(warehouse, district)?;
            self.customers(warehouse, district)?;
            self.orders(warehouse, district)?;
        }
        Ok(())
    }

    fn district(&mut self, warehouse: u16, district: u8) -> ensile::Result<()> {
        let customers = self.tables.scale.customers;
        self.rows(1, |tx, tables, random, _| {
            let row = District {
                ytd: (i64::from(customers) * FIRST_PAYMENT).into(),
                tax: (random.next_between(0, 2_000) as i32).into(),
                next_order: (customers + 1).into(),
                name: letters(random, 6),
                address: address(random),
            };
            tx.put(&tables.district, &keys::district(warehouse, district), &row)?;
            Ok(1)
        })
    }

    fn customers(&mut self, warehouse: u16, district: u8) -> ensile::Result<()> {
        let (date, constant) = (self.date, self.constants.last_name_load);
        let customers = self.tables.scale.customers;
        let base = Tables::district_index(warehouse, district) as u64 * u64::from(customers);
        self.rows(customers, |tx, tables, random, customer| {
            let name = if customer <= LAST_NAMES {
                customer - 1
            } else {
                nurand(random, 255, constant, 0, u64::from(LAST_NAMES) - 1) as u32
            };
            let key = keys::customer(warehouse, district, customer);
            tx.put(&tables.customer, &key, &customer_row(random, name, date))?;
            tx.put(&tables.customer_data, &key, &CustomerData { data: letters(random, 300) })?;
            let payment = History {
                customer: customer.into(),
                customer_district: district,
                customer_warehouse: warehouse.into(),
                district,
                warehouse: warehouse.into(),
                date: date.into(),
                amount: (FIRST_PAYMENT as i32).into(),
                data: letters(random, 12),
            };
            tx.put(&tables.history, &keys::history(&payment, (0, base + u64::from(customer))), &payment)?;
            Ok(3)
        })
    }

    fn orders(&mut self, warehouse: u16, district: u8) -> ensile::Result<()> {
        let date = self.date;
        let scale = self.tables.scale;
        let mut customers: Vec<u32> = (1..=scale.customers).collect();
        for index in (1..customers.len()).rev() {
            customers.swap(index, self.random.next_below(index as u64 + 1) as usize);
        }
        self.rows(scale.customers, |tx, tables, random, order| {
            let delivered = order <= scale.delivered();
            let row = Order {
                customer: customers[order as usize - 1].into(),
                entry_date: date.into(),
                carrier: if delivered { random.next_between(1, 10) as u8 } else { 0 },
                line_count: random.next_between(5, 15) as u8,
                all_local: 1,
            };
            tx.put(&tables.order, &keys::order(warehouse, district, order), &row)?;
            for number in 1..=row.line_count {
                let line = OrderLine {
                    item: (random.next_between(1, u64::from(scale.items)) as u32).into(),
                    supply_warehouse: warehouse.into(),
                    quantity: 5,
                    amount: if delivered { 0 } else { random.next_between(1, 999_999) as i32 }.into(),
                    delivery_date: if delivered { date } else { 0 }.into(),
                    district_info: letters(random, 24),
                };
                tx.put(&tables.order_line, &keys::order_line(warehouse, district, order, number), &line)?;
            }
            if !delivered {
                tx.put(
                    &tables.new_order,
                    &keys::order(warehouse, district, order),
                    &NewOrder { waiting: 1 },
                )?;
            }
            Ok(1 + u64::from(row.line_count) + u64::from(!delivered))
        })
    }
}

fn address(random: &mut Random) -> Address {
    let mut zip = *b"000011111";
    zip[..4].copy_from_slice(&digits::<4>(random));
    Address {
        street_1: letters(random, 10),
        street_2: letters(random, 10),
        city: letters(random, 10),
        state: letters(random, 2),
        zip,
    }
}

fn customer_row(random: &mut Random, name: u32, date: u64) -> Customer {
    Customer {
        balance: (-FIRST_PAYMENT).into(),
        ytd_payment: FIRST_PAYMENT.into(),
        payment_count: 1.into(),
        delivery_count: 0.into(),
        discount: (random.next_between(0, 5_000) as i32).into(),
        credit: if random.percent(10) { *b"BC" } else { *b"GC" },
        first: letters(random, 8),
        middle: *b"OE",
        last: last_name(name),
        credit_limit: 5_000_000.into(),
        since: date.into(),
        phone: digits(random),
        address: address(random),
    }
}
