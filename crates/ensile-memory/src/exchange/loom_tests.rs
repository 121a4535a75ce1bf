//! Two threads take, change and put back one box.

use super::Exchange;
use ensile_base::sync::{Arc, yield_now};

fn add_one(exchange: &Exchange<u64>) {
    let mut value = loop {
        match exchange.take() {
            Some(value) => break value,
            None => yield_now(),
        }
    };
    *value += 1;
    exchange.put(value);
}

#[test]
fn loom_two_owners_of_an_exchange_never_have_its_box_at_once() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::new(Box::new(0)));
        let other = Arc::clone(&exchange);
        let thread = loom::thread::spawn(move || add_one(&other));
        add_one(&exchange);
        thread.join().expect("no panic");
        assert_eq!(exchange.take().as_deref(), Some(&2));
    });
}
