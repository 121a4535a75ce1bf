//! The new-order transaction (clause 2.4): an order of five to fifteen items. One order in a hundred is entered wrongly
//! and rolls back at its last line.
//!
//! Neighbours: [`super::terminal`] draws and runs the transaction; `crash` keeps the acknowledged orders.

use ensile::{Error, Key, Readable, Table, Transaction, Value};
use ensile_base::random::Random;

use super::desk::Desk;
use super::draw::{is_original, nurand};
use super::keys::{self, DISTRICTS};
use super::schema::{NewOrder, Order, OrderLine};
use super::tables::{Tables, missing};

/// Maximum number of lines of an order.
pub(crate) const LINES_MAX: usize = 15;

/// One entered line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    pub(crate) item: u32,
    /// Number of the warehouse that supplies the item.
    pub supply_warehouse: u16,
    pub(crate) quantity: u8,
}

/// The input at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Number of the home warehouse.
    pub warehouse: u16,
    pub(crate) district: u8,
    pub(crate) customer: u32,
    pub(crate) date: u64,
    /// The order's number, for a run without order numbers from the district's row.
    pub(crate) order: Option<u32>,
    pub(crate) line_count: u8,
    pub(crate) all_local: bool,
    /// True if S_DIST_xx and the brands are read.
    pub(crate) stock_info: bool,
    pub(crate) lines: [Line; LINES_MAX],
}

/// The terminal's output for a placed order.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub(crate) order: u32,
    /// Sum of the lines' amounts, in cents.
    pub(crate) amount: i64,
    /// Price for the customer, in cents, after discount and taxes.
    pub total: f64,
    /// Number of lines whose item and stock are of the original brand.
    pub brand_lines: u8,
}

impl Input {
    /// The entered lines.
    #[inline]
    pub fn lines(&self) -> &[Line] {
        &self.lines[..usize::from(self.line_count)]
    }

    /// Draws an order (2.4.1).
    #[inline]
    pub(crate) fn draw(desk: &Desk<'_>, random: &mut Random, date: u64) -> Self {
        let scale = desk.scale;
        let warehouse = desk.home(random);
        let district = random.next_between(1, u64::from(DISTRICTS)) as u8;
        let flags = desk.flags;
        let mut input = Self {
            warehouse,
            district,
            order: desk.order_number(warehouse, district),
            customer: desk.customer(random),
            date,
            line_count: random.next_between(5, LINES_MAX as u64) as u8,
            all_local: true,
            stock_info: flags.stock_info,
            lines: [Line::default(); LINES_MAX],
        };
        for line in &mut input.lines[..usize::from(input.line_count)] {
            let item = nurand(random, 8191, desk.constants.item, 1, u64::from(scale.items)) as u32;
            let remote =
                scale.warehouses > 1 && random.next_below(1_000_000) < flags.remote_items_per_million;
            let supply_warehouse = if remote { desk.other(random, warehouse) } else { warehouse };
            *line = Line { item, supply_warehouse, quantity: random.next_between(1, 10) as u8 };
            input.all_local &= !remote;
        }
        if flags.entry_errors && random.percent(1) {
            input.lines[usize::from(input.line_count) - 1].item = scale.items + 1;
        }
        input
    }
}

/// Row operations of a new-order, for a transaction and for a store that is compared with transactions.
pub trait OrderStore {
    /// Reads the row of `key`; returns the result of `read`.
    fn read<K: Key, V: Value, R>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        read: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>, Error>;

    /// Changes the row of `key`; false without a row.
    fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        change: impl FnOnce(&mut V),
    ) -> Result<bool, Error>;

    /// Writes a row.
    fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error>;

    /// Writes a row whose key is free.
    fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error>;
}

impl OrderStore for Transaction<'_> {
    #[inline]
    fn read<K: Key, V: Value, R>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        read: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>, Error> {
        self.get_with(table, key, read)
    }

    #[inline]
    fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        change: impl FnOnce(&mut V),
    ) -> Result<bool, Error> {
        Transaction::update(self, table, key, change)
    }

    #[inline]
    fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error> {
        Transaction::put(self, table, key, value)
    }

    #[inline]
    fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error> {
        Transaction::insert(self, table, key, value)
    }
}

/// Reason for a refused order.
#[derive(Debug)]
pub enum Refused {
    /// The item does not exist: one order in a hundred is to be rolled back (§2.4.1.4).
    UnknownItem,
    /// Error of the engine.
    Failed(Error),
}

