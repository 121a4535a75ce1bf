//! The delivery transaction (clause 2.7): a carrier takes the oldest waiting order of each district of a warehouse.
//!
//! Neighbours: drawn and run by [`super::terminal`].

use ensile::{Error, Readable, Transaction};
use ensile_base::random::Random;
use ensile_base::sync::Ordering;

use super::keys::DISTRICTS;
use super::tables::{Tables, missing};
use super::terminal::Terminal;

/// What is entered at the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) warehouse: u16,
    pub(crate) carrier: u8,
    pub(crate) date: u64,
}

/// The orders that were delivered, by district; 0 where none waited.
pub(crate) type Delivered = [u32; DISTRICTS as usize];

impl Input {
    /// Draws a delivery (2.7.1).
    #[inline]
    pub(crate) fn draw(terminal: &Terminal<'_>, random: &mut Random, date: u64) -> Self {
        Self { warehouse: terminal.home(random), carrier: random.between(1, 10) as u8, date }
    }
}

/// Delivers one order of each district.
pub(crate) fn run(tx: &mut Transaction<'_>, tables: &Tables, input: &Input) -> Result<Delivered, Error> {
    let mut delivered = [0; DISTRICTS as usize];
    for (index, order) in delivered.iter_mut().enumerate() {
        *order = deliver(tx, tables, input, index as u8 + 1)?;
    }
    Ok(delivered)
}

/// After the commit: the next deliveries start their scans behind these orders.
pub(crate) fn committed(tables: &Tables, input: &Input, delivered: &Delivered) {
    for (index, &order) in delivered.iter().enumerate() {
        if order > 0 {
            let hint = &tables.undelivered[Tables::district_index(input.warehouse, index as u8 + 1)];
            // Relaxed: a hint that only ever moves up; starting too early is slow, and it is never too late, because
            // order numbers grow and everything up to this one was delivered before the hint says so.
            hint.fetch_max(order + 1, Ordering::Relaxed);
        }
    }
}

/// Delivers the oldest waiting order of one district; 0 if none waits.
fn deliver(tx: &mut Transaction<'_>, tables: &Tables, input: &Input, district: u8) -> Result<u32, Error> {
    let warehouse = input.warehouse;
    // Relaxed: see `committed`.
    let from = tables.undelivered[Tables::district_index(warehouse, district)].load(Ordering::Relaxed);
    let waiting = (warehouse, district, from)..=(warehouse, district, u32::MAX);
    let Some(((_, _, order), _)) = tx.first(&tables.new_order, waiting)? else {
        return Ok(0);
    };
    if !tx.delete(&tables.new_order, &(warehouse, district, order))? {
        return Err(missing("new_order"));
    }
    let (mut customer, mut line_count) = (0, 0);
    let there = tx.update(&tables.order, &(warehouse, district, order), |row| {
        customer = row.customer.get();
        line_count = row.line_count;
        row.carrier = input.carrier;
    })?;
    if !there {
        return Err(missing("order"));
    }
    let mut amount = 0;
    for line in 1..=line_count {
        let there = tx.update(&tables.order_line, &(warehouse, district, order, line), |row| {
            amount += i64::from(row.amount.get());
            row.delivery_date.set(input.date);
        })?;
        if !there {
            return Err(missing("order_line"));
        }
    }
    let there = tx.update(&tables.customer, &(warehouse, district, customer), |row| {
        row.balance += amount;
        row.delivery_count += 1;
    })?;
    if there { Ok(order) } else { Err(missing("customer")) }
}
