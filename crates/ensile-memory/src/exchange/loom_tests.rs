//! Two threads take, change and put back one box.

use super::Exchange;
use ensile_base::sync::{Arc, yield_now};
use loom::cell::Cell;

/// Loom knows who has read and written this cell, and whether that was in an order.
fn add_one(exchange: &Exchange<Cell<u64>>) {
    let value = loop {
        match exchange.take() {
            Some(value) => break value,
            None => yield_now(),
        }
    };
    value.set(value.get() + 1);
    exchange.put(value);
}

#[test]
fn loom_two_owners_of_an_exchange_never_have_its_box_at_once() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::new(Box::new(Cell::new(0))));
        let other = Arc::clone(&exchange);
        let thread = loom::thread::spawn(move || add_one(&other));
        add_one(&exchange);
        thread.join().expect("no panic");
        assert_eq!(exchange.take().map(|value| value.get()), Some(2));
    });
}