impl From<Error> for Refused {
    #[inline]
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(feature = "laboratory")]
impl Refused {
    /// The error for a caller whose items all exist.
    pub fn into_error(self) -> Error {
        match self {
            Self::UnknownItem => missing("item"),
            Self::Failed(error) => error,
        }
    }
}

/// The order's number and the district's tax.
#[inline]
fn number_order(store: &mut impl OrderStore, home: &Tables, input: &Input) -> Result<(u32, i32), Error> {
    let key = keys::district(input.warehouse, input.district);
    if let Some(order) = input.order {
        let tax = store.read(&home.district, &key, |row| row.tax.get())?;
        return tax.map(|tax| (order, tax)).ok_or_else(|| missing("district"));
    }
    let (mut order, mut tax) = (0, 0);
    let there = store.update(&home.district, &key, |row| {
        order = row.next_order.get();
        row.next_order.set(order + 1);
        tax = row.tax.get();
    })?;
    if there { Ok((order, tax)) } else { Err(missing("district")) }
}

/// Places the order. An unknown item ends the transaction, after the earlier lines.
pub fn run(tx: &mut impl OrderStore, tables: &Tables, input: &Input) -> Result<Placed, Refused> {
    let (warehouse, district) = (input.warehouse, input.district);
    let home = tables.of(warehouse);
    let warehouse_tax = tx
        .read(&home.warehouse, &keys::warehouse(warehouse), |row| row.tax.get())?
        .ok_or_else(|| missing("warehouse"))?;
    let (order, district_tax) = number_order(tx, home, input)?;
    let discount = tx
        .read(&home.customer, &keys::customer(warehouse, district, input.customer), |row| row.discount.get())?
        .ok_or_else(|| missing("customer"))?;
    // Blind: the district's counter has just reserved this order number for this transaction.
    tx.put(&home.new_order, &keys::order(warehouse, district, order), &NewOrder { waiting: 1 })?;
    tx.insert(
        &home.order,
        &keys::order(warehouse, district, order),
        &Order {
            customer: input.customer.into(),
            entry_date: input.date.into(),
            carrier: 0,
            line_count: input.line_count,
            all_local: u8::from(input.all_local),
        },
    )?;
    let (mut amount, mut brand_lines) = (0, 0);
    for (index, line) in input.lines().iter().enumerate() {
        let (line_amount, brand) = place_line(tx, tables, input, order, index as u8 + 1, line)?;
        amount += i64::from(line_amount);
        brand_lines += u8::from(brand);
    }
    let total = amount as f64
        * (1.0 - f64::from(discount) / 1e4)
        * (1.0 + f64::from(warehouse_tax) / 1e4 + f64::from(district_tax) / 1e4);
    Ok(Placed { order, amount, total, brand_lines })
}

/// Places one line: reads the item's price, takes the stock, writes the order line. Returns the amount in cents, and
/// true for the original brand.
#[inline]
fn place_line(
    tx: &mut impl OrderStore,
    tables: &Tables,
    input: &Input,
    order: u32,
    number: u8,
    line: &Line,
) -> Result<(i32, bool), Refused> {
    let (home, supply) = (tables.of(input.warehouse), tables.of(line.supply_warehouse));
    let item =
        tx.read(&home.item, &line.item, |row| (row.price.get(), input.stock_info && is_original(&row.data)))?;
    let Some((price, mut brand)) = item else {
        return Err(Refused::UnknownItem);
    };
    let mut district_info = [0; 24];
    let there = tx.update(&supply.stock, &keys::stock(line.supply_warehouse, line.item), |row| {
        let wanted = i32::from(line.quantity);
        let left = row.quantity.get() - wanted;
        row.quantity.set(if left >= 10 { left } else { left + 91 });
        row.ytd += u32::from(line.quantity);
        row.order_count += 1;
        row.remote_count += u32::from(line.supply_warehouse != input.warehouse);
    })?;
    if !there {
        return Err(missing("stock").into());
    }
    if input.stock_info {
        tx.read(&supply.stock_info, &keys::stock(line.supply_warehouse, line.item), |row| {
            district_info = row.district_info[usize::from(input.district) - 1];
            brand = brand && is_original(&row.data);
        })?
        .ok_or_else(|| missing("stock_info"))?;
    }
    let amount = i32::from(line.quantity) * price;
    // Blind, as the order number is reserved.
    tx.put(
        &home.order_line,
        &keys::order_line(input.warehouse, input.district, order, number),
        &OrderLine {
            item: line.item.into(),
            supply_warehouse: line.supply_warehouse.into(),
            quantity: line.quantity,
            amount: amount.into(),
            delivery_date: 0.into(),
            district_info,
        },
    )?;
    Ok((amount, brand))
}
