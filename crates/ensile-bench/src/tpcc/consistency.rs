//! TPC-C's consistency conditions 1 to 12 (clause 3.3.2), on a database in which no transaction runs.
//!
//! Every condition is checked for every warehouse, district, order and customer, in one pass over each table. Condition
//! 11 is stated for a fresh database (orders less new-orders is 2,100). The check adds the number of deliveries that
//! the customers remember on the right; with this number the condition holds at any time.
//!
//! Neighbours: `--check` runs the checks, as does `crash` after every kill.

use std::fmt;
use std::ops::ControlFlow;

use ensile::{Readable, Snapshot};

use super::keys::{self, DISTRICTS};
use super::tables::Tables;
use crate::failure::Result;

/// Number of findings of one condition printed in full; the rest is counted.
const TOLD_MAX: u64 = 3;

/// The violations.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of violations of each condition, at its number.
    counts: [u64; 13],
    /// The first few violations of each condition, in words.
    told: Vec<String>,
}

impl Findings {
    fn add(&mut self, condition: usize, detail: impl FnOnce() -> String) {
        self.counts[condition] += 1;
        if self.counts[condition] <= TOLD_MAX {
            self.told.push(format!("condition {condition}: {}", detail()));
        }
    }

    fn equal<T: PartialEq + fmt::Display>(
        &mut self,
        condition: usize,
        place: &dyn fmt::Display,
        left: T,
        right: T,
    ) {
        if left != right {
            self.add(condition, || format!("{place}: {left} is not {right}"));
        }
    }

    /// True without a violation.
    pub fn is_clean(&self) -> bool {
        self.told.is_empty()
    }

    /// The violated conditions.
    #[cfg(test)]
    pub(crate) fn violated(&self) -> Vec<usize> {
        (1..=12).filter(|&condition| self.counts[condition] > 0).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.told {
            writeln!(f, "{line}")?;
        }
        for (condition, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > TOLD_MAX) {
            writeln!(f, "condition {condition}: violated {count} times in all")?;
        }
        Ok(())
    }
}

/// A place in the business, for messages.
struct Place(u16, u8);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warehouse {} district {}", self.0, self.1)
    }
}

/// Checks all twelve conditions.
pub fn check(tables: &Tables) -> Result<Findings> {
    let mut snapshot = tables.db.snapshot_latest()?;
    let mut findings = Findings::default();
    let payments = Payments::sum(tables, &mut snapshot)?;
    for warehouse in 1..=tables.scale.warehouses {
        let Some(row) = snapshot.get(&tables.warehouse, &keys::warehouse(warehouse))? else {
            findings.add(1, || format!("warehouse {warehouse} is not there"));
            continue;
        };
        let (mut districts_ytd, mut paid) = (0, 0);
        for district in 1..=DISTRICTS {
            let place = Place(warehouse, district);
            let orders = Orders::read(tables, &mut snapshot, &place, &mut findings)?;
            districts_ytd +=
                check_district(tables, &mut snapshot, &place, &orders, &payments, &mut findings)?;
            check_customers(tables, &mut snapshot, &place, &orders, &payments, &mut findings)?;
            paid += payments.of_district[Tables::district_index(warehouse, district)];
        }
        let place = format!("warehouse {warehouse}");
        findings.equal(1, &place, row.ytd.get(), districts_ytd);
        findings.equal(8, &place, row.ytd.get(), paid);
    }
    Ok(findings)
}

/// Sums over HISTORY.
struct Payments {
    of_district: Vec<i64>,
    of_customer: Vec<i64>,
}

impl Payments {
    fn sum(tables: &Tables, snapshot: &mut Snapshot<'_>) -> Result<Self> {
        let customers = tables.scale.customers as usize;
        let districts = usize::from(tables.scale.warehouses) * usize::from(DISTRICTS);
        let mut sums = Self { of_district: vec![0; districts], of_customer: vec![0; districts * customers] };
        snapshot.scan(&tables.history, .., |_, row| {
            let amount = i64::from(row.amount.get());
            sums.of_district[Tables::district_index(row.warehouse.get(), row.district)] += amount;
            let home = Tables::district_index(row.customer_warehouse.get(), row.customer_district);
            sums.of_customer[home * customers + row.customer.get() as usize - 1] += amount;
            ControlFlow::Continue(())
        })?;
        Ok(sums)
    }
}

/// Sums and lists of one district's ORDER, NEW-ORDER and ORDER-LINE tables.
struct Orders {
    count: u64,
    last: u32,
    waiting: Vec<u32>,
    /// Sum of O_OL_CNT.
    lines_announced: u64,
    lines: u64,
    /// Sum of delivered lines, by customer.
    delivered_amount: Vec<i64>,
}

/// An order while its lines are read.
struct OpenOrder {
    number: u32,
    customer: u32,
    carrier: u8,
    announced: u8,
    lines: u8,
}

