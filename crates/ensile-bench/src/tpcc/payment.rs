//! The payment transaction (clause 2.5): a customer pays; warehouse, district and customer are credited, and history
//! gets a row.
//!
//! Neighbours: [`super::terminal`] draws and runs the transaction; [`customer_selected`] also serves
//! [`super::order_status`].

use std::io::Write as _;
use std::ops::ControlFlow;

use ensile::{Error, Readable, Transaction};
use ensile_base::random::Random;

use super::desk::{Desk, Selection};
use super::keys::{self, CustomerKey, DISTRICTS, customers_named};
use super::schema::{CustomerData, History};
use super::tables::{Tables, missing};

/// The input at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub(crate) warehouse: u16,
    pub(crate) district: u8,
    pub(crate) customer_warehouse: u16,
    pub(crate) customer_district: u8,
    pub(crate) customer: Selection,
    /// Amount in cents.
    pub(crate) amount: i32,
    pub(crate) date: u64,
    /// Number of the writing desk, and number of the history row at this desk.
    pub(crate) history: (u16, u64),
}

impl Input {
    /// Draws a payment (2.5.1).
    #[inline]
    pub(crate) fn draw(desk: &Desk<'_>, random: &mut Random, date: u64) -> Self {
        let warehouse = desk.home(random);
        let district = random.next_between(1, u64::from(DISTRICTS)) as u8;
        let remote = desk.scale.warehouses > 1 && random.percent(desk.flags.remote_payments);
        let (customer_warehouse, customer_district) = if remote {
            (desk.other(random, warehouse), random.next_between(1, u64::from(DISTRICTS)) as u8)
        } else {
            (warehouse, district)
        };
        Self {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: desk.selection(random),
            amount: random.next_between(100, 500_000) as i32,
            date,
            history: desk.next_history(),
        }
    }
}

/// The customer of a selection: by name, the middle customer in the index's order of first names (2.5.2.2).
#[inline]
pub(crate) fn customer_selected(
    reader: &mut impl Readable,
    tables: &Tables,
    warehouse: u16,
    district: u8,
    selection: Selection,
    scratch: &mut Vec<u32>,
) -> Result<CustomerKey, Error> {
    let number = match selection {
        Selection::Number(number) => number,
        Selection::LastName(last) => {
            scratch.clear();
            let named = customers_named(warehouse, district, last);
            reader.scan_keys(&tables.customer_by_name, named, |key| {
                scratch.push(key.2);
                ControlFlow::Continue(())
            })?;
            if scratch.is_empty() {
                return Err(missing("customer by last name"));
            }
            // Position n/2 rounded up, counted from 1.
            scratch[scratch.len().div_ceil(2) - 1]
        }
    };
    Ok(keys::customer(warehouse, district, number))
}

/// Books the payment; returns the customer's number.
pub(crate) fn run(
    tx: &mut Transaction<'_>,
    tables: &Tables,
    input: &Input,
    scratch: &mut Vec<u32>,
) -> Result<u32, Error> {
    let amount = i64::from(input.amount);
    let (mut warehouse_name, mut district_name) = ([0; 10], [0; 10]);
    let there = tx.update(&tables.warehouse, &keys::warehouse(input.warehouse), |row| {
        row.ytd += amount;
        warehouse_name = row.name;
    })?;
    if !there {
        return Err(missing("warehouse"));
    }
    let there = tx.update(&tables.district, &keys::district(input.warehouse, input.district), |row| {
        row.ytd += amount;
        district_name = row.name;
    })?;
    if !there {
        return Err(missing("district"));
    }
    let key = customer_selected(
        tx,
        tables,
        input.customer_warehouse,
        input.customer_district,
        input.customer,
        scratch,
    )?;
    let mut bad_credit = false;
    let there = tx.update(&tables.customer, &key, |row| {
        row.balance -= amount;
        row.ytd_payment += amount;
        row.payment_count += 1;
        bad_credit = row.credit == *b"BC";
    })?;
    if !there {
        return Err(missing("customer"));
    }
    if bad_credit && !tx.update(&tables.customer_data, &key, |row| remember(row, key, input))? {
        return Err(missing("customer_data"));
    }
    // Blind: the number is this writer's own.
    let row = history_row(key.2, input, warehouse_name, district_name);
    tx.put(&tables.history, &keys::history(&row, input.history), &row)?;
    Ok(key.2)
}

fn history_row(customer: u32, input: &Input, warehouse_name: [u8; 10], district_name: [u8; 10]) -> History {
    let mut data = [b' '; 24];
    data[..10].copy_from_slice(&warehouse_name);
    data[14..].copy_from_slice(&district_name);
    History {
        customer: customer.into(),
        customer_district: input.customer_district,
        customer_warehouse: input.customer_warehouse.into(),
        district: input.district,
        warehouse: input.warehouse.into(),
        date: input.date.into(),
        amount: input.amount.into(),
        data,
    }
}

/// Writes a payment of a customer with bad credit in front of the customer's data (2.5.2.2).
fn remember(row: &mut CustomerData, key: CustomerKey, input: &Input) {
    let mut note = [0; 64];
    let mut rest = &mut note[..];
    let (units, cents) = (input.amount / 100, input.amount % 100);
    write!(rest, "{} {} {} {} {} {units}.{cents:02} ", key.2, key.1, key.0, input.district, input.warehouse)
        .expect("six numbers of at most ten digits fit");
    let left = rest.len();
    let length = note.len() - left;
    row.data.copy_within(..500 - length, length);
    row.data[..length].copy_from_slice(&note[..length]);
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::{Input, remember};
    use crate::tpcc::desk::Selection;
    use crate::tpcc::schema::CustomerData;

    #[test]
    fn bad_credit_is_remembered_in_front_and_the_oldest_falls_off() {
        let mut row = CustomerData::new_zeroed();
        row.data = [b'x'; 500];
        row.data[499] = b'y';
        let input = Input {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            customer: Selection::Number(5),
            amount: 123_405,
            date: 0,
            history: (0, 0),
        };
        remember(&mut row, (3, 4, 5), &input);
        assert!(row.data.starts_with(b"5 4 3 2 1 1234.05 xxx"));
        assert_eq!(row.data[499], b'x');
    }
}
