//! The order-status transaction (clause 2.6): a customer asks for the state of the last order.
//!
//! Neighbours: [`super::terminal`] draws and runs the transaction, by default on a snapshot.

use std::ops::ControlFlow;

use ensile::{Error, Readable};
use ensile_base::random::Random;

use super::desk::{Desk, Selection};
use super::keys::{DISTRICTS, LineNumber, orders_of_customer};
use super::payment::customer_selected;
use super::tables::{Tables, missing};

/// Input of the transaction at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub(crate) warehouse: u16,
    pub(crate) district: u8,
    pub(crate) customer: Selection,
}

/// Output of the transaction at the terminal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    pub(crate) balance: i64,
    pub(crate) order: u32,
    pub(crate) entry_date: u64,
    pub(crate) carrier: u8,
    pub(crate) lines: u32,
    /// Sum over the order's lines, in cents.
    pub(crate) amount: i64,
    /// Number of delivered lines.
    pub(crate) delivered_lines: u32,
}

impl Input {
    /// Draws an input (2.6.1).
    #[inline]
    pub(crate) fn draw(desk: &Desk<'_>, random: &mut Random) -> Self {
        Self {
            warehouse: desk.home(random),
            district: random.next_between(1, u64::from(DISTRICTS)) as u8,
            customer: desk.selection(random),
        }
    }
}

/// Runs the transaction.
pub(crate) fn run(
    reader: &mut impl Readable,
    tables: &Tables,
    input: &Input,
    scratch: &mut Vec<u32>,
) -> Result<Status, Error> {
    let key = customer_selected(reader, tables, input.warehouse, input.district, input.customer, scratch)?;
    let balance = reader
        .get_with(&tables.customer, &key, |row| row.balance.get())?
        .ok_or_else(|| missing("customer"))?;
    let mut status = Status { balance, ..Status::default() };
    let last = reader.last(&tables.order_by_customer, orders_of_customer(key))?;
    let Some(((warehouse, district, order), row)) = last else {
        return Err(missing("order of a customer"));
    };
    status.order = order;
    status.entry_date = row.entry_date.get();
    status.carrier = row.carrier;
    let lines = (warehouse, district, order, 0)..=(warehouse, district, order, LineNumber::MAX);
    reader.scan(&tables.order_line, lines, |_, line| {
        status.lines += 1;
        status.amount += i64::from(line.amount.get());
        status.delivered_lines += u32::from(line.delivery_date.get() != 0);
        ControlFlow::Continue(())
    })?;
    Ok(status)
}