impl Orders {
    /// Reads a district's orders and their lines side by side; finds violations of conditions 5, 6 and 7.
    fn read(
        tables: &Tables,
        snapshot: &mut Snapshot<'_>,
        place: &Place,
        findings: &mut Findings,
    ) -> Result<Self> {
        let &Place(w, d) = place;
        let mut waiting = Vec::new();
        snapshot.scan(&tables.new_order, keys::order(w, d, 0)..=keys::order(w, d, u32::MAX), |key, _| {
            waiting.push(key.2);
            ControlFlow::Continue(())
        })?;
        let mut open = Vec::new();
        snapshot.scan(&tables.order, keys::order(w, d, 0)..=keys::order(w, d, u32::MAX), |key, row| {
            open.push(OpenOrder {
                number: key.2,
                customer: row.customer.get(),
                carrier: row.carrier,
                announced: row.line_count,
                lines: 0,
            });
            ControlFlow::Continue(())
        })?;
        let mut orders = Self {
            count: open.len() as u64,
            last: open.last().map_or(0, |order| order.number),
            lines_announced: open.iter().map(|order| u64::from(order.announced)).sum(),
            lines: 0,
            delivered_amount: vec![0; tables.scale.customers as usize],
            waiting,
        };
        let mut at = 0;
        snapshot.scan(
            &tables.order_line,
            keys::order_line(w, d, 0, 0)..=keys::order_line(w, d, u32::MAX, u8::MAX),
            |key, row| {
                orders.lines += 1;
                while open.get(at).is_some_and(|order| order.number < key.2) {
                    at += 1;
                }
                let Some(order) = open.get_mut(at).filter(|order| order.number == key.2) else {
                    findings
                        .add(6, || format!("{place}: line {} of order {}, which is not there", key.3, key.2));
                    return ControlFlow::Continue(());
                };
                order.lines += 1;
                let delivered = row.delivery_date.get() != 0;
                if delivered != (order.carrier != 0) {
                    findings.add(7, || {
                        format!(
                            "{place} order {} line {}: delivered is {delivered}, its order differs",
                            key.2, key.3
                        )
                    });
                }
                if delivered {
                    orders.delivered_amount[order.customer as usize - 1] += i64::from(row.amount.get());
                }
                ControlFlow::Continue(())
            },
        )?;
        orders.check_each(&open, place, findings);
        Ok(orders)
    }

    /// Conditions 5 and 6 for every order.
    fn check_each(&self, open: &[OpenOrder], place: &Place, findings: &mut Findings) {
        for order in open {
            let waits = self.waiting.binary_search(&order.number).is_ok();
            if waits != (order.carrier == 0) {
                findings.add(5, || {
                    format!(
                        "{place} order {}: carrier {}, new-order row there: {waits}",
                        order.number, order.carrier
                    )
                });
            }
            if order.announced != order.lines {
                findings.add(6, || {
                    format!("{place} order {}: {} lines of {}", order.number, order.lines, order.announced)
                });
            }
        }
    }
}

/// Checks conditions 2, 3, 4 and 9; returns D_YTD for condition 1.
fn check_district(
    tables: &Tables,
    snapshot: &mut Snapshot<'_>,
    place: &Place,
    orders: &Orders,
    payments: &Payments,
    findings: &mut Findings,
) -> Result<i64> {
    let Some(row) = snapshot.get(&tables.district, &keys::district(place.0, place.1))? else {
        findings.add(2, || format!("{place} is not there"));
        return Ok(0);
    };
    findings.equal(2, place, row.next_order.get() - 1, orders.last);
    if let (Some(&first), Some(&last)) = (orders.waiting.first(), orders.waiting.last()) {
        findings.equal(2, place, last, orders.last);
        findings.equal(3, place, u64::from(last - first) + 1, orders.waiting.len() as u64);
    }
    findings.equal(4, place, orders.lines_announced, orders.lines);
    let paid = payments.of_district[Tables::district_index(place.0, place.1)];
    findings.equal(9, place, row.ytd.get(), paid);
    Ok(row.ytd.get())
}

/// Conditions 10, 11 and 12.
fn check_customers(
    tables: &Tables,
    snapshot: &mut Snapshot<'_>,
    place: &Place,
    orders: &Orders,
    payments: &Payments,
    findings: &mut Findings,
) -> Result<()> {
    let &Place(w, d) = place;
    let base = Tables::district_index(w, d) * tables.scale.customers as usize;
    let mut deliveries = 0;
    snapshot.scan(
        &tables.customer,
        keys::customer(w, d, 0)..=keys::customer(w, d, u32::MAX),
        |key, row| {
            let index = key.2 as usize - 1;
            let (balance, delivered) = (row.balance.get(), orders.delivered_amount[index]);
            let paid = payments.of_customer[base + index];
            let who = format_args!("{place} customer {}", key.2).to_string();
            findings.equal(10, &who, balance, delivered - paid);
            findings.equal(12, &who, balance + row.ytd_payment.get(), delivered);
            deliveries += u64::from(row.delivery_count.get());
            ControlFlow::Continue(())
        },
    )?;
    let waiting = orders.waiting.len() as u64;
    findings.equal(11, place, orders.count - waiting, u64::from(tables.scale.delivered()) + deliveries);
    Ok(())
}

#[cfg(test)]
mod tests;
