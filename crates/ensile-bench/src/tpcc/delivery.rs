//! The delivery transaction (clause 2.7): a carrier takes the oldest waiting order of each district of a warehouse.
//!
//! Neighbours: drawn and run by [`super::terminal`].

use ensile::{Error, Readable, Transaction};
use ensile_base::random::Random;
use ensile_base::sync::Ordering;

use super::desk::Desk;
use super::keys::{self, CustomerKey, DISTRICTS, OrderKey, OrderLineKey};
use super::tables::{Tables, missing};

/// The input at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub(crate) warehouse: u16,
    pub(crate) carrier: u8,
    pub(crate) date: u64,
}

/// The delivered orders, by district; 0 if no order waited.
pub(crate) type Delivered = [u32; DISTRICTS as usize];

impl Input {
    /// Draws a delivery (2.7.1).
    #[inline]
    pub(crate) fn draw(desk: &Desk<'_>, random: &mut Random, date: u64) -> Self {
        Self { warehouse: desk.home(random), carrier: random.next_between(1, 10) as u8, date }
    }
}

/// Delivers an order of each district, in three steps over all districts. So announced rows of a step are fetched from
/// memory together.
pub(crate) fn run(
    tx: &mut Transaction<'_>,
    tables: &Tables,
    input: &Input,
    announce: bool,
) -> Result<Delivered, Error> {
    let mut parcels = [Parcel::default(); DISTRICTS as usize];
    for (parcel, district) in parcels.iter_mut().zip(1..) {
        *parcel = oldest_waiting(tx, tables, input.warehouse, district)?;
    }
    let waiting = |parcel: &&mut Parcel| parcel.order > 0;
    if announce {
        tx.prefetch(|prefetch| {
            for parcel in parcels.iter_mut().filter(waiting) {
                prefetch.key(&tables.new_order, &parcel.key(input));
                prefetch.key(&tables.order, &parcel.key(input));
            }
        })?;
    }
    for parcel in parcels.iter_mut().filter(waiting) {
        take(tx, tables, input, parcel)?;
    }
    if announce {
        tx.prefetch(|prefetch| {
            for parcel in parcels.iter_mut().filter(waiting) {
                for line in 1..=parcel.line_count {
                    prefetch.key(&tables.order_line, &parcel.line_key(input, line));
                }
                prefetch.key(&tables.customer, &parcel.customer_key(input));
            }
        })?;
    }
    for parcel in parcels.iter_mut().filter(waiting) {
        hand_over(tx, tables, input, parcel)?;
    }
    Ok(parcels.map(|parcel| parcel.order))
}

/// One district's order on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Parcel {
    district: u8,
    /// The order's number; 0 if no order waits.
    order: u32,
    customer: u32,
    line_count: u8,
}

impl Parcel {
    fn key(&self, input: &Input) -> OrderKey {
        keys::order(input.warehouse, self.district, self.order)
    }

    fn line_key(&self, input: &Input, line: u8) -> OrderLineKey {
        keys::order_line(input.warehouse, self.district, self.order, line)
    }

    fn customer_key(&self, input: &Input) -> CustomerKey {
        keys::customer(input.warehouse, self.district, self.customer)
    }
}

/// After the commit: the next deliveries start the scans behind these orders.
pub(crate) fn committed(tables: &Tables, input: &Input, delivered: &Delivered) {
    for (index, &order) in delivered.iter().enumerate() {
        if order > 0 {
            let hint = tables.undelivered(input.warehouse, index as u8 + 1);
            // Relaxed: a hint that only moves up. A scan from an early start is slow. A scan never starts too late,
            // because order numbers grow and every earlier order was delivered before the hint moves.
            hint.fetch_max(order + 1, Ordering::Relaxed);
        }
    }
}

/// The oldest waiting order of one district.
fn oldest_waiting(
    tx: &mut Transaction<'_>,
    tables: &Tables,
    warehouse: u16,
    district: u8,
) -> Result<Parcel, Error> {
    // Relaxed: see `committed`.
    let from = tables.undelivered(warehouse, district).load(Ordering::Relaxed);
    let waiting = keys::order(warehouse, district, from)..=keys::order(warehouse, district, u32::MAX);
    let order = tx.first(&tables.new_order, waiting)?.map_or(0, |((_, _, order), _)| order);
    Ok(Parcel { district, order, ..Parcel::default() })
}

/// Removes the order from the waiting orders, and records the carrier.
fn take(tx: &mut Transaction<'_>, tables: &Tables, input: &Input, parcel: &mut Parcel) -> Result<(), Error> {
    if !tx.delete(&tables.new_order, &parcel.key(input))? {
        return Err(missing("new_order"));
    }
    let there = tx.update(&tables.order, &parcel.key(input), |row| {
        parcel.customer = row.customer.get();
        parcel.line_count = row.line_count;
        row.carrier = input.carrier;
    })?;
    if there { Ok(()) } else { Err(missing("order")) }
}

/// Dates the order's lines and books the amount on the customer.
fn hand_over(tx: &mut Transaction<'_>, tables: &Tables, input: &Input, parcel: &Parcel) -> Result<(), Error> {
    let mut amount = 0;
    for line in 1..=parcel.line_count {
        let there = tx.update(&tables.order_line, &parcel.line_key(input, line), |row| {
            amount += i64::from(row.amount.get());
            row.delivery_date.set(input.date);
        })?;
        if !there {
            return Err(missing("order_line"));
        }
    }
    let there = tx.update(&tables.customer, &parcel.customer_key(input), |row| {
        row.balance += amount;
        row.delivery_count += 1;
    })?;
    if there { Ok(()) } else { Err(missing("customer")) }
}
