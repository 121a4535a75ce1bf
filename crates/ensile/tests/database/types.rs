//! Types of an application as keys and values, made with nothing but what this crate exports.
//!
//! Neighbours: the codec's own tests have the encodings; here is what its macros look like from outside.

use ensile::codec::TotalF64;
use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use ensile::prelude::*;
use ensile::{composite_key, fixed_layout};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    sensor: String,
    newest: Descending<u64>,
}
composite_key!(EventKey { sensor: String, newest: Descending<u64> });

#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "ensile::codec::zerocopy")]
#[repr(C)]
struct Event {
    celsius: f64,
    flags: u64,
}
fixed_layout!(Event, "Event v1");

fn event(sensor: &str, time: u64) -> EventKey {
    EventKey { sensor: sensor.to_string(), newest: Descending(time) }
}

#[test]
fn structs_as_keys_and_values() -> Result<()> {
    let db = Database::in_memory()?;
    let events = db
        .define::<EventKey, Event>("events")
        .index("by_heat", 1, |key, event| (Descending(TotalF64(event.celsius)), key.sensor.clone()))
        .open()?;
    let by_heat = events.index::<(Descending<TotalF64>, String)>("by_heat")?;
    db.run(|tx| {
        for (sensor, time, celsius) in [("a", 5, 20.5), ("a", 9, -3.0), ("a\0", 7, 99.0), ("b", 1, 20.5)] {
            tx.put(&events, &event(sensor, time), &Event { celsius, flags: time })?;
        }
        Ok(())
    })?;
    db.run(|tx| {
        assert_eq!(tx.get_with(&events, &event("a", 9), |event| event.celsius)?, Some(-3.0));
        assert!(tx.update(&events, &event("a", 9), |event| event.flags += 1)?);
        let newest = tx.first(&events, event("a", u64::MAX)..)?;
        assert_eq!(newest, Some((event("a", 9), Event { celsius: -3.0, flags: 10 })));
        let hottest = tx.range(&by_heat, ..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<_>>>()?;
        assert_eq!(hottest, [event("a\0", 7), event("a", 5), event("b", 1), event("a", 9)]);
        let at_20_5 = tx.range(&by_heat, Prefix((Descending(TotalF64(20.5)),)));
        assert_eq!(at_20_5.count(), 2);
        Ok(())
    })
}

/// The event of a machine with the other byte order: the same name but for that.
struct OfTheOtherOrder;

impl Value for OfTheOtherOrder {
    const BYTES: Option<usize> = Some(16);

    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(&[0; 16]);
    }

    fn decode(_bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        Ok(Self)
    }

    fn type_name() -> String {
        let name = Event::type_name();
        if let Some(name) = name.strip_suffix(" le") {
            format!("{name} be")
        } else {
            name.replace(" be", " le")
        }
    }
}

#[test]
fn rows_from_a_machine_of_the_other_byte_order_are_refused_by_name() -> Result<()> {
    let db = Database::in_memory()?;
    drop(db.table::<u64, OfTheOtherOrder>("events")?);
    let Err(refused) = db.table::<u64, Event>("events") else {
        panic!("its numbers would be read backwards")
    };
    let text = refused.to_string();
    assert!(text.contains("Event v1[16] le") && text.contains("Event v1[16] be"), "{text}");
    Ok(())
}

#[test]
fn every_shipped_key_type_keeps_its_order() -> Result<()> {
    fn in_order<K: Key + Clone + std::fmt::Debug>(db: &Database, name: &str, mut keys: Vec<K>) -> Result<()> {
        let table = db.table::<K, ()>(name)?;
        db.run(|tx| keys.iter().try_for_each(|key| tx.put(&table, key, &())))?;
        let found =
            db.run(|tx| tx.range(&table, ..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<K>>>())?;
        keys.sort();
        assert_eq!(found, keys);
        Ok(())
    }
    let db = Database::in_memory()?;
    in_order(&db, "i8", vec![0i8, -1, 1, i8::MIN, i8::MAX])?;
    in_order(&db, "u128", vec![0u128, 1 << 100, u128::MAX])?;
    in_order(&db, "bool", vec![true, false])?;
    in_order(&db, "char", vec!['z', 'a', 'ÿ', '\0', char::MAX])?;
    in_order(&db, "array", vec![[1u8, 0], [0, 1], [0, 0]])?;
    in_order(&db, "option", vec![Some("b".to_string()), None, Some(String::new()), Some("a".to_string())])?;
    in_order(
        &db,
        "descending",
        vec![Descending("b".to_string()), Descending("ba".to_string()), Descending("a".to_string())],
    )?;
    in_order(
        &db,
        "nested",
        vec![((1u8, b"\0".to_vec()), Some(-1i16)), ((1, b"".to_vec()), None), ((0, b"x".to_vec()), Some(3))],
    )?;
    in_order(
        &db,
        "float",
        vec![
            TotalF64(0.0),
            TotalF64(-0.0),
            TotalF64(f64::NEG_INFINITY),
            TotalF64(1e-300),
            TotalF64(f64::NAN),
        ],
    )
}

#[cfg(feature = "serde")]
#[test]
fn serde_types_as_values() -> Result<()> {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order {
        customer: String,
        lines: Vec<(u32, u8)>,
    }
    ensile::serde_value!(Order, "Order v1");

    let db = Database::in_memory()?;
    let orders = db
        .define::<u32, Order>("orders")
        .index("by_customer", 1, |_id, order| order.customer.clone())
        .open()?;
    let tags = db.table::<u32, Serde<Vec<String>>>("tags")?;
    let by_customer = orders.index::<String>("by_customer")?;
    let order = Order { customer: "ada".into(), lines: vec![(7, 1), (9, 3)] };
    db.run(|tx| {
        tx.put(&orders, &1, &order)?;
        tx.put(&tags, &1, &Serde(vec!["new".into()]))
    })?;
    assert_eq!(db.run(|tx| tx.find(&by_customer, "ada").collect::<Result<Vec<_>>>())?, [(1, order)]);
    assert_eq!(db.run(|tx| tx.get(&tags, &1))?, Some(Serde(vec!["new".to_string()])));
    Ok(())
}
