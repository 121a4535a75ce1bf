//! A shop's stock that survives a crash. Deliveries add items, and sales take at most the items in stock.
//!
//! `cargo run --release -p ensile-objects --example stock` runs the example; a second run continues with the stock of
//! the first run. With folders as arguments, the example checks the folders by replays; the command
//! `ensile objects check DIR --program PATH` runs the example with folders.

use std::process::ExitCode;

use ensile_objects::{CodecResult, Objects, ObjectsBuilder, ObjectsResult, Persistent};

/// Number of pieces of an item.
#[derive(Debug)]
struct Stock(u64);

/// A change of the stock.
enum Movement {
    Delivered(u64),
    Taken(u64),
}

impl Persistent for Stock {
    type Operation = Movement;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(stock: &mut Option<Self>, movement: &Movement) -> u64 {
        let stock = stock.get_or_insert(Self(0));
        match movement {
            Movement::Delivered(count) => stock.0 += count,
            Movement::Taken(count) => stock.0 = stock.0.saturating_sub(*count),
        }
        stock.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(_version: u16, bytes: &[u8]) -> CodecResult<Self> {
        Ok(Self(u64::from_le_bytes(bytes.try_into().map_err(|_| "a stock has eight bytes")?)))
    }

    fn encode_operation(movement: &Movement, out: &mut Vec<u8>) {
        let (kind, count) = match movement {
            Movement::Delivered(count) => (0, count),
            Movement::Taken(count) => (1, count),
        };
        out.push(kind);
        out.extend_from_slice(&count.to_le_bytes());
    }

    fn decode_operation(_version: u16, bytes: &[u8]) -> CodecResult<Movement> {
        let (kind, count) = bytes.split_first().ok_or("a movement has a kind")?;
        let count = u64::from_le_bytes(count.try_into().map_err(|_| "a movement has a count")?);
        match kind {
            0 => Ok(Movement::Delivered(count)),
            1 => Ok(Movement::Taken(count)),
            _ => Err("no such movement".into()),
        }
    }
}

/// Takes `count` pieces of an item if the stock suffices. Without enough stock, the log gets no entry.
fn take(stock: &Objects<String, Stock>, item: &str, count: u64) -> ObjectsResult<bool> {
    let is_enough = |stock: Option<&Stock>| match stock {
        Some(stock) if stock.0 >= count => Ok(()),
        _ => Err(()),
    };
    Ok(stock.update_if(item.to_owned(), &Movement::Taken(count), is_enough)?.is_ok())
}

fn sell() -> ObjectsResult<()> {
    let stock: Objects<String, Stock> = ObjectsBuilder::new("stock.ensile").open()?;
    for item in ["apples", "pears"] {
        let now = stock.update(item.to_owned(), &Movement::Delivered(10))?;
        println!("{item}: 10 delivered, {now} now");
    }
    println!("7 apples taken: {}", take(&stock, "apples", 7)?);
    println!("1000 pears taken: {}", take(&stock, "pears", 1000)?);
    stock.for_each(|item, stock| println!("{item}: {}", stock.0))?;
    stock.close()
}

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        return ensile_objects::check_command::<String, Stock>(std::env::args_os().skip(1));
    }
    match sell() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
